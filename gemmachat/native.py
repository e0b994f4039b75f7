"""Loads libgemmachat beside the llama.cpp that it was built for, and checks both."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

from gemmachat import settings
from gemmachat.errors import EngineError
from gemmachat.native_functions import SIGNATURES

ABI_VERSION = 10

_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"

_library: ctypes.CDLL | None = None
_loaded_by = 0  # process id


def library() -> ctypes.CDLL:
    """The native library, loaded and checked at the first call.

    That call also plugs the matrix kernels into llama.cpp, unless GEMMACHAT_KERNELS is "ggml", and
    then they stay out as long as the process lives. Raises `UsageError` on another value than
    "auto" or "ggml", before anything is loaded, whatever an engine will ask for, and `EngineError`.

    The latter includes a process forked from one that has loaded it: the threads that llama.cpp
    counts on are not in the copy, and it would wait for them forever.
    """
    global _library, _loaded_by
    if _library is None:
        _library, _loaded_by = _load(), os.getpid()
    if is_forked():
        raise EngineError(
            "this process was forked from one that had loaded llama.cpp, which does not survive "
            "that: load it after the fork only, or use multiprocessing's start method 'spawn'"
        )
    return _library


def is_forked() -> bool:
    """Whether this process is the fork of one that had loaded the library."""
    return _library is not None and os.getpid() != _loaded_by


def library_info() -> dict[str, object]:
    """What is loaded: path, ABI version and the llama-cpp-python release compiled against."""
    lib = library()
    llama = _load_llama()
    llama.llama_print_system_info.restype = ctypes.c_char_p
    llama.llama_version.restype = ctypes.c_char_p
    return {
        "path": str(_library_path()),
        "abi_version": lib.gc_abi_version(),
        "built_for": lib.gc_built_for().decode(),
        "llama_version": llama.llama_version().decode(),
        "system_info": llama.llama_print_system_info().decode().strip(),
        "kernels": _kernels(lib),
    }


def _kernels(lib: ctypes.CDLL) -> str:
    """The matrix kernels that there are beside ggml's, or why there are none."""
    if settings.kernels() == "ggml":
        return f"ggml's alone, as {settings.KERNELS_VARIABLE} says"
    status = str(lib.gc_kernels_status().decode())
    return status if lib.gc_kernels_installed() else f"ggml's alone: {status}"


def installed_version(package: str) -> str:
    """The release of an installed package. Raises `EngineError` when it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        raise EngineError(f"{package} is not installed properly: reinstall gemmachat") from None


def _load_llama() -> ctypes.CDLL:
    """Opens the very file that `import llama_cpp` opens, so that the process has one copy.

    Executing the `llama_cpp` package would cost half a second of start-up and yield nothing else.
    """
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        raise EngineError("llama-cpp-python is not installed: reinstall gemmachat")
    folder = os.environ.get("LLAMA_CPP_LIB_PATH") or os.path.join(
        spec.submodule_search_locations[0], "lib"
    )
    path = os.path.join(folder, "libllama.so")
    if sys.platform == "darwin" and not os.path.exists(path):
        path = os.path.join(folder, "libllama.dylib")
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # read once, when the library is loaded
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise EngineError(f"cannot load llama.cpp: {error}") from error


def _library_path() -> Path:
    """The native library beside the package; an editable install keeps it in a second folder."""
    spec = importlib.util.find_spec("gemmachat")
    folders = spec.submodule_search_locations if spec else None
    candidates = [Path(folder) / f"libgemmachat{_SUFFIX}" for folder in folders or []]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise EngineError(f"the native library {candidates[0]} is missing: reinstall gemmachat")


def _load() -> ctypes.CDLL:
    kernels = settings.kernels()
    _load_llama()
    path = _library_path()
    try:
        lib = ctypes.CDLL(str(path))
    except OSError as error:
        raise EngineError(f"cannot load {path}: {error}") from error
    try:
        lib.gc_abi_version.restype = ctypes.c_uint32
        if lib.gc_abi_version() != ABI_VERSION:
            raise EngineError(
                f"{path} speaks ABI version {lib.gc_abi_version()} and this package needs "
                f"{ABI_VERSION}: reinstall gemmachat"
            )
        for name, (restype, argtypes) in SIGNATURES.items():
            function = getattr(lib, name)
            function.restype = restype
            function.argtypes = argtypes
    except AttributeError as error:
        raise EngineError(f"{path} is not gemmachat's: reinstall gemmachat ({error})") from None
    built_for = lib.gc_built_for().decode()
    installed = installed_version("llama-cpp-python")
    if built_for != installed:
        raise EngineError(
            f"{path} was built for llama-cpp-python {built_for} and {installed} is installed: "
            "reinstall gemmachat"
        )
    # Not later: another part of the program may load a model first, and ggml, once it computes,
    # goes through the list that this changes.
    if kernels == "auto":
        lib.gc_kernels_install(None)
    return lib
