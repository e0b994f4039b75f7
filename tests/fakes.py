"""An engine without weights: a byte tokenizer and scripted answers, with the real interface.

The fakes inherit from the real classes, so that the type checker holds them to the same signatures.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence

from gemmachat.engine import DraftPolicy, Engine, FinishReason, Session, TokenEvent
from gemmachat.errors import ContextFullError, DamagedFileError
from gemmachat.sampling import SamplingParams
from gemmachat.stats import Stats

CONTROLS = ("<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>")
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
        return CONTROLS[token : token + 1] in (("<eos>",), ("<turn|>",))

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

    def __init__(self, engine: FakeEngine, n_ctx: int, threads: int | None, exact: bool) -> None:
        self.n_ctx = n_ctx
        self.threads = threads
        self.exact = exact
        self.prompts: list[list[int]] = []
        self.samplings: list[SamplingParams] = []
        self.drafts: list[DraftPolicy] = []
        self.closed = False
        self._engine = engine
        self._timeline: list[int] = []
        self._cancel = threading.Event()
        self._hanging = threading.Event()
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
        return self._play(self._engine.vocab.encode(script), len(tokens), cached, draft, max_tokens)

    def _play(
        self, script: list[int], prompt: int, cached: int, draft: DraftPolicy, limit: int | None
    ) -> Iterator[TokenEvent]:
        length = draft if isinstance(draft, int) else {"auto": 3, "off": 0}[draft]
        if not self._engine.has_drafter:
            length = 0
        pending = b""
        made = accepted = rounds = 0
        for index, token in enumerate([*script, self._engine.vocab.control("<turn|>")]):
            if index == self._engine.hang_at:
                self._hanging.set()
                self._cancel.wait()
            ended: FinishReason | None = None
            if self._cancel.is_set():
                ended = "cancelled"
            elif len(self._timeline) == self.n_ctx:
                ended = "context"
            if ended:
                yield TokenEvent("", None, False, 0.0, ended)
                break
            from_draft = made % (length + 1) < length
            self._timeline.append(token)
            made += 1
            accepted += from_draft
            rounds += not from_draft
            if token == self._engine.vocab.control("<turn|>"):
                ended = "stop"
            elif made == limit:
                ended = "length"
            pending += self._engine.vocab.piece(token)
            try:
                text, pending = pending.decode("utf-8"), b""
            except UnicodeDecodeError:
                text = ""
            self._set_stats(prompt, cached, made, accepted, rounds, draft)
            yield TokenEvent(text, token, from_draft, -0.5, ended)
            if ended:
                break
        self._set_stats(prompt, cached, made, accepted, rounds, draft)

    def _set_stats(
        self,
        prompt: int,
        cached: int,
        made: int,
        accepted: int,
        rounds: int,
        draft: DraftPolicy,
    ) -> None:
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
            draft_s=0.5,
            verify_s=1.0,
            sample_s=0.125,
            draft_policy=str(draft),
        )

    def cancel(self) -> None:
        self._cancel.set()

    def cancel_soon(self) -> None:
        """Cancel once an answer waits at `hang_at`."""

        def wait_and_cancel() -> None:
            self._hanging.wait()
            self.cancel()

        threading.Thread(target=wait_and_cancel).start()

    def stats(self) -> Stats:
        return self._stats

    def close(self) -> None:
        self.closed = True


class FakeEngine(Engine):
    """`hang_at`: index of the token before which every answer waits to be cancelled."""

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
        self.context_length = context_length
        self.chat_template = chat_template
        self.hang_at = hang_at
        self.sessions: list[FakeSession] = []
        self.closed = False

    def session(
        self,
        *,
        n_ctx: int | None = None,
        threads: int | None = None,
        exact: bool = False,
        trace_logits: bool = False,
    ) -> FakeSession:
        self.sessions.append(FakeSession(self, n_ctx or self.context_length, threads, exact))
        return self.sessions[-1]

    def close(self) -> None:
        self.closed = True
