"""The embedded pair as test input: paths, prompts, requantized and damaged copies."""

from __future__ import annotations

import ctypes
from importlib.resources import files
from pathlib import Path

import numpy as np
from gemmachat.converters.conversion import plan_file
from gemmachat.converters.write import GgufFile, write_files

from gemmachat import Engine, SamplingParams
from gemmachat.bridge_session import SessionHandle
from gemmachat.gguf_info import read_header
from gemmachat.native_structs import NativeSampling, SessionParams

DATA = Path(str(files("gemmachat") / "data"))
TARGET = DATA / "tiny.gguf"
DRAFTER = DATA / "tiny-drafter.gguf"
PROMPTS = (Path(__file__).parent / "prompts.txt").read_text(encoding="utf-8").splitlines()

GREEDY = SamplingParams(temperature=0.0)
NATIVE_GREEDY = NativeSampling(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0)


def chat_tokens(engine: Engine, prompt: str) -> list[int]:
    """The token ids of a one-turn conversation that waits for its answer."""
    vocab = engine.vocab
    turn, end = vocab.control("<|turn>"), vocab.control("<turn|>")
    return [
        vocab.control("<bos>"),
        turn,
        *vocab.tokenize(f"user\n{prompt}"),
        end,
        *vocab.tokenize("\n"),
        turn,
        *vocab.tokenize("model\n"),
    ]


def open_handle(
    engine: Engine,
    *,
    n_ctx: int = 1024,
    exact: bool = False,
    trace: bool = False,
    dense: bool = False,
) -> SessionHandle:
    """A native session without the Python session around it; drafts come from clusters."""
    params = SessionParams(
        n_ctx=n_ctx, n_threads=1, exact=exact, trace_logits=trace, dense_head=dense
    )
    handle = SessionHandle(engine._handle, params)
    handle.set_sampling(NATIVE_GREEDY)
    return handle


def probe(handle: SessionHandle, width: int = 1) -> np.ndarray:
    """The logits after the timeline, float32 [vocab]."""
    return np.array(handle.probe(width), np.float32)


def requantize(source: Path, target: Path, ftype: str) -> Path:
    """Write a copy of a GGUF file in another quantization, through llama.cpp."""
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    kind = "ALL" if ftype == "F32" else "MOSTLY"
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_{kind}_{ftype}")
    params.allow_requantize = True
    params.nthread = 1
    code = llama_cpp.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.byref(params)
    )
    assert code == 0, f"llama.cpp cannot requantize to {ftype}"
    return target


def scramble(source: Path, target: Path, seed: int = 0) -> Path:
    """Write a copy of a Q8_0 file whose matrices hold the same numbers in random places."""
    data = np.frombuffer(source.read_bytes(), np.uint8).copy()
    rng = np.random.default_rng(seed)
    for tensor in read_header(source).tensors.values():
        if tensor.type_name == "Q8_0":
            blocks = data[tensor.offset : tensor.offset + tensor.nbytes].reshape(-1, 34)
            blocks[:, 2:] = rng.permutation(blocks[:, 2:].ravel()).reshape(-1, 32)
    target.write_bytes(data.tobytes())
    return target


def fill_tensor(source: Path, target: Path, name: str, value: float) -> Path:
    """Write a copy of a file in which every number of an F32 tensor is `value`."""
    data = np.frombuffer(source.read_bytes(), np.uint8).copy()
    tensor = read_header(source).tensors[name]
    assert tensor.type_name == "F32"
    data[tensor.offset : tensor.offset + tensor.nbytes].view(np.float32)[:] = value
    target.write_bytes(data.tobytes())
    return target


def without_centroids(path: Path) -> Path:
    """The embedded drafter as a file that lacks its clusters of tokens."""
    plan = plan_file(DRAFTER, quant="Q8_0")
    metadata = {key: value for key, value in plan.metadata.items() if "masked_embedding" not in key}
    write_files({path: GgufFile(metadata, plan.tensors)}, force=False)
    return path
