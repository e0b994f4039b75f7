"""Damaged files are refused at little cost, and none that is not refused harms llama.cpp.

GEMMACHAT_MUTATIONS sets how many random mutations are tried; 100,000 take about five minutes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf_faults
import pytest
import tiny_checkpoint as tiny
from embedded import DRAFTER
from gemmachat.converters.conversion import plan_file
from gemmachat.converters.write import GgufFile, write_files

from gemmachat.errors import DamagedFileError, GemmachatError
from gemmachat.gguf_info import check_pair, read_header, validate_drafter

MUTATIONS = int(os.environ.get("GEMMACHAT_MUTATIONS", "12000"))
BATCH = 1000  # files that wait for llama.cpp


@pytest.fixture(scope="module")
def valid() -> gguf_faults.File:
    return gguf_faults.File(DRAFTER.read_bytes())


@contextmanager
def at_little_cost() -> Iterator[None]:
    """Fails where Python makes very many calls or allocates much."""
    calls = 0

    def count(_frame: object, _event: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    tracemalloc.start()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert calls < 100_000
    assert peak < 8 << 20


@pytest.mark.parametrize("kind", gguf_faults.KINDS)
def test_a_fault_in_a_valid_file_is_refused_by_name_at_little_cost(
    valid: gguf_faults.File, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "model.gguf"
    for seed in range(3):
        content, expected = gguf_faults.KINDS[kind](valid, random.Random(f"{kind} {seed}"))
        path.write_bytes(content)
        with at_little_cost(), pytest.raises(DamagedFileError) as caught:
            read_header(path)
        message = str(caught.value)
        assert caught.value.exit_code == 4
        assert expected in message
        assert message.isprintable()
        assert len(message) < 600


def test_the_file_that_faults_are_made_in_is_valid(valid: gguf_faults.File, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(valid.data)
    header = read_header(path)
    validate_drafter(header)
    assert [key.name for key in valid.keys] == list(header.metadata)
    assert [tensor.name for tensor in valid.tensors] == list(header.tensors)
    # And so it is with one more key, placed as the faults place theirs.
    path.write_bytes(valid.with_key(gguf_faults.build.u32("general.alignment", 32)))
    validate_drafter(read_header(path))


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("originals")
    tiny.write_target(folder / "target")
    tiny.write_drafter(folder / "drafter")
    paths = {kind: folder / f"{kind}.gguf" for kind in ("target", "drafter")}
    for kind, path in paths.items():
        plan = plan_file(folder / kind, quant="F32")
        write_files({path: GgufFile(plan.metadata, plan.tensors)}, force=True)
    return paths


def mutated(original: bytes, header_bytes: int, rng: random.Random) -> bytes:
    """`original` with one to four small faults, most of them in the part that is not vocabulary."""
    data = bytearray(original)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(min(header_bytes, len(data) + 1))
        kind = rng.randrange(6)
        if kind == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            data[at : at + 1] = bytes([rng.choice((0, 1, 2, 4, 8, 9, 31, 127, 128, 255))])
        elif kind == 2:
            data[at : at + 8] = rng.choice((0, 1, 2**31, 2**32, 2**40, 2**63, 2**64 - 1)).to_bytes(
                8, "little"
            )
        elif kind == 3:
            del data[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


def refusal_of(target: Path, drafter: Path | None) -> str | None:
    """What the check says against the files, or None; any other exception is a failure."""
    try:
        check_pair(read_header(target), None if drafter is None else read_header(drafter))
    except GemmachatError as error:
        return str(error)
    return None


_LOAD_ALL = """
import sys
from pathlib import Path
import llama_runner
for line in sys.stdin:
    path, is_target, vocab, hidden = line.split()
    print(path, flush=True)
    try:
        with llama_runner.loaded(Path(path)) as model:
            llama_runner.tokenize(model, "hello 世界 \\U0001f389")
            if is_target == "True":
                with llama_runner.context(model) as context:
                    llama_runner.prefill(context, [10, 20, 30], int(vocab), int(hidden))
    except OSError:
        pass
print("done", flush=True)
"""


def load_all(lines: list[str]) -> None:
    """Fails where llama.cpp dies of a file."""
    child = subprocess.run(
        [sys.executable, "-c", _LOAD_ALL],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=Path(__file__).parent,
    )
    assert child.stdout.endswith("done\n"), f"{child.stdout[-300:]}\n{child.stderr[-2000:]}"


@pytest.mark.parametrize("kind", ["target", "drafter"])
def test_what_mutated_files_pass_the_check_never_kills_llama_cpp(
    originals: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    """Most mutations are refused here; llama.cpp must survive the rest, loaded or refused."""
    original = originals[kind].read_bytes()
    # The keys before the vocabulary, where faults are most telling; sometimes all of the header.
    before_vocab = original.index(b"tokenizer.ggml.tokens")
    whole = gguf_faults.File(original).header_end
    rng = random.Random(20 if kind == "target" else 21)
    accepted: list[str] = []
    n_accepted, count = 0, MUTATIONS // 2
    for index in range(count):
        path = tmp_path / f"{index}.gguf"
        part = before_vocab if rng.random() < 0.7 else whole
        path.write_bytes(mutated(original, part, rng))
        pair = (path, None) if kind == "target" else (originals["target"], path)
        refusal = refusal_of(*pair)
        if refusal is None:
            accepted.append(f"{path} {kind == 'target'} {tiny.VOCAB} {tiny.HIDDEN}")
            n_accepted += 1
        else:
            assert refusal.isprintable()
            path.unlink()
        if len(accepted) == BATCH or (accepted and index == count - 1):
            load_all(accepted)
            for line in accepted:
                Path(line.split()[0]).unlink()
            accepted.clear()
    assert count / 100 < n_accepted < count / 2
