"""A schema is converted in a process of its own, which nothing nearby can change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gemmachat import EngineError, UsageError, schema_trial
from gemmachat.json_schema import to_grammar
from gemmachat.schema_trial import convert_apart

NULL = '{"type": "null"}'
PAIRS = json.dumps({"oneOf": [{"const": i} for i in range(20_000)]})
LARGE = json.dumps({"enum": [f"value number {i}" for i in range(20_000)]})


@pytest.fixture
def run_instead(monkeypatch: pytest.MonkeyPatch):
    """Has the process run something before its work, or in its place."""

    def run(program: str) -> None:
        monkeypatch.setattr(
            schema_trial,
            "_PROGRAM",
            "import sys, os, signal; sys.path.append(sys.argv[1]); "
            f"import gemmachat.schema_trial as trial\n{program}",
        )

    return run


def nested(depth: int) -> object:
    return {"properties": {"a": nested(depth - 1)}, "required": ["a"]} if depth else {}


def test_a_schema_becomes_its_grammar() -> None:
    for schema in (
        {"type": "object"},
        {"enum": ["Grüße", "你好", "😀", "\x00\u2028"]},
        {"enum": [f"value number {i}" for i in range(1500)]},
        {"properties": {f"p{i}": {"type": "string", "maxLength": 1000} for i in range(300)}},
        nested(60),
    ):
        text = json.dumps(schema, ensure_ascii=False)
        assert convert_apart(text) == to_grammar(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the JSON schema is not JSON"),
        ("{}\0", "the JSON schema is not JSON"),
        ('{"type": "string", "pattern": "a"}', "the schema uses 'pattern'"),
        ('{"items":' * 50_000, "not JSON: it is nested too deeply"),
        ('"\ud800"', "not valid Unicode text"),
        (json.dumps({"properties": {str(i): {} for i in range(20_000)}}), "larger than 1024 KiB"),
    ],
)
def test_what_is_refused_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        convert_apart(text)


def test_no_module_of_the_current_folder_is_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    poison = f"open({str(tmp_path / 'imported')!r}, 'a').write(__name__); raise SystemExit(1)"
    (tmp_path / "gemmachat").mkdir()
    names = ("json", "typing", "sitecustomize", "usercustomize", "gemmachat/__init__")
    for name in (*names, "gemmachat/schema_trial"):
        (tmp_path / f"{name}.py").write_text(poison)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "json.py"))
    assert "null" in convert_apart(NULL)
    assert not (tmp_path / "imported").exists()


def test_the_process_loads_nothing_native_and_no_model() -> None:
    program = schema_trial._PROGRAM + "; print(*sys.modules)"
    home = str(Path(schema_trial.__file__).parents[1])
    for command in (["-I", "-S", "-c", program, home], ["-m", "gemmachat.schema_trial"]):
        done = subprocess.run(
            [sys.executable, *command],
            input=NULL.encode(),
            cwd=home,
            capture_output=True,
            check=True,
        )
        answer, *modules = done.stdout.decode().splitlines()
        assert json.loads(answer) == {"grammar": to_grammar(NULL)}
        loaded = set(" ".join(modules).split())
        assert not loaded & {"ctypes", "numpy", "llama_cpp", "gemmachat.bridge", "gemmachat.native"}


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on processor time")
def test_too_much_processor_time_is_a_refusal(run_instead) -> None:
    run_instead("trial.CPU_SECONDS = 0; trial.main()")
    with pytest.raises(UsageError, match="too complex: converting it takes too much time"):
        convert_apart(PAIRS)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs limits on memory")
def test_too_much_memory_is_a_refusal(run_instead) -> None:
    run_instead("trial.MEMORY_BYTES = 4 << 20; trial.main()")
    with pytest.raises(UsageError, match="too complex: converting it takes too much memory"):
        convert_apart(LARGE)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits")
def test_what_the_process_used_before_does_not_count(run_instead) -> None:
    """A large interpreter on a slow machine leaves the schema as much as any other."""
    run_instead(
        "import mmap, time; held = mmap.mmap(-1, 1 << 30)\n"
        "while time.process_time() < 0.3: pass\n"
        "trial.CPU_SECONDS = 1; trial.MEMORY_BYTES = 64 << 20; trial.main()"
    )
    assert "value number 1499" in convert_apart(
        json.dumps({"enum": [f"value number {i}" for i in range(1500)]})
    )


@pytest.mark.parametrize(
    "program",
    [
        "def refuse(*_): raise ValueError('not here')\ntrial.resource.setrlimit = refuse\n",
        "def refuse(*_): raise OSError(22, 'not here')\ntrial.resource.setrlimit = refuse\n",
        "trial.Path = lambda _: __import__('pathlib').Path('/no/proc')\n",
        "del trial.resource; sys.platform = 'win32'\n",
    ],
    ids=["ValueError", "OSError", "no proc", "no resource"],
)
@pytest.mark.skipif(sys.platform == "win32", reason="is what it is about")
def test_a_system_without_limits_converts_all_the_same(run_instead, program: str) -> None:
    run_instead(program + "trial.main()")
    assert "null" in convert_apart(NULL)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_a_violent_death_is_a_refusal(run_instead) -> None:
    run_instead("os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(UsageError, match="too complex: converting it takes too much time or mem"):
        convert_apart(NULL)


def test_a_process_that_fails_is_an_error(run_instead, monkeypatch: pytest.MonkeyPatch) -> None:
    run_instead("sys.exit(3)")
    with pytest.raises(EngineError, match="cannot be converted: its process ended with 3"):
        convert_apart(NULL)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(EngineError, match=r"cannot be converted: .*No such file"):
        convert_apart(NULL)


def test_a_process_that_never_ends_is_stopped(run_instead, monkeypatch) -> None:
    run_instead("import time; time.sleep(60)")
    monkeypatch.setattr(schema_trial, "_PATIENCE_S", 0.2)
    with pytest.raises(UsageError, match="too complex: converting it takes too long"):
        convert_apart(NULL)
