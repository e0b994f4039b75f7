"""Whatever a tool does, the model gets a text and the chat goes on."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gemmachat.conversation import ToolCall
from gemmachat.errors import NotFoundError, UsageError
from gemmachat.tool_runner import MAX_RESULT, ToolRunner

FILE = '''
import os, sys, time, subprocess
count = 0

def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b

def tick() -> int:
    """Counts."""
    global count
    count += 1
    return count

def noisy() -> str:
    """Prints."""
    print("\\x1b[2Jprinted"); sys.stderr.write("more\\n"); os.write(1, b"raw")
    return repr(sys.stdin.read())

def hang(mark: str) -> None:
    """Never returns, nor does what it starts."""
    child = subprocess.Popen(["sleep", "1000"])
    with open(mark, "w") as file:
        file.write(str(child.pid))
    while True:
        time.sleep(1)

def fail() -> None:
    """Fails."""
    raise ValueError("no such thing \\ud800")

def die() -> None:
    """Dies."""
    os._exit(3)

def leave() -> None:
    """Leaves."""
    sys.exit(4)

def long() -> str:
    """Says much."""
    return "x" * 100_000

def odd() -> object:
    """Returns what is no JSON."""
    return {1: float("nan")}

def broken() -> str:
    """Returns half a character."""
    return "a\\ud800"

def pair() -> tuple:
    """Returns two."""
    return 1, "a"

def nothing() -> None:
    """Returns nothing."""

def forge(line: str) -> int:
    """Writes to every pipe that it finds."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, line.encode() + b"\\n")
        except OSError:
            pass
    time.sleep(60)
    return 1

def twice() -> str:
    """Returns in two processes."""
    return "the child" if os.fork() == 0 else "the parent"
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tools") / "mine.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def runner(file: Path) -> Iterator[ToolRunner]:
    with ToolRunner([file], timeout_s=20) as runner:
        yield runner


def run(runner: ToolRunner, name: str, **arguments: Any) -> Any:
    return runner.run(ToolCall(name, arguments), threading.Event()).result


def test_tools_are_declared_and_called(runner: ToolRunner) -> None:
    names = [tool["name"] for tool in runner.declarations]
    assert names[:4] == ["calculator", "current_time", "add", "tick"]
    assert run(runner, "add", a=2) == 3
    assert run(runner, "calculator", expression="6*7") == 42
    assert [run(runner, "tick"), run(runner, "tick")] == [1, 2]


@pytest.mark.parametrize("name", ["mine.add", "default_api:add", "a.b:add"])
def test_names_of_modules_before_a_tool_are_forgiven(runner: ToolRunner, name: str) -> None:
    assert run(runner, name, a=1, b=1) == 2


def test_what_a_tool_prints_reaches_no_stream(
    runner: ToolRunner, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(runner, "noisy") == "''"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fail", "ValueError: no such thing ?"),
        ("leave", "SystemExit: 4"),
        ("die", "die ended without a result"),
        ("add", "needs the argument a"),
        ("subtract", "there is no tool subtract, only calculator"),
    ],
)
def test_errors_are_told_to_the_model(runner: ToolRunner, name: str, said: str) -> None:
    assert said in run(runner, name)["error"]
    assert run(runner, "add", a=2) == 3


@pytest.mark.parametrize(
    "line",
    [
        "[1]",
        "{}",
        '{"call": 1}',
        '{"call": 1, "error": 5}',
        '{"call": 1, "result": NaN}',
        '{"result": 7}',
        "\\",
        "[" * 20_000,
    ],
)
def test_what_is_no_reply_to_a_call_is_no_result(runner: ToolRunner, line: str) -> None:
    assert run(runner, "forge", line=line) == {"error": "forge ended without a result"}
    assert run(runner, "add", a=2) == 3


def test_a_tool_that_returns_twice_answers_no_later_call(runner: ToolRunner) -> None:
    run(runner, "twice")
    process = runner._workers[-1]._process
    if process is not None:  # otherwise both replies came at once
        assert select.select([process.stdout], [], [], 20)[0]
    assert "child" not in str(run(runner, "add", a=2))
    assert run(runner, "add", a=2) == 3


@pytest.mark.parametrize(
    ("name", "result"),
    [("odd", "{1: nan}"), ("broken", "a?"), ("pair", [1, "a"]), ("nothing", "there is no result")],
)
def test_results_become_json(runner: ToolRunner, name: str, result: Any) -> None:
    assert run(runner, name) == result
    json.dumps(run(runner, name))


def test_long_results_are_cut_and_say_so(runner: ToolRunner) -> None:
    text = run(runner, "long")
    assert text.startswith("x" * MAX_RESULT + " ... ")
    assert f"{100_000 - MAX_RESULT} more characters" in text


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Ended, but nobody has asked for its exit code.
    return " Z " not in Path(f"/proc/{pid}/stat").read_text()


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_tool_that_takes_too_long_is_ended_with_all_that_it_started(
    file: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    with ToolRunner([file], builtin=False, timeout_s=2) as runner:
        assert "within 2 seconds" in run(runner, "hang", mark=str(mark))["error"]
        child = int(mark.read_text())
        wait_for(lambda: not is_alive(child))
        assert run(runner, "add", a=1) == 2


def test_a_call_can_be_stopped(runner: ToolRunner, tmp_path: Path) -> None:
    mark, cancelled = tmp_path / "pid", threading.Event()

    def stop() -> None:
        wait_for(lambda: mark.exists() and mark.read_text())
        cancelled.set()

    thread = threading.Thread(target=stop)
    thread.start()
    call = runner.run(ToolCall("hang", {"mark": str(mark)}), cancelled)
    thread.join()
    assert call.result == {"error": "the user stopped this call"}
    assert run(runner, "add", a=1) == 2


def test_a_start_that_was_broken_off_leaves_no_process_behind(runner: ToolRunner) -> None:
    assert "ended without" in run(runner, "die")["error"]
    cancelled = threading.Event()
    cancelled.set()
    stopped = runner.run(ToolCall("add", {"a": 1}), cancelled)
    assert stopped.result == {"error": "the user stopped this call"}
    assert run(runner, "add", a=1) == 2


def test_nothing_runs_without_the_users_word(file: Path) -> None:
    asked: list[ToolCall] = []
    with ToolRunner([file], confirm=lambda call: bool(asked.append(call))) as runner:
        assert run(runner, "tick") == {"error": "the user did not allow this call"}
        assert asked == [ToolCall("tick", {})]
        assert "no tool" in run(runner, "nobody")["error"]
        assert len(asked) == 1
        runner.confirm = None
        assert run(runner, "tick") == 1


def test_files_that_cannot_be_used_are_refused(tmp_path: Path, file: Path) -> None:
    with pytest.raises(NotFoundError, match=r"none\.py"):
        ToolRunner([tmp_path / "none.py"])
    (tmp_path / "bad.py").write_text("import nothing_like_this")
    with pytest.raises(UsageError, match="nothing_like_this"):
        ToolRunner([tmp_path / "bad.py"])
    with pytest.raises(UsageError, match="two tools with the name add"):
        ToolRunner([file, file])


def test_the_current_folder_holds_no_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    with ToolRunner() as runner:
        assert run(runner, "calculator", expression="1+1") == 2


def test_interrupt_at_the_question_stops_more_than_the_call() -> None:
    def interrupted(_call: ToolCall) -> bool:
        raise KeyboardInterrupt

    cancelled = threading.Event()
    with ToolRunner(confirm=interrupted) as runner:
        call = runner.run(ToolCall("calculator", {"expression": "1"}), cancelled)
    assert call.result == {"error": "the user stopped this call"}
    assert cancelled.is_set()
