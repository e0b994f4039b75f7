"""`gemmachat bench` as a user runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from conftest import Command
from embedded import TARGET
from pseudo_terminal import pseudo_terminal
from test_command import gemmachat

SMALL = ("--threads", 1, "--tokens", 8, "--repeats", 1)


def bench(*arguments: object) -> dict:
    done = gemmachat("bench", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def test_json_holds_every_kind_and_temperature():
    found = bench(*SMALL, "--ctx", 600)
    assert list(found) == [
        *("complete", "setup", "results", "totals", "pass_cost", "head_recall", "peak_memory_bytes")
    ]
    assert found["complete"] is True
    kinds = ["code", "json", "prose", "chinese", "long-context", "multi-turn", "tool-call"]
    assert [(row["temperature"], row["kind"]) for row in found["results"]] == [
        (temperature, kind) for temperature in (0.0, 1.0) for kind in kinds
    ]
    assert [row["cut"] for row in found["results"][:7]] == [
        kind == "long-context" for kind in kinds
    ]
    assert all([s["side"] for s in row["sides"]] == ["off", "auto"] for row in found["results"])
    assert 0.8 < found["head_recall"] <= 1.0
    assert found["peak_memory_bytes"] > TARGET.stat().st_size
    setup = found["setup"]
    assert (setup["model"], setup["model_type"], setup["drafter_type"]) == ("tiny", "Q8_0", "Q8_0")
    assert (setup["threads"], setup["context"], setup["synthetic"]) == ([1], 600, False)


def test_table_goes_to_standard_output_and_nothing_else_does():
    done = gemmachat("bench", *SMALL, "--kinds", "code, json", "--temperature", 0)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tiny Q8_0, drafter tiny-drafter Q8_0\n")
    assert "\x1b" not in done.stdout
    starts = [line.split()[0] for line in done.stdout.splitlines() if line]
    assert [kind for kind in starts if kind in ("code", "json", "prose")] == ["code", "json"]


def test_sweep_of_drafts_compares_each_with_none():
    found = bench(*SMALL, "--kinds", "multi-turn", "--temperature", 0, "--sweep", "draft=0..2,7")
    assert (found["setup"]["sweep"], found["setup"]["draft"]) == ("draft=0..2,7", None)
    (total,) = found["totals"]
    assert [side["side"] for side in total["sides"]] == ["off", "1", "2", "7"]
    assert [len(side["accepted_by_position"]) for side in total["sides"][:3]] == [0, 1, 2]
    assert all(side["agreement"]["prompts"] == 1 for side in total["sides"][1:])


def test_sweep_of_threads_answers_on_each_number():
    found = bench(
        *("--tokens", 8, "--repeats", 1, "--kinds", "code", "--temperature", 0, "--draft", 2),
        *("--sweep", "threads=1,2"),
    )
    assert (found["setup"]["threads"], found["setup"]["draft"]) == ([1, 2], "2")
    one, two = found["totals"][0]["sides"]
    assert (one["side"], two["side"]) == ("1", "2")
    assert one["drafted"] > 0
    assert two["drafted"] > 0
    assert two["agreement"] is None


def test_prompts_of_a_file_join_the_built_in_ones(tmp_path: Path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "hi"}\n{"prompt": "ho"}\n{"kind": "json", "prompt": "{}"}\n')
    found = bench(*SMALL, "--prompts", path, "--kinds", "file,json", "--temperature", 0)
    assert [(row["kind"], len(row["prompt_tokens"])) for row in found["results"]] == [
        ("json", 2),
        ("file", 2),
    ]


def test_model_without_a_drafter_is_measured_with_copied_drafts():
    done = gemmachat("bench", TARGET, *SMALL, "--kinds", "code", "--temperature", 0)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no drafter: drafts are copies of earlier text only" in done.stdout


def test_exact_greedy_texts_are_the_same_and_the_plot_is_written(tmp_path: Path):
    plot = tmp_path / "plot.png"
    found = bench(*SMALL, "--exact", "--draft", 7, "--temperature", 0, "--ctx", 600, "--plot", plot)
    (total,) = found["totals"]
    assert total["sides"][1]["agreement"] == {
        "prompts": 7,
        "identical": 7,
        "first_divergence": None,
    }
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("as_json", [False, True])
def test_interrupt_prints_what_is_done_and_exits_with_130(tmp_path: Path, as_json: bool):
    out = tmp_path / "out"
    options = ["--threads", "1", "--repeats", "1000", "--kinds", "code", "--ctx", "600"]
    options += ["--json"] if as_json else []
    with pseudo_terminal("bench", *options, redirect=f"> {out}") as terminal:
        terminal.wait(lambda shown: b"temperature 0, code: repeat 3/1000" in shown.raw)
        terminal.send("\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text
    printed = out.read_text()
    if as_json:
        found = json.loads(printed)
        assert found["complete"] is False
        (row,) = found["results"]
        assert all(2 <= side["runs"] < 1000 for side in row["sides"])
        assert len({side["runs"] for side in row["sides"]}) == 1
    else:
        assert "interrupted: only what was done by then is shown" in printed
        assert "\ncode " in printed


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("--sweep draft=0..8", 2, "--sweep draft takes 0 to 7, not 8"),
        ("--sweep draft=0..9999", 2, "--sweep draft takes 0 to 7, not 8"),
        ("--sweep draft=x", 2, "--sweep must be draft or threads and a list"),
        ("--sweep draft", 2, "--sweep must be"),
        ("--sweep draft=", 2, "--sweep must be"),
        ("--sweep draft=-1", 2, "--sweep must be"),
        ("--sweep draft=1...3", 2, "--sweep must be"),
        (f"--sweep draft={'9' * 5000}", 2, "--sweep must be"),
        ("--sweep depth=1,2", 2, "--sweep must be"),
        ("--sweep draft=１,2", 2, "--sweep must be"),
        ("--sweep draft=0,3..1", 2, "--sweep draft: 3..1 runs backwards, write 1..3"),
        ("--sweep draft=0,1,0", 2, "--sweep draft names a value twice"),
        ("--sweep draft=3", 2, "--sweep compares 2 to 16 values, not 1"),
        ("--sweep threads=0,1", 2, "--sweep threads takes 1 to 512, not 0"),
        ("--sweep threads=512..513", 2, "--sweep threads takes 1 to 512, not 513"),
        ("--sweep threads=1..17", 2, "--sweep compares 2 to 16 values, not 17"),
        ("--sweep threads=1,2 --threads 1", 2, "give either --threads or --sweep threads"),
        ("--sweep draft=0,1 --draft 3", 2, "give either --draft or --sweep draft"),
        (f"{TARGET} --sweep draft=0,1", 2, "needs a drafter"),
        (f"{TARGET} --draft 3", 2, "--draft 3 needs a drafter"),
        ("--draft off", 2, "--draft off leaves nothing to compare with"),
        ("--draft 8", 2, "--draft must be auto, off or a number from 1 to 7"),
        ("--temperature a", 2, "--temperature must be a list of numbers"),
        ("--temperature 0,", 2, "--temperature must be a list of numbers"),
        ("--temperature １", 2, "--temperature must be a list of numbers"),
        ("--temperature 1_0", 2, "--temperature must be a list of numbers"),
        ("--temperature nan", 2, "temperature must be between"),
        ("--temperature -1", 2, "temperature must be between"),
        ("--kinds verse", 2, "there is no kind of prompt 'verse': --kinds takes a list of code, "),
        ("--kinds file", 2, "there is no kind of prompt 'file'"),
        ("--prompts=", 2, "--prompts is empty: give the path of a file"),
        ("--prompts no-such-file", 3, "no-such-file does not exist"),
        ("--prompts /", 2, "--prompts / is not a regular file: write the prompts into one"),
        ("--prompts /dev/zero", 2, "--prompts /dev/zero is not a regular file"),
        ("--plot plot.pdf", 2, "--plot plot.pdf must end in .png or .svg"),
        ("--plot=", 2, "--plot is empty: give the path of a file"),
        ("--plot .png", 2, "--plot .png has no name before its ending: give one, as in bench.png"),
        ("--plot png", 2, "--plot png must end in .png or .svg"),
        ("--plot no-such-folder/plot.png", 2, "does not exist"),
        ("--seed 18446744073709551615", 2, "--seed and --repeats must not add up to more than"),
        ("--seed -1", 2, "--seed"),
        ("--tokens 0", 2, "--tokens"),
        ("--repeats 0", 2, "--repeats"),
        ("--threads 0", 2, "--threads"),
        ("no-such-model", 3, "no-such-model"),
    ],
)
def test_bad_usage_is_one_sentence_before_a_model_is_loaded(
    command: Command, arguments: str, code: int, said: str
):
    done = command("bench", *arguments.split())
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert len(done.err) < 400


@pytest.mark.parametrize("option", ["--prompts", "--plot"])
def test_pipe_in_the_place_of_a_file_is_refused_without_a_wait(
    command: Command, tmp_path: Path, option: str
):
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    done = command("bench", option, str(pipe))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {option} {pipe} is not a regular file: ")
    assert done.err.count("\n") == 1
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--ctx", 60], 6, "is more than the context of 60"),
        (["--tokens", 5000], 6, "which with an answer of 5000 is more than the context of 4096"),
        (["--ctx", 100_000], 2, "the context must be between 1 and 4096 tokens"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, code, said):
    done = gemmachat("bench", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
