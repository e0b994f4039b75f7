"""The self-test finds every kind of fault, and does not mistake silence for evidence."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from conftest import Command
from embedded import DRAFTER, TARGET
from fakes import FakeEngine, FakeSession
from scipy import stats as scipy_stats

from gemmachat import Engine, selftest
from gemmachat.evidence.answers import Effort, Examiner, load_prompts
from gemmachat.evidence.counters import contradictions
from gemmachat.evidence.greedy import DRAFT_LENGTHS
from gemmachat.evidence.law import FALSE_ALARMS, SETTINGS, WORDS, SameLaw, check_law
from gemmachat.evidence.significance import chi_square_survival, g_test, pool
from gemmachat.sampling import SamplingParams
from gemmachat.selftest import run_selftest
from gemmachat.session import DraftPolicy, Session, TokenEvent
from gemmachat.stats import Stats

SMALL = Effort(samples=(50, 100), constrained=8)
N_TEXTS = len(load_prompts().greedy)
PERSON = '{"name": "Ann", "age": 30}'


class HonestSession(FakeSession):
    """Says letters that depend on the seed alone, and counts as the real one does."""

    _engine: HonestEngine

    def generate(
        self,
        tokens: Sequence[int],
        sampling: SamplingParams,
        *,
        draft: DraftPolicy = "auto",
        max_tokens: int | None = None,
    ) -> Iterator[TokenEvent]:
        said = self._engine.fault(self, sampling, draft) or honest(sampling)
        self._engine.answers = (said,)
        return super().generate(tokens, sampling, draft=draft, max_tokens=max_tokens)

    def _set_stats(self, prompt, cached, made, accepted, draft) -> None:
        super()._set_stats(prompt, cached, made, accepted, draft)
        length = draft if isinstance(draft, int) else 0
        rounds = -(-made // (length + 1))
        counted = replace(
            self._stats,
            rounds=rounds,
            mean_accepted_length=made / rounds if rounds else 0.0,
            accepted_by_position=(1.0,) * min(made, length),
        )
        self._stats = replace(counted, **self._engine.miscount(counted) if length else {})


Fault = Callable[[HonestSession, SamplingParams, DraftPolicy], str | None]


class HonestEngine(FakeEngine):
    """`fault` says something in place of the honest answer; `miscount` changes the figures."""

    def __init__(
        self,
        fault: Fault = lambda session, sampling, draft: None,
        miscount: Callable[[Stats], dict[str, object]] = lambda counted: {},
    ) -> None:
        super().__init__()
        self.fault = fault
        self.miscount = miscount

    def session(
        self, *, n_ctx: int | None = None, exact: bool = False, trace_logits: bool = False
    ) -> FakeSession:
        self.sessions.append(HonestSession(self, n_ctx or self.context_length, exact))
        return self.sessions[-1]


def honest(sampling: SamplingParams) -> str:
    if sampling.temperature == 0.0:
        return "abcdefgh"
    if is_json(sampling):
        return PERSON
    return letters(sampling.seed, (0.4, 0.3, 0.2, 0.1))


def letters(seed: int | None, law: tuple[float, ...]) -> str:
    return "".join(random.Random(seed).choices("abcd", law, k=5))


def is_json(sampling: SamplingParams) -> bool:
    return sampling.grammar not in (None, WORDS)


def run(engine: Engine, effort: Effort = SMALL) -> selftest.Report:
    return run_selftest(engine, "fake", lambda line: None, effort=effort)


def verdicts(report: selftest.Report) -> dict[str, str]:
    return {check.name: check.verdict for check in report.checks}


HEALTHY = {
    "greedy_identity": "passed",
    "greedy_default_mode": "reported",
    "same_law": "passed",
    "constrained_output": "passed",
    "counters": "passed",
}


@pytest.fixture
def small_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "Effort", lambda: SMALL)


def test_an_honest_pair_passes_and_the_report_fits_one_screen(command: Command, small_effort):
    report = run(HonestEngine())
    assert verdicts(report) == HEALTHY
    assert report.passed
    assert report.undecided == ()
    assert len(report.lines()) <= 22
    assert max(map(len, report.lines())) <= 100

    done = command("selftest", engine=HonestEngine())
    assert done.code == 0
    assert done.out.endswith("s: passed\n")
    assert done.err == ""


def test_prompts_are_many_and_different_and_their_kinds_take_turns() -> None:
    prompts = load_prompts().greedy
    assert len(prompts) >= 40
    assert len({prompt.text for prompt in prompts}) == len(prompts)
    kinds = {prompt.kind for prompt in prompts}
    assert len(kinds) >= 8
    assert {prompt.kind for prompt in prompts[: len(kinds)]} == kinds


def test_every_draft_length_is_compared_in_both_modes() -> None:
    engine = HonestEngine()
    run(engine)
    n = 1 + len(DRAFT_LENGTHS)
    for sessions, exact, texts in (
        (engine.sessions[:n], True, N_TEXTS),
        (engine.sessions[n : 2 * n], False, N_TEXTS // 2),
    ):
        assert [session.drafts[0] for session in sessions] == ["off", *DRAFT_LENGTHS]
        for session in sessions:
            assert session.exact == exact
            assert len(session.prompts) == texts
            assert {sampling.temperature for sampling in session.samplings} == {0.0}


def other_text(exact: bool) -> Fault:
    """The fifth text differs from its third token on when three tokens are drafted."""

    def fault(session, sampling, draft) -> str | None:
        wrong = draft == 3 and session.exact == exact and len(session.prompts) == 4
        return "abxdefgh" if wrong and sampling.temperature == 0.0 else None

    return fault


def test_one_greedy_text_that_differs_in_exact_mode_fails_and_is_shown(
    command: Command, small_effort
) -> None:
    done = command("selftest", "--json", engine=HonestEngine(other_text(exact=True)))
    assert done.code == 1
    report = json.loads(done.out)
    assert not report["passed"]
    assert {name: check["verdict"] for name, check in report["checks"].items()} == {
        **HEALTHY,
        "greedy_identity": "failed",
    }
    outcomes = {each["draft"]: each for each in report["checks"]["greedy_identity"]["outcomes"]}
    missing = [outcomes[draft]["texts"] - outcomes[draft]["identical"] for draft in DRAFT_LENGTHS]
    assert missing == [0, 0, 1, 0, 0]
    [difference] = outcomes[3]["differences"]
    assert difference["prompt"] == load_prompts().greedy[4].text
    assert difference["position"] == 2

    readable = command("selftest", engine=HonestEngine(other_text(exact=True)))
    assert readable.code == 1
    assert "draft 3 differs at token 2" in readable.out
    assert readable.out.endswith("s: FAILED\n")


def test_a_text_that_differs_in_the_default_mode_is_counted_but_no_failure() -> None:
    report = run(HonestEngine(other_text(exact=False)))
    assert verdicts(report) == HEALTHY
    usual = report.checks[1].as_dict()["outcomes"]
    assert [each["texts"] - each["identical"] for each in usual] == [0, 0, 1, 0, 0]


def biased(only: SamplingParams | None = None) -> Fault:
    """Drafted tokens are the likeliest one too often."""

    def fault(session, sampling, draft) -> str | None:
        hit = only is None or replace(sampling, seed=None) == only
        if draft == "off" or sampling.temperature == 0.0 or is_json(sampling) or not hit:
            return None
        return letters(sampling.seed, (0.7, 0.15, 0.1, 0.05))

    return fault


def test_biased_sampling_fails_at_every_setting() -> None:
    report = run(HonestEngine(biased()))
    assert verdicts(report) == {**HEALTHY, "same_law": "failed"}
    assert not report.passed
    outcomes = report.checks[2].as_dict()["outcomes"]
    assert all(outcome["p_adjusted"] < FALSE_ALARMS for outcome in outcomes)
    assert all(outcome["samples"] == 200 for outcome in outcomes)


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_a_bias_at_one_setting_fails_that_setting_alone(number: int) -> None:
    report = run(HonestEngine(biased(SETTINGS[number].sampling)))
    outcomes = report.checks[2].as_dict()["outcomes"]
    expected = ["failed" if i == number else "passed" for i in range(len(SETTINGS))]
    assert [outcome["verdict"] for outcome in outcomes] == expected


def test_the_verdict_repeats() -> None:
    one, two = run(HonestEngine()), run(HonestEngine())
    assert one.checks == two.checks


def miscounted(change: Callable[[Stats], dict[str, object]]) -> FakeEngine:
    return HonestEngine(miscount=change)


@pytest.mark.parametrize(
    "change",
    [
        lambda counted: {"rounds": counted.rounds + 1},
        lambda counted: {"accepted": counted.accepted + 1},
        lambda counted: {"accepted": counted.accepted - 1},
        lambda counted: {"drafted": counted.accepted - 1},
        lambda counted: {"drafted": counted.rounds * 8},
        lambda counted: {"completion_tokens": counted.completion_tokens + 1},
        lambda counted: {"mean_accepted_length": counted.mean_accepted_length * 1.01},
        lambda counted: {"acceptance_rate": 0.9},
        lambda counted: {"accepted_by_position": ()},
        lambda counted: {"accepted_by_position": (0.3, *counted.accepted_by_position[1:])},
        lambda counted: {"accepted_by_position": (*counted.accepted_by_position, 0.0)},
    ],
)
def test_counters_that_do_not_add_up_fail(change) -> None:
    report = run(miscounted(change))
    assert verdicts(report) == {**HEALTHY, "counters": "failed"}
    assert not report.passed
    assert max(map(len, report.lines())) <= 100


def figures(**changes: object) -> Stats:
    """Three rounds of three drafts, of which 3, 1 and 0 were accepted."""
    counted = Stats(
        completion_tokens=7,
        rounds=3,
        drafted=9,
        accepted=4,
        acceptance_rate=4 / 9,
        mean_accepted_length=7 / 3,
        accepted_by_position=(2 / 3, 1 / 3, 1 / 3),
    )
    return replace(counted, **changes)


SAID = (True, True, True, False, True, False, False)


def test_figures_of_an_answer_with_rejected_drafts_add_up() -> None:
    assert contradictions(SAID, figures(), 3) == []


def test_a_round_cut_by_a_drafted_end_of_turn_adds_up() -> None:
    cut = figures(
        completion_tokens=6,
        accepted=5,
        acceptance_rate=5 / 9,
        mean_accepted_length=2.0,
        accepted_by_position=(2 / 3, 2 / 3, 1 / 3),
    )
    assert contradictions((True, True, True, False, False, True), cut, 3) != []  # 2 seen as 1, 3
    assert contradictions((True, True, True, False, True, True), replace(cut, rounds=2), 3) != []
    cut = replace(
        cut,
        rounds=2,
        drafted=5,
        acceptance_rate=1.0,
        mean_accepted_length=3.0,
        accepted_by_position=(1.0, 1.0, 1.0),
    )
    assert contradictions((True, True, True, False, True, True), cut, 3) == []


@pytest.mark.parametrize(
    "shares",
    [
        (1 / 3, 1 / 3, 1 / 3),  # two rounds kept a first draft
        (2 / 3, 1 / 3, 0.0),  # one kept a third
        (2 / 3, 1 / 3),  # and there were thirds
        (2 / 3, 1 / 2, 1 / 3),  # more third drafts than second ones
        (2 / 3, 1.0, 1.0),  # only five drafts
        (2 / 3, 0.4, 0.4),  # two and a half drafts
        (2 / 3, -1 / 3, 1 / 3),
    ],
)
def test_shares_by_position_that_no_counts_give_are_found(shares: tuple[float, ...]) -> None:
    assert len(contradictions(SAID, figures(accepted_by_position=shares), 3)) == 1


def constrained(text: str) -> FakeEngine:
    return HonestEngine(lambda session, sampling, draft: text if is_json(sampling) else None)


@pytest.mark.parametrize("text", ['{"name": "Ann", "age": 30', "[]", '{"name": "Ann"}', "null"])
def test_a_finished_answer_that_breaks_its_grammar_fails_and_is_shown(text: str) -> None:
    report = run(constrained(text))
    assert verdicts(report) == {**HEALTHY, "constrained_output": "failed"}
    invalid = report.checks[3].as_dict()["invalid"]
    assert {each["text"] for each in invalid} == {text}
    assert repr(text) in "\n".join(report.lines())


def test_answers_cut_by_the_limit_are_no_evidence_for_or_against() -> None:
    report = run(constrained('{"name": "' + "a" * 200))
    assert verdicts(report) == {**HEALTHY, "constrained_output": "too few samples"}
    assert "0 of 0 finished answers parse, 8 cut" in "\n".join(report.lines())


def test_a_thought_before_a_constrained_answer_is_not_part_of_it() -> None:
    thoughtful = constrained("<|channel>thought\n{<channel|>" + PERSON)
    assert verdicts(run(thoughtful)) == HEALTHY


def test_a_model_that_always_says_the_same_is_no_evidence_of_its_law(
    command: Command, small_effort
) -> None:
    def fault(session, sampling, draft) -> str | None:
        return None if is_json(sampling) else "abcdefgh"

    report = run(HonestEngine(fault))
    assert verdicts(report) == {**HEALTHY, "same_law": "too few samples"}
    assert not report.passed
    assert report.undecided == ("same_law",)
    done = command("selftest", engine=HonestEngine(fault))
    assert done.code == 1
    assert done.out.endswith(
        "s: UNDECIDED, too few samples for same_law\n"
        "too little was seen to tell: run the self-test again on a quiet machine\n"
    )
    found = json.loads(command("selftest", "--json", engine=HonestEngine(fault)).out)
    assert (found["passed"], found["undecided"]) == (False, ["same_law"])


def test_a_pair_too_slow_for_the_time_is_asked_less_and_not_praised_for_it() -> None:
    hurried = replace(SMALL, greedy_s=0.0, first_samples_s=0.0, constrained_s=0.0)
    report = run(HonestEngine(), hurried)
    expected = {"same_law": "too few samples", "constrained_output": "too few samples"}
    assert verdicts(report) == {**HEALTHY, **expected}
    assert not report.passed
    assert max(map(len, report.lines())) <= 100
    assert report.checks[0].as_dict()["outcomes"][0]["texts"] == 1
    assert report.checks[3].as_dict()["answers"] == 1


def test_identical_texts_without_a_single_draft_are_no_evidence() -> None:
    engine = HonestEngine()
    engine.has_drafter = False
    report = run(engine)
    assert not report.passed
    assert verdicts(report)["same_law"] == "too few samples"


def test_progress_is_told_for_every_text() -> None:
    lines: list[str] = []
    run_selftest(HonestEngine(), "fake", lines.append, effort=SMALL)
    assert lines[0] == f"greedy, exact mode, no draft: text 1/{N_TEXTS}"
    assert len([line for line in lines if "exact" in line]) == (1 + len(DRAFT_LENGTHS)) * N_TEXTS
    assert "sampled, setting 6/6: 100 answers each" in lines
    assert lines[-1] == "constrained: answer 8/8"


def test_model_without_a_drafter_is_refused(
    command: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("models") / "x.gguf"
    target.write_bytes(b"")
    done = command("selftest", str(target))
    assert done.code == 2
    assert "pass --drafter PATH" in done.err


# ---- the statistics


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 57, 400, 5000])
def test_chi_square_tail_is_scipys(freedom: int) -> None:
    for quantile in (1 - 1e-9, 0.999, 0.9, 0.5, 0.1, 1e-3, 1e-6, 1e-12, 1e-30):
        x = float(scipy_stats.chi2.isf(quantile, freedom))
        expected = float(scipy_stats.chi2.sf(x, freedom))
        assert chi_square_survival(x, freedom) == pytest.approx(expected, rel=1e-8, abs=1e-12)
    assert chi_square_survival(0.0, freedom) == 1.0
    assert chi_square_survival(1e6, freedom) == 0.0


def counters(*columns: Sequence[int]) -> tuple[Counter, ...]:
    return tuple(Counter({(i, 0, 0): n for i, n in enumerate(column) if n}) for column in columns)


def test_g_is_scipys_but_for_its_correction() -> None:
    one, two = (30, 50, 20, 100), (45, 41, 15, 88)
    expected = scipy_stats.chi2_contingency([one, two], lambda_="log-likelihood").statistic
    test = g_test([counters(one, two)])
    assert (test.cells, test.freedom) == (4, 3)
    assert test.statistic == pytest.approx(expected, rel=0.01)
    assert test.statistic < expected
    twice = g_test([counters(one, two)] * 2)
    assert twice.statistic == pytest.approx(2 * test.statistic)
    assert twice.freedom == 6


def test_rare_sequences_join_those_that_begin_alike() -> None:
    one = Counter({(1, 1, 1): 50, (1, 1, 2): 3, (1, 1, 3): 2, (1, 2): 2, (2, 1, 1): 1, (3,): 40})
    two = Counter({(1, 1, 1): 44, (1, 1, 2): 4, (1, 1, 4): 6, (1, 2): 1, (2, 1, 1): 2, (3,): 41})
    # 1 1 * is common; 1 2 and 2 1 1 are not, and neither is what they begin with: they end up in
    # the smallest cell.
    assert pool(one, two) == [(5 + 3, 10 + 3), (40, 41), (50, 44)]


def test_pooling_loses_nothing_and_leaves_no_rare_cell() -> None:
    rng = np.random.default_rng(0)
    law = 1 / np.arange(1, 400)
    for n in (30, 200, 1000):
        one, two = (draw(rng, law / law.sum(), n) for _ in range(2))
        pooled = pool(one, two)
        assert [sum(column) for column in zip(*pooled, strict=True)] == [n, n]
        assert all(sum(cell) >= 10 for cell in pooled)


def draw(rng: np.random.Generator, law: np.ndarray, n: int) -> Counter:
    seen = rng.multinomial(n, law)
    return Counter({(i % 3, i % 11, i): int(c) for i, c in enumerate(seen) if c})


def test_a_healthy_machine_rarely_fails() -> None:
    """P-values of equal laws are uniform, in the small ones too."""
    rng = np.random.default_rng(1)
    law = 1 / np.arange(1, 150) ** 1.2
    law /= law.sum()
    p = np.array([g_test([(draw(rng, law, 200), draw(rng, law, 200))]).p for _ in range(2000)])
    for level in (0.5, 0.1, 0.01):
        expected = scipy_stats.binom.interval(0.9999, p.size, level)
        assert expected[0] <= (p < level).sum() <= expected[1], level


# ---- the embedded pair

REDUCED = Effort(texts=3, samples=(60,), constrained=6)


def test_embedded_pair_passes_with_a_reduced_effort() -> None:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        report = run(engine, REDUCED)
    assert verdicts(report) == HEALTHY


def law_on_the_embedded_pair(samples: int) -> SameLaw:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        effort = Effort(samples=(samples,))
        return check_law(Examiner(engine, lambda line: None, effort), load_prompts().sampled)


def test_the_same_seeds_give_the_same_samples_on_the_embedded_pair() -> None:
    assert law_on_the_embedded_pair(5) == law_on_the_embedded_pair(5)


def test_a_drafted_law_that_differs_on_the_embedded_pair_is_found(monkeypatch) -> None:
    """Sampling colder where tokens are drafted, as if too many drafts were accepted."""
    generate = Session.generate

    def colder(self, tokens, sampling, *, draft="auto", max_tokens=None):
        if draft != "off":
            sampling = replace(sampling, temperature=sampling.temperature / 2)
        return generate(self, tokens, sampling, draft=draft, max_tokens=max_tokens)

    monkeypatch.setattr(Session, "generate", colder)
    assert law_on_the_embedded_pair(50).verdict == "failed"
