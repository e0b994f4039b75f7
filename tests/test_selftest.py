"""The self-test finds texts that differ, and does not mistake silence for evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest
from conftest import Command
from fakes import FakeEngine, FakeSession

from gemmachat.engine import DraftPolicy, TokenEvent
from gemmachat.sampling import SamplingParams
from gemmachat.selftest import DRAFT_LENGTHS, load_prompts, run_selftest


class FaultySession(FakeSession):
    """Says something else in the fifth text when it drafts three tokens."""

    def generate(
        self,
        tokens: Sequence[int],
        sampling: SamplingParams,
        *,
        draft: DraftPolicy = "auto",
        max_tokens: int | None = None,
    ) -> Iterator[TokenEvent]:
        self._engine.answers = ("abcde",)
        if draft == 3 and len(self.prompts) == 4:
            self._engine.answers = ("abxde",)
        return super().generate(tokens, sampling, draft=draft, max_tokens=max_tokens)


class FaultyEngine(FakeEngine):
    def session(
        self, *, n_ctx: int | None = None, exact: bool = False, trace_logits: bool = False
    ) -> FakeSession:
        return FaultySession(self, n_ctx or self.context_length, exact)


def ignore(_line: str) -> None:
    pass


def test_prompts_are_many_and_different() -> None:
    prompts = load_prompts()
    assert len(prompts) >= 40
    assert len({prompt.text for prompt in prompts}) == len(prompts)
    assert len({prompt.kind for prompt in prompts}) >= 8


def test_every_draft_length_is_compared_in_exact_mode() -> None:
    engine = FakeEngine("abc")
    report = run_selftest(engine, "fake", ignore)
    assert report.passed
    assert [session.drafts[0] for session in engine.sessions] == ["off", *DRAFT_LENGTHS]
    for session in engine.sessions:
        assert session.exact
        assert len(session.prompts) == len(load_prompts())
        assert {sampling.temperature for sampling in session.samplings} == {0.0}


def test_one_text_that_differs_fails_and_is_shown(command: Command) -> None:
    done = command("selftest", "--json", engine=FaultyEngine())
    assert done.code == 1
    report = json.loads(done.out)
    outcomes = {
        outcome["draft"]: outcome for outcome in report["checks"]["greedy_identity"]["outcomes"]
    }
    assert not report["passed"]
    assert [outcomes[draft]["texts"] - outcomes[draft]["identical"] for draft in DRAFT_LENGTHS] == [
        0, 0, 1, 0, 0,
    ]  # fmt: skip
    [difference] = outcomes[3]["differences"]
    assert difference["prompt"] == load_prompts()[4].text
    assert difference["position"] == 2

    readable = command("selftest", engine=FaultyEngine())
    assert readable.code == 1
    assert "differs at token 2" in readable.out
    assert readable.out.endswith("self-test of tiny: FAILED\n")


def test_identical_texts_pass(command: Command) -> None:
    done = command("selftest", engine=FakeEngine("abc"))
    assert done.code == 0
    assert f"draft 7: {len(load_prompts())} of {len(load_prompts())} texts identical" in done.out
    assert "passed" in done.out
    assert done.err == ""


def test_identical_texts_without_a_single_draft_are_no_evidence() -> None:
    assert not run_selftest(FakeEngine("abc", has_drafter=False), "fake", ignore).passed


def test_progress_is_told_for_every_text() -> None:
    lines: list[str] = []
    run_selftest(FakeEngine("abc"), "fake", lines.append)
    assert len(lines) == (1 + len(DRAFT_LENGTHS)) * len(load_prompts())
    assert lines[0] == f"no draft: text 1/{len(load_prompts())}"


def test_model_without_a_drafter_is_refused(
    command: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("models") / "x.gguf"
    target.write_bytes(b"")
    done = command("selftest", str(target))
    assert done.code == 2
    assert "pass --drafter PATH" in done.err
