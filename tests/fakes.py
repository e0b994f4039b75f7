"""An engine without weights: a byte tokenizer and scripted answers, with the real interface.

The fakes inherit from the real classes, so that the type checker holds them to the same signatures.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from gemmachat.catalog import ResolvedModel
from gemmachat.engine import Engine
from gemmachat.errors import ContextFullError, DamagedFileError
from gemmachat.sampling import SamplingParams
from gemmachat.sanitize import Utf8Stream
from gemmachat.session import DraftPolicy, FinishReason, Session, TokenEvent
from gemmachat.stats import Stats

CONTROLS = (
    *("<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>"),
    *("<|think|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>"),
    *("<|tool_response>", "<tool_response|>", '<|"|>'),
)
E_SERIES_TEMPLATE = "{{ bos_token }}{% for m in messages %}<|turn>{{ m.role }}{% endfor %}"
LARGE_TEMPLATE = E_SERIES_TEMPLATE + "{{- '<|channel>thought\\n<channel|>' -}}"


class ByteVocab:
    """Control tokens first, then one token for each byte."""

    size = len(CONTROLS) + 256

    def tokenize(self, text: str) -> list[int]:
        return [len(CONTROLS) + byte for byte in text.encode("utf-8")]

    def piece(self, token: int) -> bytes:
        return b"" if token < len(CONTROLS) else bytes([token - len(CONTROLS)])

    def control(self, name: str) -> int:
        if name not in CONTROLS:
            raise DamagedFileError(f"the vocabulary has no {name}")
        return CONTROLS.index(name)

    def is_end(self, token: int) -> bool:
        return CONTROLS[token : token + 1] in (("<eos>",), ("<turn|>",), ("<|tool_response>",))

    def encode(self, text: str) -> list[int]:
        """Tokens of a text in which control tokens are spelled out."""
        parts = re.split("(" + "|".join(map(re.escape, CONTROLS)) + ")", text)
        return [
            token
            for part in parts
            for token in ([self.control(part)] if part in CONTROLS else self.tokenize(part))
        ]

    def decode(self, tokens: Sequence[int]) -> str:
        """Inverse of `encode`."""
        spelled = [
            CONTROLS[token].encode() if token < len(CONTROLS) else self.piece(token)
            for token in tokens
        ]
        return b"".join(spelled).decode("utf-8", "replace")


class FakeSession(Session):
    """Plays `answers` one by one; the last one again and again."""

    def __init__(self, engine: FakeEngine, n_ctx: int, exact: bool) -> None:
        self.n_ctx = n_ctx
        self.exact = exact
        self.prompts: list[list[int]] = []
        self.samplings: list[SamplingParams] = []
        self.drafts: list[DraftPolicy] = []
        self.closed = False
        self._engine = engine
        self._timeline: list[int] = []
        self._cancel = threading.Event()
        self._stats = Stats()

    def generate(
        self,
        tokens: Sequence[int],
        sampling: SamplingParams,
        *,
        draft: DraftPolicy = "auto",
        max_tokens: int | None = None,
    ) -> Iterator[TokenEvent]:
        if len(tokens) >= self.n_ctx:
            raise ContextFullError(
                f"the prompt has {len(tokens)} tokens and the context {self.n_ctx}"
            )
        self.prompts.append(list(tokens))
        self.samplings.append(sampling)
        self.drafts.append(draft)
        answers = self._engine.answers
        script = answers[min(len(self.prompts), len(answers)) - 1]
        cached = 0
        for old, new in zip(self._timeline, tokens[:-1], strict=False):
            if old != new:
                break
            cached += 1
        self._timeline = list(tokens)
        self._cancel.clear()
        played = self._engine.vocab.encode(script + "<turn|>")
        return self._play(played, len(tokens), cached, draft, max_tokens)

    def _play(
        self, script: list[int], prompt: int, cached: int, draft: DraftPolicy, limit: int | None
    ) -> Iterator[TokenEvent]:
        length = draft if isinstance(draft, int) else {"auto": 3, "off": 0}[draft]
        if not self._engine.has_drafter:
            length = 0
        text = Utf8Stream()
        made = accepted = 0
        try:
            for token in script:
                ended = self._ended(made)
                if ended:
                    yield TokenEvent("", None, False, 0.0, ended)
                    return
                time.sleep(self._engine.pause_s)
                from_draft = made % (length + 1) < length
                self._timeline.append(token)
                made += 1
                accepted += from_draft
                ended = "length" if made == limit else None
                if self._engine.vocab.is_end(token):
                    ended = "stop"
                said = text.feed(self._engine.vocab.piece(token))
                yield TokenEvent(said, token, from_draft, -0.5, ended)
                if ended:
                    return
        finally:
            self._set_stats(prompt, cached, made, accepted, draft)

    def _ended(self, made: int) -> FinishReason | None:
        if made == self._engine.hang_at:
            self._engine.on_hang()
            assert self._cancel.wait(60), "nobody has cancelled the answer"
        if self._cancel.is_set():
            return "cancelled"
        return "context" if len(self._timeline) == self.n_ctx else None

    def _set_stats(
        self,
        prompt: int,
        cached: int,
        made: int,
        accepted: int,
        draft: DraftPolicy,
    ) -> None:
        rounds = made - accepted
        self._stats = Stats(
            prompt_tokens=prompt,
            cached_tokens=cached,
            completion_tokens=made,
            ttft_s=0.25,
            prefill_tps=100.0,
            decode_tps=20.0,
            total_s=2.0,
            rounds=rounds,
            drafted=accepted,
            accepted=accepted,
            acceptance_rate=1.0 if accepted else 0.0,
            mean_accepted_length=made / rounds if rounds else 0.0,
            accepted_by_position=(1.0, 0.5) if accepted else (),
            drafted_by_position=(2, 2) if accepted else (),
            draft_s=0.5,
            verify_s=1.0,
            sample_s=0.125,
            draft_policy=str(draft),
        )

    def cancel(self) -> None:
        self._cancel.set()

    def clear_cancel(self) -> None:
        self._cancel.clear()

    def stats(self) -> Stats:
        return self._stats

    def close(self) -> None:
        self.closed = True


class FakeEngine(Engine):
    """`hang_at`: index of the token before which every answer calls `on_hang` and then waits to be
    cancelled. `pause_s` goes before every token.
    """

    vocab: ByteVocab

    def __init__(
        self,
        *answers: str,
        has_drafter: bool = True,
        context_length: int = 4096,
        chat_template: str | None = E_SERIES_TEMPLATE,
        hang_at: int | None = None,
    ) -> None:
        self.vocab = ByteVocab()
        self.model_name = "fake"
        self.answers = answers or ("Hello.",)
        self.has_drafter = has_drafter
        self.kernels = "ggml"
        self.context_length = context_length
        self.chat_template = chat_template
        self.hang_at = hang_at
        self.pause_s = 0.0
        self.on_hang: Callable[[], object] = lambda: None
        self.opened: list[tuple[ResolvedModel, int | None]] = []
        self.sessions: list[FakeSession] = []
        self.closed = False

    def session(
        self,
        *,
        n_ctx: int | None = None,
        exact: bool = False,
        trace_logits: bool = False,
    ) -> FakeSession:
        self.sessions.append(FakeSession(self, n_ctx or self.context_length, exact))
        return self.sessions[-1]

    def close(self) -> None:
        self.closed = True
