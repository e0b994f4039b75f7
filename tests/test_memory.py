"""The memory that a model is said to need is what it takes, and what does not fit is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import allotted_memory
import full_size
import pytest
import resident_memory
import tiny_checkpoint as tiny
from conftest import Stdin
from embedded import DRAFTER, TARGET
from full_size import Model
from gemmachat.converters.conversion import plan_file
from sparse_checkpoint import write_checkpoint

from gemmachat import Engine, MemoryLimitError, cli
from gemmachat.gguf_info import GgufInfo, read_header
from gemmachat.memory import Room, available_memory, estimate, largest_context
from gemmachat.native_structs import MAX_WIDTH

MIB = 1 << 20
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is in memory")


@pytest.fixture(scope="module")
def pair() -> tuple[GgufInfo, GgufInfo]:
    return read_header(TARGET), read_header(DRAFTER)


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Model], Path]:
    """Files of the real models' shapes with few tokens, without the weights' bytes."""
    folder = tmp_path_factory.mktemp("sparse")
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    text = json.dumps(tiny.tokenizer_json())
    (tokenizer / "tokenizer.json").write_text(text, encoding="utf-8")

    def write(model: Model) -> Path:
        path = folder / f"{model.name}.gguf"
        if not path.exists():
            checkpoint = folder / model.name
            write_checkpoint(replace(model, vocab=tiny.VOCAB), checkpoint, tokenizer)
            planned = plan_file(checkpoint, quant="Q4_0")
            with path.open("wb") as file:
                file.write(planned.header())
                file.truncate(planned.nbytes)
        return path

    return write


@linux_only
@pytest.mark.parametrize(
    ("n_ctx", "settings"),
    [
        (1060, {}),
        (1060, {"kernels": "ggml"}),
        (2084, {"exact": True}),
        (2084, {"kv_type": "q8_0"}),
        (2084, {"flash": "off"}),
    ],
)
def test_the_embedded_pair_takes_what_is_estimated(
    pair: tuple[GgufInfo, GgufInfo], n_ctx: int, settings: dict[str, Any]
) -> None:
    options = {key: value for key, value in settings.items() if key not in ("flash", "kernels")}
    needed = estimate(
        *pair, n_ctx, flash_attention=False if "flash" in settings else None, **options
    )
    taken = resident_memory.measure(TARGET, DRAFTER, n_ctx, **settings)
    one_turn = needed.total - needed.saved
    assert one_turn == pytest.approx(taken["anonymous"] + taken["mapped"], rel=0.1)
    # Every weight is held once, in the file's layout or in that of a kernel of ours, and of this
    # small model's per-layer table all pages are seen.
    held = taken["mapped"] + taken["packed"]
    assert needed.weights + needed.drafter == pytest.approx(held, rel=0.03)
    assert needed.streamed == pytest.approx(taken["streamed"], rel=0.02)


@linux_only
@pytest.mark.parametrize("n_ctx", [1060, 2084])
def test_earlier_turns_take_what_is_estimated_at_most(
    pair: tuple[GgufInfo, GgufInfo], n_ctx: int
) -> None:
    one, many = (resident_memory.measure(TARGET, DRAFTER, n_ctx, turns=n) for n in (0, 200))
    most = estimate(*pair, n_ctx).saved
    assert 0.3 * most < many["anonymous"] - one["anonymous"] < 1.1 * most + MIB


@pytest.mark.parametrize(
    "model", [full_size.E2B, full_size.E4B, full_size.M12B, full_size.M26B, full_size.M31B]
)
@pytest.mark.parametrize(
    ("n_ctx", "kv_type", "flash", "exact"),
    [(4096, "f16", "on", False), (20000, "q8_0", "on", True), (300, "f16", "off", False)],
)
def test_keys_values_and_buffers_are_those_that_llama_cpp_allots(
    sparse: Callable[[Model], Path], model: Model, n_ctx: int, kv_type: str, flash: str, exact: bool
) -> None:
    path = sparse(model)
    command = (sys.executable, allotted_memory.__file__, str(path), str(n_ctx + MAX_WIDTH))
    run = subprocess.run(
        (*command, kv_type, flash, "full" if exact else "window"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    allotted = json.loads(run.stdout)
    needed = estimate(
        read_header(path), None, n_ctx,
        exact=exact, kv_type=kv_type, flash_attention=flash == "on",
    )  # fmt: skip
    assert needed.kv / MIB == pytest.approx(allotted["kv"], abs=0.05)
    # Beside the buffer there are llama.cpp's graphs and what it multiplies with.
    beside = 20
    wide = 40 if model is full_size.E2B else 0  # allotted for layers that prefill leaves out
    buffers = needed.compute / MIB
    assert 0.9 * allotted["compute"] - wide < buffers < 1.1 * allotted["compute"] + beside


def test_weights_that_a_pass_reads_by_the_row_are_not_held(
    sparse: Callable[[Model], Path],
) -> None:
    header = read_header(sparse(full_size.E4B))
    needed = estimate(header, None, 1000)
    table = header.tensors["per_layer_token_embd.weight"]
    assert needed.streamed == table.nbytes
    assert needed.weights == sum(t.nbytes for t in header.tensors.values()) - table.nbytes


def test_sliding_layers_grow_up_to_their_window_only(sparse: Callable[[Model], Path]) -> None:
    header = read_header(sparse(full_size.M31B))
    short, long, longer = (estimate(header, None, n).kv for n in (4088, 65_528, 131_064))
    full_layers = 10 * 4 * 512 * 2 * 2  # bytes of a token: layers, heads, width, K and V, f16
    assert long - short == full_layers * (65_536 - 4096)
    assert longer - long == full_layers * 65_536
    exact = estimate(header, None, 4088, exact=True).kv
    assert exact - short == 50 * 16 * 256 * 2 * 2 * (4096 - 1536)


def test_the_largest_context_fits_and_the_next_does_not(
    pair: tuple[GgufInfo, GgufInfo],
) -> None:
    available = estimate(*pair, 1500).total
    most = largest_context(*pair, available)
    assert most >= 1500
    assert estimate(*pair, most).total <= available < estimate(*pair, most + 1).total
    assert largest_context(*pair, 1 << 40) == 4096  # what the model was trained for
    assert largest_context(*pair, 5 * MIB) == 0


def test_what_does_not_fit_is_refused_with_the_numbers(pair: tuple[GgufInfo, GgufInfo]) -> None:
    available = estimate(*pair, 1000).total
    room = Room(*pair, available)
    room.require(1000)
    with pytest.raises(MemoryLimitError) as caught:
        room.require(4000)
    assert caught.value.exit_code == 5
    message = str(caught.value)
    needed = estimate(*pair, 4000)
    for size in (needed.total, needed.weights, needed.kv, needed.compute, available):
        assert f"{size / MIB:.0f} MiB" in message
    assert f"up to {largest_context(*pair, available)} tokens fits" in message
    with pytest.raises(MemoryLimitError, match="smaller model or quantization"):
        Room(*pair, MIB).require(1)


def test_the_machine_says_how_much_memory_there_is() -> None:
    assert 64 * MIB < available_memory() < 1 << 50


def test_run_refuses_a_context_that_does_not_fit_and_takes_the_one_it_names(
    pair: tuple[GgufInfo, GgufInfo],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    available = estimate(*pair, 1200).total
    monkeypatch.setattr("gemmachat.engine.available_memory", lambda: available)
    monkeypatch.setattr(sys, "stdin", Stdin(b"", terminal=True))
    run = ("run", "tiny", "Hello", "--max-tokens", "2", "--threads", "1")
    assert cli.main((*run, "--ctx", "4000")) == 5
    shown = capsys.readouterr()
    assert not shown.out
    most = re.search(r"up to (\d+) tokens fits", shown.err)
    assert most is not None
    assert cli.main((*run, "--ctx", most[1])) == 0
    assert cli.main((*run, "--ctx", "4000", "--force")) == 0


def test_bench_refuses_a_context_that_does_not_fit(
    pair: tuple[GgufInfo, GgufInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    available = estimate(*pair, 1200).total
    monkeypatch.setattr("gemmachat.engine.available_memory", lambda: available)
    assert cli.main(("bench", "tiny", "--kinds", "prose", "--ctx", "4000")) == 5


def test_a_session_larger_than_the_room_is_refused(
    pair: tuple[GgufInfo, GgufInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    available = estimate(*pair, 1200).total
    monkeypatch.setattr("gemmachat.engine.available_memory", lambda: available)
    with pytest.raises(MemoryLimitError):
        Engine.load(TARGET, DRAFTER, threads=1)
    with Engine.load(TARGET, DRAFTER, threads=1, n_ctx=1000) as engine:
        engine.session(n_ctx=1000).close()
        with pytest.raises(MemoryLimitError):
            engine.session(n_ctx=4000)
        with pytest.raises(MemoryLimitError):
            engine.session(n_ctx=1200, flash_attention=False)
    with Engine.load(TARGET, DRAFTER, threads=1, force=True) as engine:
        engine.session(n_ctx=4000).close()
