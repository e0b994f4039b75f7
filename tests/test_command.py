"""The command as a user runs it: a process of its own, on the embedded pair."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from embedded import DRAFTER, TARGET
from test_stats import KEYS

from gemmachat import outcome
from gemmachat.__main__ import main


def gemmachat(*arguments: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gemmachat", *map(str, arguments)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def ask(*arguments: object, **how) -> subprocess.CompletedProcess[str]:
    return gemmachat("run", *arguments, "--threads", 1, **how)


def test_the_demo_pair_answers_with_drafts_accepted_and_every_key():
    done = ask("tiny", "What is speculative decoding?", "--temperature", 0, "--draft", 3, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert list(answer) == [
        *("text", "thinking", "tokens", "finish_reason", "model", "seed", "stats")
    ]
    assert list(answer["stats"]) == KEYS
    assert answer["finish_reason"] == "stop"
    assert answer["model"] == "tiny"
    assert {"draft", "model"} <= set(answer["text"].lower().replace("er", "").split())
    assert answer["stats"]["accepted"] > 0
    assert answer["stats"]["mean_accepted_length"] > 1.8
    assert answer["stats"]["completion_tokens"] == len(answer["tokens"])


def test_an_answer_is_all_there_is_on_standard_output():
    done = ask("tiny", "hi", "--temperature", 0, "--stats")
    assert done.returncode == 0
    assert done.stdout.strip()
    assert done.stdout.count("\n") <= 3
    assert "tokens per target pass" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_piped_text_is_the_prompt():
    alone = ask("tiny", "Who are you?", "--temperature", 0)
    piped = ask("tiny", "--temperature", 0, stdin="Who are you?")
    assert piped.returncode == 0
    assert piped.stdout == alone.stdout


def test_exact_answers_do_not_depend_on_what_is_drafted():
    answers = {
        ask("tiny", "explain top-p", "--exact", "--temperature", 0, "--draft", draft).stdout
        for draft in ("off", 1, 3, 7, "auto")
    }
    assert len(answers) == 1


def test_the_same_seed_gives_the_same_text():
    settings = ("--temperature", 1.2, "--max-tokens", 60)
    one, two, other = (
        ask("tiny", "Tell me a story", *settings, "--seed", seed).stdout for seed in (4, 4, 5)
    )
    assert one == two != other


def test_the_system_prompt_counts():
    plain = ask("tiny", "What is a token?", "--temperature", 0)
    told = ask("tiny", "What is a token?", "--temperature", 0, "--system", "You are a pirate.")
    assert plain.stdout != told.stdout


def test_a_context_that_fills_ends_with_what_was_said_and_exit_code_six():
    done = ask("tiny", "What is speculative decoding?", "--temperature", 0, "--ctx", 30)
    assert done.returncode == 6
    assert done.stdout.strip()
    assert "30" in done.stderr


def test_an_object_that_does_not_end_is_cut_where_the_context_is_full():
    question = "What is speculative decoding?"
    done = ask("tiny", question, "--json-object", "--ctx", 60, "--temperature", 0)
    assert done.returncode == 6
    assert done.stdout.startswith("{")
    assert "prompt and answer have 60 tokens and --ctx is 60" in done.stderr
    shown = " ".join(gemmachat("run", "--help").stdout.split())
    assert "--max-tokens, or a full context, cuts a long one." in shown


def test_selftest_passes_on_the_embedded_pair():
    done = gemmachat("selftest", "--threads", 1, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    outcomes = report["checks"]["greedy_identity"]["outcomes"]
    assert [outcome["draft"] for outcome in outcomes] == [1, 2, 3, 4, 7]
    assert all(outcome["identical"] == outcome["texts"] >= 40 for outcome in outcomes)
    assert all(outcome["accepted"] > 0 for outcome in outcomes)


def test_doctor_finds_nothing_wrong():
    done = gemmachat("doctor", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["tiny", ""], 2, "empty"),
        (["tiny", "hi", "--draft", "99"], 2, "--draft"),
        (["tiny", "hi", "--draft", "9" * 5000], 2, "--draft"),
        (["tiny", "hi", "--temperature", "-1"], 2, "temperature"),
        (["tiny", "hi", "--temperature", "nan"], 2, "temperature"),
        (["tiny", "hi", "--ctx", "0"], 2, "--ctx"),
        (["tiny", "hi", "--ctx", "1000000000"], 2, "context"),
        (["tiny", "hi", "--top-p", "0"], 2, "top-p"),
        (["tiny", "hi", "--max-tokens", "0"], 2, "--max-tokens"),
        (["tiny", "hi", "--no-such-option"], 2, "--no-such-option"),
        (["no-such-model", "hi"], 3, "no-such-model"),
        (["no-such-file.gguf", "hi"], 3, "no-such-file.gguf"),
        ([str(TARGET), "hi", "--drafter", "no-such.gguf"], 3, "no-such.gguf"),
        ([str(TARGET), "hi", "--draft", "3"], 2, "--drafter"),
        ([str(DRAFTER), "hi", "--drafter", str(TARGET)], 4, "swapped"),
        ([str(TARGET), "hi", "--drafter", str(TARGET)], 4, "drafter"),
        ([__file__ + ".gguf", "hi"], 3, "no file"),
        (["~no_such_user_/x", "hi"], 3, "no_such_user_"),
        (["tiny", "word " * 5000], 6, "4096"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_ends_in_one_sentence_and_its_exit_code(arguments, code, words):
    done = ask(*arguments)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("error: ")
    assert words in sentence


def test_files_that_are_no_models_are_refused(tmp_path):
    for name, content in (
        ("text.gguf", b"not a model"),
        ("empty.gguf", b""),
        ("cut.gguf", TARGET.read_bytes()[:5_000_000]),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        done = ask(path, "hi")
        assert done.returncode == 4, name
        assert name in done.stderr
        assert done.stderr.count("\n") == 1


LITTLE_MEMORY = """
import contextlib, io, resource, sys
from gemmachat import cli, native
native.library()
with contextlib.redirect_stderr(io.StringIO()):  # imports what parsing needs
    cli.main(["run", "tiny", "hi", "--draft", "99"])
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = size + int(sys.argv.pop()) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.exit(cli.main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
@pytest.mark.parametrize(
    ("megabytes", "arguments", "stdin"),
    [
        *((megabytes, ["tiny", "hi"], b"") for megabytes in (4, 11, 16, 20, 28, 36)),
        (6, ["tiny"], bytes(14 * 2**20)),
    ],
)
def test_too_little_memory_is_one_sentence_and_exit_code_five(megabytes, arguments, stdin):
    command = ["run", *arguments, "--threads", "1", "--max-tokens", "2", str(megabytes)]
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_MEMORY, *command],
        input=stdin,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 5, done.stderr
    assert b"memory" in done.stderr
    assert done.stderr.startswith(b"error: ")
    assert done.stderr.count(b"\n") == 1


IMPORTING = """
import sys
sys.path.insert(0, sys.argv.pop(1))
sys.modules.pop(sys.argv.pop(1), None)  # what Python's start may have imported
from gemmachat.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["typer", "typing", "enum"])
def test_interrupt_while_the_command_is_still_being_imported_exits_with_130_silently(
    tmp_path, module
):
    (tmp_path / f"{module}.py").write_text(
        "print('importing', flush=True)\nimport time\ntime.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", IMPORTING, str(tmp_path), module, "run", "--plain"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait(30) == 130


def test_interrupt_between_imports_and_the_command_exits_with_130(monkeypatch):
    def interrupted():
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(outcome, "Screen", interrupted)
    assert main() == 130
