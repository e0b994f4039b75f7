"""A loaded pair of models and the timelines that run on it.

An `Engine` is a target, its drafter and their vocabulary. A `Session` is one timeline: it takes the
whole prompt every time, reuses what its KV cache already holds, and streams one event per token.

    with Engine.load("target.gguf", "drafter.gguf") as engine, engine.session() as session:
        for event in session.generate(prompt_tokens, SamplingParams(temperature=0.0)):
            print(event.text, end="")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from gemmachat import clusters, schedule_state, settings
from gemmachat.bridge_engine import EngineHandle
from gemmachat.bridge_session import SessionHandle
from gemmachat.cluster_worker import ClusterWorker
from gemmachat.errors import DamagedFileError, UsageError
from gemmachat.gguf_info import check_pair, read_header, suppressed_tokens
from gemmachat.gguf_model import read_shape
from gemmachat.memory import Room, available_memory
from gemmachat.native import installed_version
from gemmachat.native_structs import FLASH_ATTENTION, KV_TYPES, NativeSchedule, SessionParams
from gemmachat.processors import MAX_THREADS, default_threads
from gemmachat.sampling import whole_number
from gemmachat.session import Session
from gemmachat.vocab import ModelVocab, Vocab

if TYPE_CHECKING:
    from gemmachat.gguf_types import GgufInfo

KvType = Literal["f16", "q8_0"]

DEFAULT_CONTEXT = 4096


class Engine:
    """A loaded target with its drafter. Use `Engine.load`, and close it or use `with`."""

    def __init__(
        self,
        handle: EngineHandle,
        target: Path,
        *,
        has_drafter: bool,
        threads: int,
        suppressed: tuple[int, ...] = (),
        schedule_files: Mapping[bool, Path | None],
        cluster_worker: ClusterWorker | None = None,
        room: Room | None = None,
    ) -> None:
        self._handle = handle
        self._threads = threads
        self._schedule_files = schedule_files  # by whether the drafter's head has clusters
        self._cluster_worker = cluster_worker
        self._room = room
        self.vocab: Vocab = ModelVocab(handle)
        self.model_name = target.stem
        self.context_length = handle.context_length()
        self.chat_template = handle.chat_template()
        self.skipped_layers = handle.skipped_layers()
        """Layers that prefill leaves out, as they own no keys and values."""
        self.kernels = handle.kernels()
        """The names of the installed matrix kernels, where it uses any of them, else "ggml"."""
        self.packed_bytes = handle.packed_bytes()
        """Bytes of both files' weights that gemmachat's own kernels multiply."""
        self.has_drafter = has_drafter
        self.suppressed = suppressed
        """Tokens that the model's file says must never be drawn."""

    @classmethod
    def load(
        cls,
        target: Path | str,
        drafter: Path | str | None = None,
        *,
        threads: int | None = None,
        n_ctx: int | None = None,
        exact: bool = False,
        force: bool = False,
        kernels: str | None = None,
    ) -> Engine:
        """Check both files' headers and load them; passes run on `threads` threads.

        Models that would not fit in memory with a session of `n_ctx` tokens, `exact` or not, are
        refused, and so are larger sessions later; with `force` nothing is.
        Where a drafter would gain by clusters of its tokens and its file has none, they are
        computed in the background and kept for the next time.
        With `kernels` "auto" gemmachat's own matrix kernels multiply the weights where there are
        any for this processor (their gain was measured on AVX2, not on AVX-512 or AVX-VNNI), with
        "ggml" never; None: as GEMMACHAT_KERNELS says, else "auto". Where that variable was "ggml"
        when the process first loaded llama.cpp, "auto" has none to use.
        Raises `NotFoundError`, `DamagedFileError` or `PairMismatchError`, before native code has
        seen a file that fails the check, `MemoryLimitError`, and `UsageError` on an impossible
        number of threads or kernels that nobody knows, in that variable too. The files are mapped,
        not read: they must stay as they are while the engine is open. One that is truncated
        meanwhile ends the process with SIGBUS.
        """
        threads = default_threads() if threads is None else whole_number("threads", threads)
        if not 1 <= threads <= MAX_THREADS:
            raise UsageError(f"threads must be between 1 and {MAX_THREADS}, not {threads}")
        choice = settings.kernels(kernels)
        target = Path(target)
        drafter = None if drafter is None else Path(drafter)
        header = read_header(target)
        drafter_header = None if drafter is None else read_header(drafter)
        check_pair(header, drafter_header)
        room = None if force else Room(header, drafter_header, available_memory())
        if room is not None:
            longest = read_shape(header).context
            room.require(min(n_ctx or DEFAULT_CONTEXT, longest), exact=exact)
        handle = EngineHandle(target, drafter, choice)
        try:
            for checked in filter(None, (header, drafter_header)):
                if not checked.state.is_at(checked.path):
                    raise DamagedFileError(
                        f"{checked.path} changed while it was loaded: load it again"
                    )
            return cls(
                handle,
                target,
                has_drafter=drafter is not None,
                threads=threads,
                suppressed=suppressed_tokens(header),
                schedule_files={
                    clustered: schedule_state.state_file(
                        target,
                        drafter,
                        clustered=clustered,
                        threads=threads,
                        llama_cpp=installed_version("llama-cpp-python"),
                        kernels=handle.kernels(),
                    )
                    for clustered in (False, True)
                },
                cluster_worker=_clusters(handle, drafter_header),
                room=room,
            )
        except BaseException:
            handle.free()
            raise

    def session(
        self,
        *,
        n_ctx: int | None = None,
        exact: bool = False,
        kv_type: KvType = "f16",
        flash_attention: bool | None = None,
        no_early_exit: bool = False,
        trace_logits: bool = False,
        dense_head: bool = False,
        trace_recall: bool = False,
    ) -> Session:
        """Open a timeline of at most `n_ctx` tokens (default 4096, or what the model knows).

        With `exact`, every pass after prefill has one width, so that greedy output on CPU is the
        same bit for bit whatever is drafted. Keys and values are kept as `kv_type`; "q8_0" takes
        about half the memory of "f16" and needs flash attention, which None uses where llama.cpp
        supports it. `no_early_exit` has prefill compute every layer, for comparison.
        `trace_logits` keeps a hash of each token's logits. With `dense_head` drafts are drawn from
        all tokens even if the drafter has clusters of them; `trace_recall` finds out how often the
        clusters hold the likeliest token of all. Raises `UsageError` or
        `MemoryLimitError`.
        """
        if n_ctx is None:
            n_ctx = min(DEFAULT_CONTEXT, self.context_length)
        n_ctx = whole_number("the context", n_ctx)
        if not 1 <= n_ctx <= self.context_length:
            raise UsageError(
                f"the context must be between 1 and {self.context_length} tokens "
                f"(what {self.model_name} was trained for), not {n_ctx}"
            )
        if kv_type not in KV_TYPES:
            raise UsageError(f"kv_type must be one of {', '.join(KV_TYPES)}, not {kv_type}")
        if kv_type != "f16" and flash_attention is False:
            raise UsageError(f"keys and values as {kv_type} need flash attention")
        if self._room is not None:
            self._room.require(n_ctx, exact=exact, kv_type=kv_type, flash_attention=flash_attention)
        # Decided once: a worker may have the clusters any moment.
        clustered = not dense_head and self._handle.has_clusters()
        params = SessionParams(
            n_ctx=n_ctx,
            n_threads=self._threads,
            kv_type=KV_TYPES[kv_type],
            flash_attention=FLASH_ATTENTION[flash_attention],
            exact=exact,
            no_early_exit=no_early_exit,
            trace_logits=trace_logits,
            dense_head=not clustered,
            trace_recall=trace_recall,
        )
        # With other settings costs are not what they usually are.
        usual = not (exact or no_early_exit or dense_head or trace_recall)
        usual = usual and kv_type == "f16" and flash_attention is None
        file = self._schedule_files[clustered] if usual else None
        saved = NativeSchedule() if file is None else schedule_state.load(file)
        handle = SessionHandle(self._handle, params, saved)
        return Session(
            self,
            handle,
            n_ctx,
            file,
            saved,
            early_exit=not no_early_exit,
            traces_recall=trace_recall,
        )

    @property
    def schedule_file(self) -> Path | None:
        """Where what sessions that are opened now learn about drafting is kept."""
        return self._schedule_files[self._handle.has_clusters()]

    def wait_for_clusters(self, timeout_s: float | None = None) -> bool:
        """Whether the computing of the drafter's clusters, if any, has ended within that time."""
        return self._cluster_worker is None or self._cluster_worker.wait(timeout_s)

    def close(self) -> None:
        """Free the models and every session that is still open."""
        if self._cluster_worker is not None:
            self._cluster_worker.stop()
        self._handle.free()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _clusters(handle: EngineHandle, drafter: GgufInfo | None) -> ClusterWorker | None:
    """Give a drafter that lacks clusters those that were kept, or have them computed."""
    if drafter is None or not clusters.lacks_clusters(drafter):
        return None
    kept = clusters.find(drafter)
    if kept is None:
        return ClusterWorker(handle, drafter)
    handle.set_clusters(kept.count, kept.top, kept.centroids, kept.ordering)
    return None
