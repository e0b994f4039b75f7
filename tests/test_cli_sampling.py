"""The sampling options of `gemmachat run`: they reach the engine, or are refused without one."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from conftest import Command
from fakes import FakeEngine

from gemmachat.sampling import SamplingParams


def test_sampling_options_reach_the_engine(command: Command) -> None:
    engine = FakeEngine()
    arguments = (
        "run tiny hi --temperature 1 --typical-p 0.7 --repeat-penalty 1.1 --repeat-last-n -1 "
        "--presence-penalty 0.5 --frequency-penalty -0.25 --min-tokens 3 "
        "--logit-bias 5=-inf --logit-bias 6=2.5 --max-tokens 9 --seed 1 --logprobs 4 --json"
    )
    assert command(*arguments.split(), engine=engine).code == 0
    assert engine.sessions[0].samplings == [
        SamplingParams(
            typical_p=0.7,
            repeat_penalty=1.1,
            repeat_last_n=-1,
            presence_penalty=0.5,
            frequency_penalty=-0.25,
            min_tokens=3,
            logit_bias=((5, -math.inf), (6, 2.5)),
            seed=1,
            logprobs=4,
        )
    ]


def test_without_options_everything_new_is_off(command: Command) -> None:
    engine = FakeEngine()
    command("run", "tiny", "hi", "--seed", "1", "--temperature", "1", engine=engine)
    assert engine.sessions[0].samplings == [SamplingParams(seed=1)]


def test_top_k_1_at_a_high_temperature_is_fine(command: Command) -> None:
    done = command("run", "hi", "--top-k", "1", "--temperature", "2", engine=FakeEngine())
    assert done.code == 0


def test_stop_strings_end_the_answer(command: Command) -> None:
    engine = FakeEngine("one STOP two END")
    done = command("run", "tiny", "hi", "--stop", "END", "--stop", "STOP", engine=engine)
    assert (done.code, done.out) == (0, "one \n")
    done = command("run", "tiny", "hi", "--json", "--stop", "STOP", engine=engine)
    printed = json.loads(done.out)
    assert (printed["text"], printed["finish_reason"]) == ("one ", "stop")
    longer = command("run", "tiny", "hi", "--stop", "x" * 200, engine=engine)
    assert longer.out == "one STOP two END\n"


def test_constraints_reach_the_engine_as_grammars(command: Command, tmp_path: Path) -> None:
    grammar, schema = tmp_path / "g.gbnf", tmp_path / "s.json"
    grammar.write_text('root ::= "yes" | "no"')
    schema.write_text('{"enum": ["left", "right"]}')
    seen = []
    for option in (["--grammar", grammar], ["--json-schema", schema], ["--json-object"]):
        engine = FakeEngine()
        assert command("run", "tiny", "hi", *map(str, option), engine=engine).code == 0
        seen.append(engine.sessions[0].samplings[0].grammar or "")
    assert seen[0] == 'root ::= "yes" | "no"'
    assert r'"\"left\""' in seen[1]
    assert "root ::=" in seen[2]


def test_home_folder_of_a_grammar_is_found(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "g.gbnf").write_text('root ::= "yes"')
    monkeypatch.setenv("HOME", str(tmp_path))
    engine = FakeEngine()
    assert command("run", "tiny", "hi", "--grammar", "~/g.gbnf", engine=engine).code == 0
    assert engine.sessions[0].samplings[0].grammar == 'root ::= "yes"'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--typical-p 0", "typical-p must be above 0 and at most 1, not 0"),
        ("--typical-p 1.5", "typical-p must be"),
        ("--typical-p nan", "typical-p must be"),
        ("--min-p 1.5", "min-p must be between 0 and 1, not 1.5"),
        ("--repeat-penalty 0", "repeat-penalty must be between 0.01 and 100, not 0"),
        ("--repeat-penalty -1", "repeat-penalty must be"),
        ("--repeat-penalty 1000", "repeat-penalty must be"),
        ("--repeat-penalty inf", "repeat-penalty must be"),
        ("--repeat-penalty nan", "repeat-penalty must be"),
        ("--repeat-last-n -2", "repeat-last-n must be -1 (all) or more, not -2"),
        (f"--repeat-last-n {2**40}", "repeat-last-n must be"),
        ("--repeat-last-n 1.5", "'--repeat-last-n'"),
        ("--presence-penalty 101", "presence-penalty must be between -100 and 100, not 101"),
        ("--presence-penalty nan", "presence-penalty must be"),
        ("--frequency-penalty -101", "frequency-penalty must be between -100 and 100, not -101"),
        ("--frequency-penalty inf", "frequency-penalty must be"),
        ("--min-tokens -1", "'--min-tokens'"),
        (f"--min-tokens {2**40}", "'--min-tokens'"),
        ("--min-tokens 5 --max-tokens 4", "--min-tokens 5 is more than --max-tokens 4"),
        ("--logit-bias 5", "--logit-bias must be a token id and a number, as in 106=-inf, not '5'"),
        ("--logit-bias =1", "--logit-bias must be"),
        ("--logit-bias 5=", "--logit-bias must be"),
        ("--logit-bias a=1", "--logit-bias must be"),
        ("--logit-bias 1.5=1", "--logit-bias must be"),
        ("--logit-bias 5_0=1", "--logit-bias must be a token id and a number, as in 106=-inf, not"),
        ("--logit-bias 5=1_0", "--logit-bias must be"),
        ("--logit-bias ５=1", "--logit-bias must be"),
        ("--logit-bias 5=１", "--logit-bias must be"),
        ("--logit-bias 5=1=2", "--logit-bias must be"),
        ("--logit-bias 5=nan", "a logit bias must be a number up to 1000, not nan"),
        ("--logit-bias 5=inf", "a logit bias must be a number up to 1000, not inf"),
        ("--logit-bias 5=1001", "a logit bias must be a number up to 1000"),
        ("--logit-bias=-1=1", "there is no token -1 to bias"),
        (f"--logit-bias {2**31}=1", f"there is no token {2**31} to bias"),
        (f"--logit-bias {'9' * 5000}=1", "--logit-bias must be"),
        ("--logprobs 3", "--logprobs needs --json"),
        ("--logprobs 21 --json", "logprobs must be between 0 and 20, not 21"),
        ("--logprobs -1 --json", "logprobs must be"),
        ("--logprobs x --json", "'--logprobs'"),
        (
            "--json-object --grammar g",
            "give only one of --json-schema, --json-object and --grammar",
        ),
        ("--json-object --json-schema s", "give only one of"),
        ("--grammar g --json-schema s", "give only one of"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(
    command: Command, arguments: str, said: str
) -> None:
    done = command("run", "tiny", "hi", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert len(done.err) < 400


def test_token_outside_the_vocabulary_is_refused_before_a_model_is_loaded(command: Command) -> None:
    done = command("run", "tiny", "hi", "--logit-bias", "4096=1")
    assert done.code == 2
    assert "there is no token 4096 to bias: the vocabulary of tiny has 4096 tokens" in done.err
    assert command("run", "tiny", "hi", "--logit-bias", "4095=1", engine=FakeEngine()).code == 0


@pytest.mark.parametrize(
    ("stops", "said"),
    [
        ([""], "a stop string must have 1 to 256 characters, not 0"),
        (["x" * 257], "a stop string must have 1 to 256 characters, not 257"),
        (["x"] * 17, "there are 17 stop strings; at most 16"),
        (["a\udcff"], "--stop is not valid UTF-8 text"),
    ],
)
def test_bad_stop_strings_are_refused(command: Command, stops: list[str], said: str) -> None:
    options = [part for stop in stops for part in ("--stop", stop)]
    done = command("run", "tiny", "hi", *options)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


BAD_FILES = {
    "--grammar": {
        "": "is empty",
        "root ::= nope": 'has no rule named "nope"',
        'root ::= root "a" | "b"': "comes to itself again before any character",
        "root ::= " + "(" * 20_000: "more than 100 parentheses",
        r"root ::= [^\x00-\U0010FFFF]": "line 1: a [...] without any character",
    },
    "--json-schema": {
        "": "is empty",
        "{": "the JSON schema is not JSON",
        "[]": "the schema is [], where an object is needed",
        '{"type": "string", "pattern": "a"}': "the schema uses 'pattern', which cannot be enforced",
        '{"properties": {"a": {"type": "integer", "multipleOf": 2}}}': (
            "'a' of properties in the schema uses 'multipleOf'"
        ),
    },
}


@pytest.mark.parametrize(
    ("option", "text"), [(option, text) for option, texts in BAD_FILES.items() for text in texts]
)
def test_bad_constraints_are_one_sentence_and_exit_code_2(
    command: Command, tmp_path: Path, option: str, text: str
) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    done = command("run", "tiny", "hi", option, str(path))
    assert (done.code, done.out) == (2, "")
    assert BAD_FILES[option][text] in done.err
    assert done.err.count("\n") == 1
    assert len(done.err) < 400


@pytest.mark.parametrize("option", ["--grammar", "--json-schema"])
def test_files_that_cannot_be_read_are_refused(
    command: Command, tmp_path: Path, option: str
) -> None:
    missing = command("run", "tiny", "hi", option, str(tmp_path / "none"))
    assert missing.code == 3
    assert "none does not exist" in missing.err
    folder = command("run", "tiny", "hi", option, str(tmp_path))
    assert folder.code == 2
    assert "cannot be read: Is a directory" in folder.err
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)))
    assert "is not UTF-8 text" in command("run", "tiny", "hi", option, str(binary)).err
