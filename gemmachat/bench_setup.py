"""What a benchmark ran on: models, machine, settings, memory."""

from __future__ import annotations

import contextlib
import platform
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gemmachat.gguf_info import read_header
from gemmachat.native import installed_version
from gemmachat.processors import processor_name

if TYPE_CHECKING:
    from gemmachat.catalog import ResolvedModel
    from gemmachat.gguf_types import GgufInfo


def describe(model: ResolvedModel) -> dict[str, object]:
    """Return models, machine and versions by name."""
    target = read_header(model.target)
    drafter = None if model.drafter is None else read_header(model.drafter)
    return {
        "model": model.name,
        "model_type": file_type(target),
        "drafter": None if model.drafter is None else model.drafter.stem,
        "drafter_type": None if drafter is None else file_type(drafter),
        "synthetic": any(map(is_synthetic, filter(None, (target, drafter)))),
        "processor": processor_name(),
        "system": platform.platform(terse=True),
        "gemmachat": installed_version("gemmachat"),
        "llama_cpp_python": installed_version("llama-cpp-python"),
    }


def file_type(info: GgufInfo) -> str:
    """Return what llama.cpp calls the quantization of a file, such as Q4_K_M."""
    # Not from the module llama_cpp, which brings llama.cpp's log back when it is imported.
    from gguf import LlamaFileType

    number = info.metadata.get("general.file_type")
    names = {each.value: each.name for each in LlamaFileType}
    name = names.get(number, "of unknown type") if isinstance(number, int) else "of unknown type"
    return name.removeprefix("MOSTLY_").removeprefix("ALL_")


def is_synthetic(info: GgufInfo) -> bool:
    """Whether a file says that nobody has trained its weights."""
    return "synthetic" in str(info.metadata.get("general.name", "")).lower()


def peak_memory_bytes() -> int:
    """Return the most memory that this process has held so far, mapped weights included."""
    # What getrusage says outlives execve on Linux: it may be that of the program before.
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
