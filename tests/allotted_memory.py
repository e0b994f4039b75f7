"""What llama.cpp allots for a timeline on a model, by its own log; the weights are not loaded.

Run as a program, so that the log of no other test is touched: GGUF file, places of the KV cache,
how they are stored, flash attention, whether sliding layers keep all. Prints MiB as JSON.
"""

from __future__ import annotations

import json
import re
import sys

import llama_cpp.llama_cpp as lib

from gemmachat.memory import BATCH
from gemmachat.native_structs import MAX_WIDTH

KV_TYPES = {"f16": 1, "q8_0": 8}  # ggml_type
FLASH = {"on": 1, "off": 0}  # llama_flash_attn_type
_KV = re.compile(r"llama_kv_cache: size = +([\d.]+) MiB")
_COMPUTE = re.compile(r"compute buffer size = +([\d.]+) MiB")


def main() -> None:
    path, n_cells, kv_type, flash, full_swa = sys.argv[1:]
    lines: list[str] = []

    @lib.llama_log_callback
    def log(_level: int, text: bytes, _data: object) -> None:
        lines.append(text.decode(errors="replace"))

    lib.llama_log_set(log, None)
    lib.llama_backend_init()
    params = lib.llama_model_default_params()
    params.no_alloc = True
    params.load_mode = lib.LLAMA_LOAD_MODE_NONE
    model = lib.llama_model_load_from_file(path.encode(), params)
    assert model, "".join(lines)
    options = lib.llama_context_default_params()
    options.n_ctx = int(n_cells)
    options.n_batch = options.n_ubatch = BATCH
    options.n_outputs_max = MAX_WIDTH
    options.type_k = options.type_v = KV_TYPES[kv_type]
    options.flash_attn_type = FLASH[flash]
    options.swa_full = full_swa == "full"
    assert lib.llama_init_from_model(model, options), "".join(lines)
    text = "".join(lines)
    sizes = {
        "kv": sum(map(float, _KV.findall(text))),
        "compute": float(_COMPUTE.findall(text)[-1]),
    }
    print(json.dumps(sizes))


if __name__ == "__main__":
    main()
