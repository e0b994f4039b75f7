"""With matrix kernels of our own inside llama.cpp it says what it says without them."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_runner
import nano_checkpoint as nano
import numpy as np
import pytest
import random_weights
import tiny_checkpoint as tiny
from conftest import Command
from embedded import DRAFTER, PROMPTS, TARGET, chat_tokens, open_handle, probe, requantize
from gemmachat.converters import convert

from gemmachat import Engine, SamplingParams, UsageError
from gemmachat.bridge_session import SessionHandle
from gemmachat.catalog import ResolvedModel
from gemmachat.levers import describe_levers
from gemmachat.native import _load_llama, library
from gemmachat.native_structs import MAX_WIDTH, NativeSampling, SessionParams

GREEDY = SamplingParams(temperature=0.0)
NATIVE_GREEDY = NativeSampling(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0)
QUANTS = ("Q4_0", "Q8_0", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "F16", "BF16")
AS_IT_PAYS = -1
SAME_BITS = ("Q4_0", "Q8_0")  # whole numbers added up, then floats in ggml's order
every_quant = pytest.mark.parametrize("quant", QUANTS)

pytestmark = pytest.mark.skipif(
    not library().gc_kernels_installed(), reason=library().gc_kernels_status().decode()
)

Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """The embedded pair in another quantization, target and drafter."""
    folder = tmp_path_factory.mktemp("quantized")

    def quantized(quant: str) -> Pair:
        files = folder / f"{quant}.gguf", folder / f"{quant}-drafter.gguf"
        if not files[0].exists():
            convert(TARGET, files[0], quant=quant)
            convert(DRAFTER, files[1], quant=quant)
        return files

    return quantized


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A small random model with experts, wide enough for all types, in a quantization."""
    folder = tmp_path_factory.mktemp("experts")
    config = nano.target_config("26b-a4b") | {
        "hidden_size": 256,
        "intermediate_size": 256,
        "moe_intermediate_size": 256,
    }
    weights = random_weights.target_weights(config, 3)
    tiny.write_folder(folder / "checkpoint", config, tiny.stored_names(weights, "model."))

    def quantized(quant: str) -> Path:
        path = folder / f"{quant}.gguf"
        if not path.exists():
            convert(folder / "checkpoint", path, quant=quant)
        return path

    return quantized


def logits(engine: Engine, tokens: list[int], width: int = 1, threads: int = 1) -> np.ndarray:
    """The logits after a prompt, float32 [vocab]."""
    handle = SessionHandle(engine._handle, SessionParams(n_ctx=1024, n_threads=threads))
    handle.set_sampling(NATIVE_GREEDY)
    handle.sync(tokens)
    found = probe(handle, width)
    handle.free()
    return found


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def texts(engine: Engine, prompts: list[str], draft: Any) -> list[list[int | None]]:
    with engine.session(n_ctx=512) as session:
        return [
            [
                event.token
                for event in session.generate(
                    chat_tokens(engine, prompt), GREEDY, draft=draft, max_tokens=24
                )
            ]
            for prompt in prompts
        ]


@every_quant
def test_greedy_texts_are_those_of_ggmls_kernels(pair: Callable[[str], Pair], quant: str) -> None:
    said = {}
    for kernels in ("auto", "ggml"):
        with Engine.load(*pair(quant), threads=1, kernels=kernels) as engine:
            said[kernels] = [texts(engine, PROMPTS[:5], draft) for draft in ("off", 3, "auto")]
    assert said["auto"] == said["ggml"]


@every_quant
def test_logits_are_those_of_ggmls_kernels(pair: Callable[[str], Pair], quant: str) -> None:
    with (
        Engine.load(*pair(quant), kernels="auto") as ours,
        Engine.load(*pair(quant), kernels="ggml") as ggmls,
    ):
        for prompt in (PROMPTS[3], " ".join(PROMPTS[:20])):
            tokens = chat_tokens(ours, prompt)
            found, expected = logits(ours, tokens), logits(ggmls, tokens)
            if quant in SAME_BITS:
                assert np.array_equal(found, expected)
            assert relative_error(found, expected) < 2e-2
            assert found.argmax() == expected.argmax()


@every_quant
def test_logits_do_not_depend_on_width_or_threads(pair: Callable[[str], Pair], quant: str) -> None:
    with Engine.load(*pair(quant)) as engine:
        taken = library().gc_kernels_status().decode()
        if quant.removesuffix("_M").lower() not in taken.lower():
            pytest.skip("ggml multiplies it")
        tokens = chat_tokens(engine, PROMPTS[5])
        expected = logits(engine, tokens)
        for width, threads in itertools.product(range(1, MAX_WIDTH + 1), (1, 2, 3, 5)):
            assert np.array_equal(logits(engine, tokens, width, threads), expected)


@every_quant
def test_experts_compute_what_they_compute_in_ggml(
    experts: Callable[[str], Path], quant: str
) -> None:
    tokens = [token % 350 for token in range(8, 8 + 7 * 60, 7)]
    with (
        Engine.load(experts(quant), kernels="auto") as ours,
        Engine.load(experts(quant), kernels="ggml") as ggmls,
        Engine.load(experts("F32"), kernels="ggml") as precise,
    ):
        for length in (1, 2, 5, 60):
            prompt = tokens[:length]
            found, expected, true = (logits(engine, prompt) for engine in (ours, ggmls, precise))
            for threads in (2, 5):
                assert np.array_equal(logits(ours, prompt, threads=threads), found)
            if quant in SAME_BITS:
                assert np.array_equal(found, expected)
            # A rounding that falls the other way in one layer is magnified in the next, up to an
            # expert that is exchanged: by that, ggml's own logits differ with the width of a pass.
            assert relative_error(found, true) < 1.1 * relative_error(expected, true) + 1e-6


def test_experts_matrices_are_packed(experts: Callable[[str], Path]) -> None:
    with Engine.load(experts("Q4_0")) as engine:
        config = nano.target_config("26b-a4b")
        weights = 3 * 256 * 256 * config["num_experts"] * config["num_hidden_layers"]
        assert engine.packed_bytes > weights * 18 / 32


def test_drafts_are_those_of_ggmls_kernels(pair: Callable[[str], Pair]) -> None:
    """The drafter's layers are packed, its head over clusters reads the file."""
    drafted = {}
    packed = {}
    for kernels in ("auto", "ggml"):
        with Engine.load(*pair("Q4_0"), threads=1, kernels=kernels) as engine:
            packed[kernels] = engine.packed_bytes
            handle = open_handle(engine)
            rounds = []
            for prompt in PROMPTS[:6]:
                handle.sync(chat_tokens(engine, prompt))
                rounds.append([(token.id, token.from_draft) for token in handle.step(7, 8)])
                rounds.append([(token.id, token.from_draft) for token in handle.step(7, 8)])
            drafted[kernels] = rounds, handle.stats().clustered
            handle.free()
    assert drafted["auto"] == drafted["ggml"]
    assert drafted["auto"][1] > 0
    with Engine.load(pair("Q4_0")[0], threads=1) as alone:
        assert packed["auto"] > alone.packed_bytes > packed["ggml"] == 0


@pytest.mark.parametrize("no_early_exit", [False, True])
def test_prefill_leaves_the_bits_of_ggmls_kernels(
    pair: Callable[[str], Pair], no_early_exit: bool
) -> None:
    held = []
    for kernels in ("auto", "ggml"):
        with Engine.load(*pair("Q4_0"), kernels=kernels) as engine:
            params = SessionParams(n_ctx=1024, n_threads=2, no_early_exit=no_early_exit)
            handle = SessionHandle(engine._handle, params)
            handle.set_sampling(NATIVE_GREEDY)
            handle.sync(chat_tokens(engine, " ".join(PROMPTS[:20])))
            assert (handle.stats().exited_tokens > 0) != no_early_exit
            held.append((handle.kv_hash(), handle.inspect().hidden_hash))
            handle.free()
    assert held[0] == held[1]


def test_no_lever_changes_a_greedy_token_in_exact_mode(pair: Callable[[str], Pair]) -> None:
    said: list[list[tuple[int, int]]] = []
    for kernels in ("auto", "ggml"):
        with Engine.load(*pair("Q4_0"), threads=1, kernels=kernels) as engine:
            for complete, dense, n_draft in itertools.product(
                (False, True), (False, True), (0, 3, 7, AS_IT_PAYS)
            ):
                params = SessionParams(
                    n_ctx=512, n_threads=1, exact=True, trace_logits=True,
                    no_early_exit=complete, dense_head=dense,
                )  # fmt: skip
                handle = SessionHandle(engine._handle, params)
                handle.set_sampling(NATIVE_GREEDY)
                said.append([])
                for prompt in PROMPTS[10:13]:
                    tokens = chat_tokens(engine, prompt)
                    handle.sync(tokens[:1])  # so that every answer starts from the same cache
                    handle.sync(tokens)
                    left = 16
                    while left > 0:
                        emitted = handle.step(n_draft, left)
                        said[-1] += [(token.id, token.logits_hash) for token in emitted]
                        left -= len(emitted)
                handle.free()
    assert len(said) == 32
    assert all(text == said[0] for text in said)


def test_two_models_and_both_kernels_live_in_one_process(pair: Callable[[str], Pair]) -> None:
    with (
        Engine.load(*pair("Q4_0"), kernels="auto") as first,
        Engine.load(*pair("Q4_0"), kernels="ggml") as second,
        Engine.load(*pair("Q8_0"), kernels="auto") as third,
    ):
        assert first.packed_bytes > 0 == second.packed_bytes
        assert first.kernels != second.kernels == "ggml"
        alone = [texts(engine, PROMPTS[:3], 3) for engine in (first, second, third)]
        assert alone[0] == alone[1]
        together: dict[int, Any] = {}

        def answer(number: int, engine: Engine) -> None:
            together[number] = texts(engine, PROMPTS[:3], 3)

        threads = [
            threading.Thread(target=answer, args=(number, engine))
            for number, engine in enumerate((first, second, third))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [together[number] for number in range(3)] == alone


def test_models_that_others_load_stay_ggmls(pair: Callable[[str], Pair]) -> None:
    """One that loads beside an engine that is being loaded, too."""
    target = pair("Q4_0")[0]
    with Engine.load(target) as engine:
        tokens = chat_tokens(engine, PROMPTS[0])
        expected = logits(engine, tokens)
    loading = threading.Thread(target=lambda: Engine.load(target).close())
    loading.start()
    with llama_runner.loaded(target) as model, llama_runner.context(model) as context:
        loading.join()
        rows, _ = llama_runner.prefill(context, tokens, len(expected), 256)
    assert rows[-1].argmax() == expected.argmax()


def test_rows_that_fill_no_group_are_multiplied_by_ggml(tmp_path: Path) -> None:
    config = nano.target_config("31b") | {"intermediate_size": 96 + 4}
    weights = random_weights.target_weights(config, 5)
    tiny.write_folder(tmp_path / "odd", config, tiny.stored_names(weights, "model."))
    convert(tmp_path / "odd", tmp_path / "odd.gguf", quant="F32")
    odd = requantize(tmp_path / "odd.gguf", tmp_path / "odd-q4.gguf", "Q4_0")
    tokens = nano.prompt("31b")
    with Engine.load(odd, kernels="auto") as ours, Engine.load(odd, kernels="ggml") as ggmls:
        assert ours.packed_bytes > 0
        assert np.array_equal(logits(ours, tokens), logits(ggmls, tokens))


def test_loading_fifty_times_leaks_nothing(pair: Callable[[str], Pair]) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("/proc tells what is in memory")
    held = []
    for turn in range(50):
        with Engine.load(*pair("Q4_0"), threads=2) as engine:
            assert engine.packed_bytes > 0
            if turn in (9, 49):
                texts(engine, PROMPTS[:1], 3)
        if turn in (9, 49):
            held.append(anonymous_bytes())
    assert held[1] - held[0] < 1 << 20


def anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


IN_A_CHILD = """
import sys
sys.path[:0] = [{tests!r}]
import resource
from pathlib import Path
from gemmachat import Engine, GemmachatError, SamplingParams, native
target, drafter = Path({target!r}), Path({drafter!r})
{body}
"""


def in_a_child(pair: Pair, body: str) -> str:
    code = IN_A_CHILD.format(
        tests=str(Path(__file__).parent), target=str(pair[0]), drafter=str(pair[1]), body=body
    )
    run = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on addresses that holds")
def test_memory_that_runs_out_while_loading_is_an_error(pair: Callable[[str], Pair]) -> None:
    body = """
native.library()
lines = Path("/proc/self/status").read_text().splitlines()
size = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize"))
file = target.stat().st_size
for share in (40, 50, 60, 70, 80, 90):
    limit = size + file + file * share // 100
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        Engine.load(target, force=True, kernels="auto").close()
        print("loaded")
    except GemmachatError as error:
        print(error.exit_code, error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
with Engine.load(target, drafter, kernels="auto") as engine:
    print(engine.packed_bytes)
"""
    *tries, packed = in_a_child(pair("Q4_0"), body).splitlines()
    failed = [line for line in tries if line != "loaded"]
    assert any("attempted to allocate" in line for line in failed), tries
    assert all(line.startswith("5 there is not enough memory to load") for line in failed), tries
    assert int(packed) > 0


def test_groups_of_sixteen_rows_say_the_same(pair: Callable[[str], Pair]) -> None:
    body = """
import os
os.environ["GEMMACHAT_KERNELS"] = "ggml"
lib = native.library()
assert lib.gc_kernels_install(b"portable16"), lib.gc_kernels_status()
import numpy as np
from embedded import PROMPTS, chat_tokens, open_handle, probe
rows = []
for kernels in ("auto", "ggml"):
    with Engine.load(target, drafter, threads=2, kernels=kernels) as engine:
        handle = open_handle(engine)
        handle.sync(chat_tokens(engine, PROMPTS[3]))
        rows.append([probe(handle, width) for width in range(1, 9)])
        print(engine.kernels)
        handle.free()
assert np.array_equal(*rows)
"""
    names = in_a_child(pair("Q4_0"), body).splitlines()
    assert "portable16" in names[0]
    assert names[1] == "ggml"


def test_what_is_not_there_is_not_installed(pair: Callable[[str], Pair]) -> None:
    body = """
import os
os.environ["GEMMACHAT_KERNELS"] = "ggml"
lib = native.library()
assert not lib.gc_kernels_install(b"abacus")
print(lib.gc_kernels_status().decode())
with Engine.load(target, drafter, kernels="auto") as engine:
    print(engine.kernels)
"""
    assert in_a_child(pair("Q4_0"), body).splitlines() == [
        "there are none for this processor",
        "ggml",
    ]


def test_a_model_loaded_before_leaves_no_place_for_them(pair: Callable[[str], Pair]) -> None:
    body = """
import llama_runner
with llama_runner.loaded(target):
    print(native.library_info()["kernels"])
    with Engine.load(target, drafter, kernels="auto") as engine:
        print(engine.kernels)
        with engine.session(n_ctx=64) as session:
            print(sum(1 for _ in session.generate([2], SamplingParams(seed=1), max_tokens=4)))
"""
    assert in_a_child(pair("Q4_0"), body).splitlines() == [
        "ggml's alone: llama.cpp had loaded a model before",
        "ggml",
        "4",
    ]


def test_kernels_kept_out_at_the_start_stay_out(pair: Callable[[str], Pair]) -> None:
    """ggml, once it computes, reads the list that plugging them in changes."""
    body = """
import os
os.environ["GEMMACHAT_KERNELS"] = "ggml"
print(native.library_info()["kernels"])
del os.environ["GEMMACHAT_KERNELS"]
print(native.library_info()["kernels"])
for kernels in ("ggml", "auto"):
    with Engine.load(target, drafter, kernels=kernels) as engine:
        print(engine.kernels, engine.packed_bytes)
"""
    assert in_a_child(pair("Q4_0"), body).splitlines() == [
        "ggml's alone, as GEMMACHAT_KERNELS says",
        "ggml's alone: they were not wanted when llama.cpp was loaded",
        "ggml 0",
        "ggml 0",
    ]


def test_unknown_kernels_in_the_environment_are_refused_before_anything_is_loaded(
    pair: Callable[[str], Pair],
) -> None:
    body = """
import os
os.environ["GEMMACHAT_KERNELS"] = "yours"
try:
    Engine.load(target, drafter, kernels="ggml")
except GemmachatError as error:
    print(error)
del os.environ["GEMMACHAT_KERNELS"]
with Engine.load(target, drafter) as engine:
    print(engine.packed_bytes > 0)
"""
    assert in_a_child(pair("Q4_0"), body).splitlines() == [
        "GEMMACHAT_KERNELS must be auto or ggml, not 'yours'",
        "True",
    ]


def test_another_ggml_leaves_no_place_for_them(
    pair: Callable[[str], Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLAMA_CPP_LIB_PATH may name one whose structures are others."""
    folder = tmp_path / "lib"
    shutil.copytree(Path(_load_llama()._name).parent, folder)
    for path in folder.glob("libggml-base.*"):
        path.write_bytes(path.read_bytes().replace(b"\x000.25.3\x00", b"\x000.25.4\x00"))
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(folder))
    body = """
print(native.library_info()["kernels"])
with Engine.load(target, drafter) as engine:
    print(engine.packed_bytes)
"""
    assert in_a_child(pair("Q4_0"), body).splitlines() == [
        "ggml's alone: they are made for ggml 0.25.3, and this is 0.25.4",
        "0",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="calls ggml by its mangled name")
def test_they_stay_out_where_llama_cpp_has_amx(pair: Callable[[str], Pair]) -> None:
    body = """
import ctypes
native._load_llama()
ggml = ctypes.CDLL("libggml-cpu.so.0")
get_types = ggml._Z39ggml_backend_cpu_get_extra_buffer_typesv
get_types.restype = ctypes.POINTER(ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))
name = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(
    lambda _, name=ctypes.create_string_buffer(b"AMX"): ctypes.addressof(name)
)
get_types()[0][0][0] = ctypes.cast(name, ctypes.c_void_p).value  # the first type's get_name
print(native.library_info()["kernels"])
"""
    assert in_a_child(pair("Q4_0"), body).splitlines() == [
        "ggml's alone: llama.cpp multiplies with AMX here, and they were never compared with it"
    ]


def test_kernels_are_chosen_by_option_then_by_environment(
    command: Command, monkeypatch: pytest.MonkeyPatch, pair: Callable[[str], Pair]
) -> None:
    for arguments in (("run", "tiny", "Hello"), ("bench", "tiny"), ("selftest", "tiny")):
        done = command(*arguments, "--kernels", "mine")
        assert (done.code, done.out) == (2, "")
        assert done.err == "error: --kernels must be auto or ggml, not 'mine'\n"
    monkeypatch.setenv("GEMMACHAT_KERNELS", "yours")
    with pytest.raises(UsageError, match="GEMMACHAT_KERNELS must be auto or ggml, not 'yours'"):
        Engine.load(*pair("Q4_0"))
    monkeypatch.setenv("GEMMACHAT_KERNELS", "ggml")
    with Engine.load(*pair("Q4_0")) as engine:
        assert engine.kernels == "ggml"
        ggmls = engine.schedule_file
    with Engine.load(*pair("Q4_0"), kernels="auto") as engine:
        assert engine.kernels != "ggml"
        assert engine.schedule_file != ggmls


def test_the_doctor_says_what_multiplies(pair: Callable[[str], Pair]) -> None:
    files = pair("Q4_0")
    model = ResolvedModel("quantized", files[0], files[1], 512, 1.0, None)
    assert str(describe_levers(model)["matrix_kernels"]).startswith("on, for ")
