"""A benchmark's prompts, figures and plan, and what it measures on the embedded pair."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from embedded import DRAFTER, GREEDY, TARGET
from PIL import Image

from gemmachat import Engine, PromptFormat
from gemmachat.bench import Bench, Plan, Side
from gemmachat.bench_figures import Agreement, Figures, Run, Speedup, Spread, percentile
from gemmachat.bench_plot import check_plot, write_plot
from gemmachat.bench_prompts import LONG_TOKENS, built_in, choose, read_prompts, render
from gemmachat.bench_report import make_report
from gemmachat.bench_setup import file_type, is_synthetic
from gemmachat.errors import ContextFullError, GemmachatError, UsageError
from gemmachat.gguf_info import read_header
from gemmachat.native_structs import MAX_WIDTH
from gemmachat.stats import Stats

KINDS = ["code", "json", "prose", "chinese", "long-context", "multi-turn", "tool-call"]
SETUP = {
    "model": "tiny",
    "model_type": "Q8_0",
    "drafter": "tiny-drafter",
    "drafter_type": "Q8_0",
    "synthetic": True,
    "processor": "a processor",
    "llama_cpp_python": "0",
    "kernels": "ggml",
    "threads": (1,),
    "context": 512,
    "compared": "draft",
    "sweep": None,
    "exact": False,
    "tokens": 12,
    "repeats": 2,
    "seed": 1,
}


@pytest.fixture(scope="module")
def engine():
    with Engine.load(TARGET, DRAFTER, threads=1) as loaded:
        yield loaded


def rendered(engine: Engine, kind: str, *, n_ctx: int = 4096, answer: int = 12):
    style = PromptFormat(engine.vocab, engine.chat_template)
    (prompt,) = choose(built_in(), kind)
    return render(prompt, engine.vocab, style, n_ctx=n_ctx, answer=answer)


def text(engine: Engine, tokens) -> str:
    return b"".join(engine.vocab.piece(token) for token in tokens).decode()


def small_plan(engine: Engine, *drafts, kinds=("code", "multi-turn"), repeats=2, **other) -> Plan:
    return Plan(
        sides=tuple(Side(str(draft), engine, draft) for draft in drafts),
        prompts=tuple(rendered(engine, kind) for kind in kinds),
        temperatures=(0.0, 1.0),
        repeats=repeats,
        max_tokens=12,
        n_ctx=512,
        exact=False,
        seed=1,
        **other,
    )


@pytest.fixture(scope="module")
def measured(engine):
    bench = Bench(small_plan(engine, "off", 3), lambda _line: None)
    bench.run()
    return bench.measured


@pytest.fixture(scope="module")
def report(measured):
    return make_report(measured, SETUP, 1 << 20)


def run(*, prompt=0, tokens=(), gaps=(), **stats) -> Run:
    return Run(prompt, tuple(tokens), tuple(gaps), Stats(**stats))


# ---- figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percent", "value"), [(1, 1.0), (50, 2.0), (51, 3.0), (75, 3.0), (99, 4.0), (100, 4.0)]
)
def test_percentile_is_the_least_value_that_so_many_percent_do_not_exceed(percent, value):
    assert percentile([3.0, 1.0, 4.0, 2.0], percent) == value


def test_percentile_of_nothing_and_of_one():
    assert percentile([], 50) is None
    assert percentile([7.0], 1) == percentile([7.0], 99) == 7.0


def test_figures_are_medians_over_runs_and_shares_over_all_rounds():
    figures = Figures.of(
        [
            run(
                gaps=(0.1, 0.0),
                completion_tokens=4,
                rounds=2,
                total_s=2.0,
                ttft_s=0.5,
                decode_tps=10.0,
                drafted=3,
                accepted=2,
                accepted_by_position=(1.0, 0.0),
                drafted_by_position=(2, 1),
            ),
            run(
                gaps=(0.3,),
                completion_tokens=8,
                rounds=2,
                total_s=2.0,
                ttft_s=0.7,
                decode_tps=0.0,
                drafted=6,
                accepted=5,
                accepted_by_position=(0.5, 1.0, 1.0),
                drafted_by_position=(2, 3, 1),
            ),
        ]
    )
    assert figures.mean_accepted_length == 3.0
    assert figures.ttft_s == Spread(0.6, 0.5, 0.7)
    assert figures.end_to_end_tps == Spread(3.0, 2.0, 4.0)
    assert figures.decode_tps == Spread(10.0, 10.0, 10.0)  # the second had nothing to measure
    assert figures.prefill_tps is None
    assert figures.accepted_by_position == (0.75, 0.75, 1.0)
    assert (figures.gap_p50_s, figures.gap_p99_s) == (0.1, 0.3)


def test_speedup_is_the_median_of_ratios_run_by_run_and_not_a_ratio_of_medians():
    def runs(*rates):
        return [run(decode_tps=rate, completion_tokens=1, total_s=1 / rate) for rate in rates]

    speedup = Speedup.of(runs(10.0, 20.0, 40.0), runs(30.0, 20.0, 20.0))
    assert speedup.decode == Spread(1.0, 0.5, 3.0)
    assert speedup.end_to_end == speedup.decode


def test_agreement_names_the_first_place_where_a_text_parted():
    alone = [run(prompt=p, tokens=t) for p, t in ((0, (1, 2, 3)), (1, (4, 5, 6)), (0, (1, 2, 3)))]
    drafted = [run(prompt=p, tokens=t) for p, t in ((0, (1, 2, 3)), (1, (4, 5)), (0, (1, 2, 3)))]
    assert Agreement.of(alone, alone) == Agreement(2, 2, None)
    assert Agreement.of(alone, drafted) == Agreement(2, 1, 2)


# ---- prompts -------------------------------------------------------------------------------------


def test_there_is_a_built_in_prompt_of_every_kind():
    assert [prompt.kind for prompt in built_in()] == KINDS


def test_long_text_is_long_and_ends_with_the_question(engine):
    prompt = rendered(engine, "long-context")
    assert LONG_TOKENS - 100 < len(prompt.tokens) <= LONG_TOKENS + 100
    assert not prompt.cut
    assert "Which ships passed on the last day" in text(engine, prompt.tokens[-60:])


def test_long_text_is_cut_to_a_small_context_and_says_so(engine):
    prompt = rendered(engine, "long-context", n_ctx=300, answer=50)
    assert prompt.cut
    assert 150 < len(prompt.tokens) <= 250
    assert "Which ships passed on the last day" in text(engine, prompt.tokens)


def test_prompt_that_does_not_fit_is_refused_with_both_numbers(engine):
    with pytest.raises(ContextFullError, match=r"multi-turn prompt has \d+ tokens.*context of 100"):
        rendered(engine, "multi-turn", n_ctx=100)


def test_tools_are_declared_with_control_tokens_in_a_system_turn(engine):
    vocab = engine.vocab
    tokens = rendered(engine, "tool-call").tokens
    marks = [vocab.control(name) for name in ("<bos>", "<|turn>", "<|tool>", "<tool|>", "<turn|>")]
    assert [tokens.index(mark) for mark in marks] == sorted(tokens.index(mark) for mark in marks)
    assert tokens[:2] == tuple(marks[:2])
    quote = vocab.control('<|"|>')
    assert tokens.count(quote) == 14
    assert "declaration:get_weather" in text(engine, tokens)
    assert tokens.count(vocab.control("<|turn>")) == 3


def test_text_file_holds_a_prompt_on_each_line(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text('\ufefffirst\n\n{"prompt": "text here"}\r\nthree\u2028one line', "utf-8")
    prompts = read_prompts(path)
    assert [prompt.kind for prompt in prompts] == ["file"] * 3
    assert prompts[1].messages[0].text == '{"prompt": "text here"}'
    assert prompts[2].messages[0].text == "three\u2028one line"


def test_jsonl_file_holds_prompts_and_conversations(tmp_path):
    path = tmp_path / "prompts.jsonl"
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    path.write_text(
        json.dumps({"kind": "code", "prompt": "x"}) + "\n\n" + json.dumps({"messages": chat})
    )
    one, two = read_prompts(path)
    assert (one.kind, two.kind) == ("code", "file")
    assert [message.role for message in two.messages] == ["system", "user", "model", "user"]


BAD_LINES = {
    "[1]": "not a JSON object",
    "{": "not a JSON object",
    "[" * 100_000: "not a JSON object",
    "{}": 'give either "prompt" or "messages"',
    '{"prompt": "a", "messages": []}': 'give either "prompt" or "messages"',
    '{"prompt": "a", "more": 1}': "unknown key 'more'",
    '{"prompt": 1}': "must be some text",
    '{"prompt": "  "}': "must be some text",
    '{"kind": "A B", "prompt": "a"}': '"kind" must be',
    '{"kind": 3, "prompt": "a"}': '"kind" must be',
    '{"messages": []}': "must be a list of messages",
    '{"messages": "a"}': "must be a list of messages",
    '{"messages": [{"role": "user"}]}': 'must have "role" and "content"',
    '{"messages": [{"role": ["user"], "content": "a"}]}': 'a "role" must be',
    '{"messages": [{"role": "tool", "content": "a"}]}': 'a "role" must be',
    '{"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}': (
        'a "role" must be'
    ),
    '{"messages": [{"role": "assistant", "content": "a"}]}': "last message must be the user's",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_bad_line_is_named(tmp_path, line):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "good"}\n' + line)
    with pytest.raises(UsageError) as caught:
        read_prompts(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert BAD_LINES[line] in str(caught.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "holds no prompt"),
        (b"\n \n", "holds no prompt"),
        (b"good\n\xff\n", ":2: not UTF-8 text"),
        (b"a\n" * 1001, "holds 1001 prompts; at most 1000"),
        (b"a" * (1 << 20) + b"b", "larger than 1024 KiB"),
    ],
)
def test_bad_file_is_refused(tmp_path, data, said):
    path = tmp_path / "prompts.txt"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=said):
        read_prompts(path)


# ---- measuring -----------------------------------------------------------------------------------


def test_every_prompt_is_answered_by_every_side_at_every_temperature(measured):
    assert measured.complete
    assert [(case.kind, case.temperature) for case in measured.cases] == [
        ("code", 0.0),
        ("multi-turn", 0.0),
        ("code", 1.0),
        ("multi-turn", 1.0),
    ]
    for case in measured.cases:
        for runs in case.runs:
            assert len(runs) == 2
            for each in runs:
                assert 1 <= len(each.tokens) == each.stats.completion_tokens <= 12
                assert len(each.gaps_s) == len(each.tokens) - 1
                assert all(gap >= 0 for gap in each.gaps_s)


def test_only_the_drafting_side_drafts_and_no_side_finds_a_prompt_in_its_cache(measured):
    for case in measured.cases:
        off, on = case.runs
        assert all(each.stats.drafted == 0 for each in off)
        assert sum(each.stats.drafted for each in on) > 0
        assert {each.stats.cached_tokens for each in (*off, *on)} == {1}


def test_sides_share_a_seed_and_repeats_do_not(engine, measured):
    again = Bench(small_plan(engine, "off", 3), lambda _line: None)
    again.run()
    said = [
        [[each.tokens for each in runs] for case in found.cases for runs in case.runs]
        for found in (measured, again.measured)
    ]
    assert said[0] == said[1]
    hot = measured.cases[2].runs[0]
    assert hot[0].tokens != hot[1].tokens


def test_passes_of_every_width_are_timed_against_one_token(measured):
    assert [step.width for step in measured.staircase] == list(range(1, MAX_WIDTH + 1))
    assert measured.staircase[0].relative == Spread(1.0, 1.0, 1.0)
    assert all(step.seconds.min > 0 for step in measured.staircase)


def test_a_timed_pass_leaves_the_timeline_as_it_is(engine):
    with engine.session(n_ctx=64) as session:
        plan = small_plan(engine, "off")
        prompt = plan.prompts[0].tokens
        list(session.generate(prompt, GREEDY, draft="off", max_tokens=4))
        before = session.inspect()
        assert session.time_pass(MAX_WIDTH) > 0
        assert bytes(session.inspect()) == bytes(before)
        with pytest.raises(UsageError):
            session.time_pass(MAX_WIDTH + 1)


def test_stop_keeps_whole_repeats_only(engine):
    seen: list[str] = []

    def progress(line: str) -> None:
        seen.append(line)
        if line.startswith("temperature 0, multi-turn: repeat 2"):
            # From another thread, as Ctrl-C does it.
            stopper = threading.Thread(target=bench.stop)
            stopper.start()
            stopper.join()

    bench = Bench(small_plan(engine, "off", 3), progress)
    bench.run()
    found = bench.measured
    assert not found.complete
    assert [[len(runs) for runs in case.runs] for case in found.cases] == [[2, 2], [1, 1]]
    assert not any(line.startswith("temperature 1") for line in seen)
    report = make_report(found, SETUP, 1)
    assert report.lines()[-1].startswith("interrupted")
    assert report.as_dict()["complete"] is False


def test_stop_before_anything_was_measured_makes_an_empty_report(engine):
    bench = Bench(small_plan(engine, "off", 3), lambda _line: None)
    bench.stop()
    bench.run()
    report = make_report(bench.measured, SETUP, 1)
    assert report.rows == report.totals == report.staircase == ()
    assert report.lines()[-1].startswith("interrupted")


# ---- report --------------------------------------------------------------------------------------


def test_report_is_consistent(report):
    found = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert [(row["kind"], row["temperature"]) for row in found["results"]] == [
        ("code", 0.0),
        ("multi-turn", 0.0),
        ("code", 1.0),
        ("multi-turn", 1.0),
    ]
    assert [(row["kind"], row["temperature"]) for row in found["totals"]] == [
        ("all kinds", 0.0),
        ("all kinds", 1.0),
    ]
    for row in (*found["results"], *found["totals"]):
        off, on = row["sides"]
        assert (off["side"], on["side"]) == ("off", "3")
        assert off["mean_accepted_length"] == 1.0
        assert (off["speedup"], off["agreement"]) == (None, None)
        assert on["mean_accepted_length"] == on["completion_tokens"] / on["rounds"] >= 1.0
        assert len(on["accepted_by_position"]) == 3
        assert all(0 <= share <= 1 for share in on["accepted_by_position"])
        assert 0 <= on["gap_p50_s"] <= on["gap_p99_s"]
        for side in (off, on):
            for name in ("ttft_s", "prefill_tps", "decode_tps", "end_to_end_tps"):
                assert 0 < side[name]["min"] <= side[name]["median"] <= side[name]["max"]
        assert on["speedup"]["decode"]["median"] > 0
        if row["temperature"] == 0:
            assert on["agreement"]["prompts"] == len(row["prompt_tokens"])
        else:
            assert on["agreement"] is None
    assert sum(side["runs"] for side in found["totals"][0]["sides"]) == 8


def test_greedy_texts_of_the_embedded_pair_agree(report):
    for row in report.rows:
        if row.temperature == 0:
            assert row.sides[1].agreement == Agreement(1, 1, None)


def test_agreement_is_claimed_only_against_the_target_alone(engine):
    bench = Bench(small_plan(engine, 1, 3, kinds=("code",), repeats=1), lambda _line: None)
    bench.run()
    report = make_report(bench.measured, SETUP, 1)
    assert all(side.agreement is None for row in report.rows for side in row.sides)


def test_readable_report_fits_a_screen_and_says_what_matters(report):
    lines = report.lines()
    assert max(map(len, lines)) <= 100
    said = "\n".join(lines)
    for words in (
        "synthetic weights: the texts are meaningless, times are real",
        "temperature 0",
        "temperature 1",
        "same text 2 of 2",
        "same distribution, by construction (gemmachat selftest checks it)",
        "peak memory of this process: 1 MiB",
        "cost of a target pass",
        "a processor, threads 1",
        "seed 1",
    ):
        assert words in said
    assert "interrupted" not in said


def test_setup_comes_from_the_files():
    header = read_header(TARGET)
    assert file_type(header) == "Q8_0"
    assert not is_synthetic(header)
    header.metadata["general.name"] = "E2B shapes, SYNTHETIC weights"
    header.metadata["general.file_type"] = 15
    assert is_synthetic(header)
    assert file_type(header) == "Q4_K_M"
    header.metadata["general.file_type"] = 999
    assert file_type(header) == "of unknown type"


def test_peak_memory_is_in_bytes_and_outlives_what_was_held():
    script = (
        "from gemmachat.bench_setup import peak_memory_bytes as peak\n"
        "before = peak()\n"
        "held = b'x' * before * 2\n"
        "del held\n"
        "print(peak() / before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert 2.0 <= float(done.stdout) < 6  # b'x' * n may hold two of it for a moment


# ---- plot ----------------------------------------------------------------------------------------


def test_one_token_and_one_repeat_are_called_so(report):
    text = "\n".join(replace(report, setup={**SETUP, "tokens": 1, "repeats": 1}).lines())
    assert ", up to 1 token, seed 1\n" in text
    assert "\nmedians over prompts and 1 repeat in turn (A B A B)\n" in text


def test_plot_is_a_picture(report, tmp_path):
    for path in (tmp_path / "a.png", tmp_path / "b.SVG"):
        check_plot(path)
        write_plot(report, path)
    with Image.open(tmp_path / "a.png") as picture:
        picture.load()
        assert picture.format == "PNG"
        assert picture.width > 1000
        assert len(picture.convert("RGB").getcolors(1 << 16)) > 10
    assert ET.parse(tmp_path / "b.SVG").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.SVG"]


def test_plot_of_nothing_is_drawn_too(engine, tmp_path):
    bench = Bench(small_plan(engine, "off", 3), lambda _line: None)
    bench.stop()
    bench.run()
    write_plot(make_report(bench.measured, SETUP, 1), tmp_path / "empty.svg")
    assert "(interrupted)" in (tmp_path / "empty.svg").read_text()


def test_plot_that_cannot_be_written_leaves_nothing_behind(report, tmp_path):
    path = tmp_path / "there.png"
    path.mkdir()
    with pytest.raises(GemmachatError, match=r"there\.png cannot be written: "):
        write_plot(report, path)
    assert [each.name for each in tmp_path.iterdir()] == ["there.png"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plot", "must end in .png or .svg"),
        ("plot.pdf", "must end in .png or .svg"),
        ("none/plot.png", "none does not exist"),
        ("folder.png", "is not a regular file: give another path"),
    ],
)
def test_bad_plot_is_refused_before_the_run(tmp_path: Path, name, said):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UsageError, match=said):
        check_plot(tmp_path / name)


def test_plot_without_matplotlib_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr("gemmachat.bench_plot.find_spec", lambda _name: None)
    with pytest.raises(GemmachatError, match=r"pip install 'matplotlib>=3\.8'"):
        check_plot(tmp_path / "plot.png")
