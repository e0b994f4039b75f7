"""One timeline of tokens: the prompt, reused or prefilled, and the answer, token by token."""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from gemmachat import schedule_state
from gemmachat.bridge import CancelledError
from gemmachat.bridge_session import SessionHandle
from gemmachat.draft_policy import describe
from gemmachat.errors import ContextFullError, EngineError, UsageError
from gemmachat.logprobs import TokenLogprobs
from gemmachat.native_structs import MAX_DRAFT, Inspection, NativeSampling, NativeSchedule
from gemmachat.sampling import MAX_SEED, SamplingParams, whole_number
from gemmachat.sanitize import Utf8Stream
from gemmachat.stats import Stats, describe_early_exit, measure
from gemmachat.vocab import Vocab, find_control

if TYPE_CHECKING:
    from gemmachat.engine import Engine

DraftPolicy = Literal["auto", "off"] | int
FinishReason = Literal["stop", "length", "context", "cancelled"]


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One token of the answer, or the end of it."""

    text: str
    """Text that this token completes; "" for a control token or an unfinished character."""
    token: int | None
    """Token id; None only in a last event that reports why the answer stopped without a token."""
    from_draft: bool
    """Whether the drafter proposed the token and the target accepted it."""
    logprob: float
    """Natural log of the token's probability under the target's softmax at temperature 1."""
    finish_reason: FinishReason | None
    """Set on the last event."""
    logprobs: TokenLogprobs | None = None
    """Alternatives, where `SamplingParams.logprobs` asks for them."""


class Session:
    """One timeline of tokens on an engine. Open it with `Engine.session`."""

    def __init__(
        self,
        engine: Engine,
        handle: SessionHandle,
        n_ctx: int,
        schedule_file: Path | None,
        saved_schedule: NativeSchedule,
        *,
        early_exit: bool,
        traces_recall: bool,
    ) -> None:
        self._engine = engine
        self._handle = handle
        self._vocab = engine.vocab
        self._answers = 0  # how many have been asked for
        self._stats = Stats()
        self._thought = _thought_marks(engine.vocab)
        self._early_exit = early_exit
        self._traces_recall = traces_recall
        self._think = find_control(engine.vocab, "<|think|>")
        self.n_ctx = n_ctx
        self._schedule_file = schedule_file
        self._saved_schedule = saved_schedule

    def generate(
        self,
        tokens: Sequence[int],
        sampling: SamplingParams,
        *,
        draft: DraftPolicy = "auto",
        max_tokens: int | None = None,
    ) -> Generator[TokenEvent, None, None]:
        """Stream the answer to a prompt of token ids.

        The longest prefix that the KV cache still holds is reused, the rest is prefilled. The last
        event carries the finish reason. Raises `UsageError` on a draft length or limit that makes
        no sense and `ContextFullError` on a prompt that does not fit. A new call ends the one
        before it: reading on from the old answer raises `EngineError`.
        """
        n_draft = self._draft_length(draft)
        if max_tokens is not None and whole_number("max-tokens", max_tokens) < 1:
            raise UsageError(f"max-tokens must be 1 or more, not {max_tokens}")
        tokens = list(tokens)
        if not tokens:
            raise UsageError("the prompt is empty")
        if len(tokens) >= self.n_ctx:
            raise ContextFullError(
                f"the prompt has {len(tokens)} tokens and the context holds {self.n_ctx}, which "
                "leaves no room for an answer: shorten it or use a larger --ctx"
            )
        seed = secrets.randbelow(MAX_SEED) if sampling.seed is None else sampling.seed
        for token, _ in sampling.logit_bias:
            if token >= self._vocab.size:
                raise UsageError(
                    f"there is no token {token} to bias: the vocabulary has {self._vocab.size}"
                )
        self._handle.set_sampling(
            NativeSampling.of(
                sampling,
                seed,
                banned=self._engine.suppressed,
                # Only a prompt that asks for thoughts gets any before a grammar.
                thought=self._thought if self._think in tokens else None,
            )
        )
        self._answers += 1
        limit = min(int(max_tokens or self.n_ctx), self.n_ctx)
        learns = n_draft < 0 and sampling.seed is None
        return self._stream(tokens, n_draft, limit, self._answers, int(sampling.logprobs), learns)

    def _draft_length(self, draft: DraftPolicy) -> int:
        """What `gc_session_step` calls n_draft: -1 decides by itself."""
        if draft == "off":
            return 0
        if draft == "auto":
            return -1
        if not isinstance(draft, int) or not 1 <= draft <= MAX_DRAFT:
            raise UsageError(f"draft must be auto, off or 1 to {MAX_DRAFT}, not {draft}")
        if not self._engine.has_drafter:
            raise UsageError(f"drafting {draft} tokens needs a drafter: pass --drafter PATH")
        return draft

    def _stream(
        self,
        tokens: list[int],
        n_draft: int,
        limit: int,
        number: int,
        n_logprobs: int,
        learns: bool,
    ) -> Generator[TokenEvent, None, None]:
        text = Utf8Stream()
        started = time.perf_counter()
        first_round: tuple[float, int] | None = None
        n_new = 0
        reason: FinishReason | None = None
        try:
            self._require_current(number)
            self._handle.sync(tokens)
            while reason is None:
                self._require_current(number)
                emitted = self._handle.step(n_draft, limit - n_new)
                if first_round is None:
                    first_round = (time.perf_counter(), len(emitted))
                # All of the round at once: whoever reads them may begin another answer in between.
                kept = [self._logprobs(index, n_logprobs) for index in range(len(emitted))]
                for token, alternatives in zip(emitted, kept, strict=True):
                    n_new += 1
                    reason = self._finish_reason(token.id, n_new, limit, len(tokens))
                    said = text.feed(self._vocab.piece(token.id))
                    if reason is not None:
                        said += text.flush()
                    yield TokenEvent(
                        said, token.id, token.from_draft, token.logprob, reason, alternatives
                    )
        except CancelledError:
            yield TokenEvent(text.flush(), None, False, 0.0, "cancelled")
        finally:
            if number == self._answers:
                self._handle.clear_cancel()  # one that came too late to stop anything
                native = self._handle.stats()
                self._stats = measure(
                    native,
                    prompt_tokens=len(tokens),
                    completion_tokens=n_new,
                    started=started,
                    first_round=first_round,
                    draft_policy=describe(n_draft, native),
                    early_exit=describe_early_exit(
                        native, self._engine.skipped_layers, enabled=self._early_exit
                    ),
                    traces_recall=self._traces_recall,
                )
                if learns:
                    self._save_schedule()

    def _save_schedule(self) -> None:
        learned = self._handle.schedule()
        if self._schedule_file is not None and learned is not None:
            self._saved_schedule = schedule_state.save(
                self._schedule_file, self._saved_schedule, learned
            )

    def _logprobs(self, index: int, n: int) -> TokenLogprobs | None:
        return TokenLogprobs.of(self._handle.logprobs(index, n)) if n else None

    def _require_current(self, number: int) -> None:
        if number != self._answers:
            raise EngineError("this answer has ended: its session has begun another one")

    def _finish_reason(
        self, token: int, n_new: int, limit: int, n_prompt: int
    ) -> FinishReason | None:
        if self._vocab.is_end(token):
            return "stop"
        if n_new >= limit:
            return "length"
        if n_prompt + n_new >= self.n_ctx:
            return "context"
        return None

    def cancel(self) -> None:
        """Stop the answer within one pass, or the next one if none is running. Any thread."""
        self._handle.cancel()

    def clear_cancel(self) -> None:
        """Take back a cancel that nothing has answered."""
        self._handle.clear_cancel()

    def stats(self) -> Stats:
        """Figures of the last `generate`."""
        return self._stats

    def time_pass(self, width: int) -> float:
        """Seconds that a target pass of `width` tokens takes after the timeline.

        The pass leaves no trace. Raises `UsageError` where there is no such pass.
        """
        started = time.perf_counter()
        self._handle.probe(width)
        return time.perf_counter() - started

    def inspect(self) -> Inspection:
        """The session's bookkeeping, for tests and diagnostics."""
        return self._handle.inspect()

    def close(self) -> None:
        """Stop what is running and free the timeline."""
        self._handle.free()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _thought_marks(vocab: Vocab) -> tuple[int, int] | None:
    """The tokens that open and close a thought; None in a vocabulary without them."""
    opening, closing = find_control(vocab, "<|channel>"), find_control(vocab, "<channel|>")
    return None if opening is None or closing is None else (opening, closing)
