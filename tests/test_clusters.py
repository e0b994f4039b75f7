"""Clusters computed from a drafter's embedding: sound, of use, and kept safely."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from array import array
from pathlib import Path

import llama_runner
import numpy as np
import pytest
import tiny_checkpoint as tiny
from embedded import DRAFTER, PROMPTS, TARGET, chat_tokens, fill_tensor, open_handle
from gemmachat.converters import convert
from library_head import recall

from gemmachat import Engine, bridge, clusters
from gemmachat.bridge import CancelledError, Stop
from gemmachat.bridge_engine import EngineHandle
from gemmachat.clusters import Clusters
from gemmachat.errors import DamagedFileError, UsageError
from gemmachat.gguf_info import read_header

VOCAB, WIDTH, COUNT = 4096, 128, 32


@pytest.fixture
def drafter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A drafter in a folder of its own, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copy(DRAFTER, tmp_path / "drafter.gguf"))


def provided(drafter: Path) -> Clusters:
    return clusters.provide(read_header(drafter), Stop())


def found(drafter: Path) -> Clusters | None:
    return clusters.find(read_header(drafter))


def clustered(drafter: Path, count: int, width: int = WIDTH, n_tokens: int = VOCAB):
    """Centroids and ordering, computed from the file that has this path now."""
    with drafter.open("rb") as file:
        return bridge.cluster_tokens(file, count, width, n_tokens, Stop())


def hidden_rows() -> np.ndarray:
    """What the drafter's head reads along greedy answers of the target, float32 [n, width]."""
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        texts = []
        for prompt in PROMPTS[:24]:
            handle = open_handle(engine)
            tokens = chat_tokens(engine, prompt)
            handle.sync(tokens)
            said = [token.id for _ in range(12) for token in handle.step(0, 1)]
            texts.append((tokens, said))
            handle.free()
    rows, watch = [], llama_runner.LastNorm(WIDTH)
    with llama_runner.loaded(TARGET) as target, llama_runner.loaded(DRAFTER) as model:
        for tokens, said in texts:
            text = [*tokens, *said]
            with (
                llama_runner.context(target) as context,
                llama_runner.context(model, context, watch) as mtp,
            ):
                hidden = llama_runner.lib.llama_model_n_embd(target)
                _, states = llama_runner.prefill(context, text, VOCAB, hidden)
                memory = llama_runner.lib.llama_get_memory(context)
                for at in reversed(range(len(tokens), len(text))):
                    llama_runner.lib.llama_memory_seq_rm(memory, 0, at, -1)
                    llama_runner.draft(mtp, text[at], states[at - 1], at, VOCAB)
                    rows.append(watch.row.copy())
    return np.stack(rows)


def test_computed_clusters_find_almost_as_many_best_tokens_as_trained_ones() -> None:
    rows = hidden_rows()
    handle = EngineHandle(TARGET, DRAFTER)
    trained = recall(handle, rows)
    computed = clustered(DRAFTER, 64)
    handle.set_clusters(64, 8, *computed)
    similar = recall(handle, rows)
    shuffled = array("i", np.random.default_rng(0).permutation(VOCAB).tolist())
    handle.set_clusters(64, 8, computed[0], shuffled)
    unrelated = recall(handle, rows)
    handle.set_clusters(64, 64, *computed)
    assert recall(handle, rows) == 1.0
    handle.free()
    assert trained > 0.95
    assert similar > 0.85
    assert unrelated < 0.3


def test_clusters_are_equally_large_and_the_same_every_time(drafter: Path) -> None:
    first, again = (clustered(drafter, 64) for _ in range(2))
    assert first == again
    assert sorted(first[1]) == list(range(VOCAB))
    members = np.array(first[1]).reshape(64, -1)
    assert (np.diff(members, axis=1) > 0).all()


def test_centroids_point_to_the_middle_of_their_tokens_and_reach_as_far(drafter: Path) -> None:
    import gguf

    tensor = next(t for t in gguf.GGUFReader(drafter).tensors if t.name == "token_embd.weight")
    rows = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
    centroids, ordering = clustered(drafter, 64)
    members = rows[np.array(ordering)].reshape(64, -1, WIDTH)
    middle = members.sum(axis=1)
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    lengths = np.sqrt((members**2).sum(axis=2).mean(axis=1))
    found = np.array(centroids).reshape(64, WIDTH)
    np.testing.assert_allclose(found, middle * lengths[:, None], atol=1e-5)


def test_a_count_need_not_be_a_power_of_two(tmp_path: Path) -> None:
    tiny.write_drafter(tmp_path / "drafter")
    convert(tmp_path / "drafter", tmp_path / "drafter.gguf", quant="F32")
    _, ordering = clustered(tmp_path / "drafter.gguf", 11, tiny.DRAFTER_HIDDEN, tiny.VOCAB)
    assert sorted(ordering) == list(range(tiny.VOCAB))


def test_sizes_that_do_not_fit_are_refused(drafter: Path) -> None:
    with pytest.raises(UsageError, match="divide the vocabulary"):
        clustered(drafter, 60)
    with pytest.raises(UsageError, match="another size"):
        clustered(drafter, 64, WIDTH - 32)


def test_rows_that_are_all_alike_are_shared_out(drafter: Path) -> None:
    info = read_header(drafter)
    tensor = info.tensors["token_embd.weight"]
    data = bytearray(drafter.read_bytes())
    data[tensor.offset : tensor.offset + tensor.nbytes] = bytes(tensor.nbytes)
    drafter.write_bytes(data)
    centroids, ordering = clustered(drafter, COUNT)
    assert sorted(ordering) == list(range(VOCAB))
    assert not any(centroids)


def test_rows_that_are_no_numbers_are_refused(drafter: Path) -> None:
    tensor = read_header(drafter).tensors["token_embd.weight"]
    data = bytearray(drafter.read_bytes())
    data[tensor.offset : tensor.offset + 2] = struct.pack("<e", float("nan"))  # a block's scale
    drafter.write_bytes(data)
    with pytest.raises(DamagedFileError, match="no finite numbers"):
        provided(drafter)
    assert found(drafter) is None


def test_a_computation_that_was_stopped_leaves_nothing(drafter: Path) -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(CancelledError):
        clusters.provide(read_header(drafter), stop)
    assert os.listdir(drafter.parent) == ["drafter.gguf"]


def replaced(drafter: Path) -> None:
    """Another file takes the drafter's path, with its size and its time."""
    state, other = drafter.stat(), drafter.with_name("other")
    fill_tensor(DRAFTER, other, "output_norm.weight", 2.0)
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert other.stat().st_size == state.st_size
    other.replace(drafter)


def test_clusters_come_from_the_file_that_was_checked_or_not_at_all(drafter: Path) -> None:
    checked = read_header(drafter)
    replaced(drafter)
    with pytest.raises(DamagedFileError, match="changed after it was checked"):
        clusters.provide(checked, Stop())
    drafter.unlink()
    with pytest.raises(DamagedFileError, match="changed after it was checked"):
        clusters.provide(checked, Stop())
    os.mkfifo(drafter)
    with pytest.raises(DamagedFileError, match="changed after it was checked"):
        clusters.provide(checked, Stop())
    assert os.listdir(drafter.parent) == [drafter.name]


def test_a_file_replaced_while_it_is_read_gets_no_clusters(
    drafter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = bridge.cluster_tokens

    def compute_and_replace(*arguments):
        found = compute(*arguments)
        replaced(drafter)
        return found

    monkeypatch.setattr(bridge, "cluster_tokens", compute_and_replace)
    with pytest.raises(DamagedFileError, match="changed after it was checked"):
        provided(drafter)
    assert os.listdir(drafter.parent) == [drafter.name]


def test_a_head_reads_the_drafter_that_was_loaded_whatever_has_its_path(drafter: Path) -> None:
    handle = EngineHandle(TARGET, drafter)
    rows = np.random.default_rng(0).normal(size=(64, WIDTH))
    computed = clustered(drafter, 64)
    handle.set_clusters(64, 32, *computed)
    before = recall(handle, rows)
    assert 0.0 < before < 1.0
    drafter.unlink()
    drafter.write_bytes(b"another file")
    handle.set_clusters(64, 32, *computed)
    assert recall(handle, rows) == before
    handle.free()


# ---- kept beside the drafter ---------------------------------------------------------------------


def test_clusters_are_computed_once_and_found_again(drafter: Path) -> None:
    assert found(drafter) is None
    computed = provided(drafter)
    assert sorted(os.listdir(drafter.parent)) == ["drafter.gguf", "drafter.gguf.clusters"]
    stop = Stop()
    stop.set()  # computing again would raise
    assert clusters.provide(read_header(drafter), stop) == computed == found(drafter)
    assert (computed.count, len(computed.centroids)) == (COUNT, COUNT * WIDTH)


def test_a_folder_that_takes_no_file_leaves_them_to_the_cache(drafter: Path) -> None:
    beside, cached = clusters.places(drafter)
    beside.mkdir()
    computed = provided(drafter)
    assert found(drafter) == computed
    assert os.listdir(cached.parent) == [cached.name]
    assert sorted(os.listdir(drafter.parent)) == ["cache", "drafter.gguf", beside.name]


def test_without_any_place_they_are_computed_all_the_same(drafter: Path) -> None:
    beside, cached = clusters.places(drafter)
    beside.mkdir()
    cached.parent.parent.write_bytes(b"")  # a file where the folder would be
    assert provided(drafter).count == COUNT
    assert found(drafter) is None


def resealed(data: bytes, payload: bytes) -> bytes:
    """The file with another payload and the checksum that belongs to it."""
    start = len(data) - 4 * (COUNT * WIDTH + VOCAB)
    return data[: start - 32] + hashlib.sha256(payload).digest() + payload


def with_item(data: bytes, index: int, item: bytes) -> bytes:
    start = len(data) - 4 * (COUNT * WIDTH + VOCAB)
    payload = bytearray(data[start:])
    payload[4 * index : 4 * index + 4] = item
    return resealed(data, bytes(payload))


DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "another kind of file": lambda data: b"GCCLUST0" + data[8:],
    "a bit of a centroid": lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:],
    "the last bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "another count": lambda data: data[:8] + struct.pack("<I", 64) + data[12:],
    "a token twice": lambda data: with_item(data, COUNT * WIDTH, data[-4:]),
    "no token": lambda data: with_item(data, COUNT * WIDTH, struct.pack("<i", VOCAB)),
    "not a number": lambda data: with_item(data, 5, struct.pack("<f", float("nan"))),
    "infinite": lambda data: with_item(data, 5, struct.pack("<f", float("inf"))),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_ignored_and_made_anew(drafter: Path, name: str) -> None:
    computed = provided(drafter)
    kept = clusters.places(drafter)[0]
    whole = kept.read_bytes()
    kept.write_bytes(DAMAGE[name](whole))
    assert found(drafter) is None
    assert provided(drafter) == computed
    assert kept.read_bytes() == whole


def test_clusters_of_another_state_of_the_drafter_are_not_used(drafter: Path) -> None:
    provided(drafter)
    state = drafter.stat()
    os.utime(drafter, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert found(drafter) is None
    provided(drafter)
    assert found(drafter) is not None
    fill_tensor(DRAFTER, drafter, "output_norm.weight", 2.0)
    os.utime(drafter, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert found(drafter) is None


def test_an_engine_drafts_from_clusters_that_were_kept(
    drafter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not clusters.lacks_clusters(read_header(drafter))  # it has centroids, and few tokens
    provided(drafter)
    monkeypatch.setattr(clusters, "lacks_clusters", lambda info: True)
    with Engine.load(TARGET, drafter, threads=1) as engine:
        kept, rows = found(drafter), np.random.default_rng(0).normal(size=(4, WIDTH))
        assert kept is not None
        used = recall(engine._handle, rows)
        engine._handle.set_clusters(kept.count, kept.top, kept.centroids, kept.ordering)
        assert used == recall(engine._handle, rows)
        handle = open_handle(engine)
        handle.sync(chat_tokens(engine, PROMPTS[0]))
        handle.step(0, 1)  # nothing is drafted right after a prompt
        handle.step(3, 8)
        assert handle.stats().clustered == 3
        handle.free()
