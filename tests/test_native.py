"""The native library is the right one, and llama.cpp is in the process exactly once."""

from __future__ import annotations

import ctypes
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from embedded import TARGET

from gemmachat import Engine, native, native_structs
from gemmachat.errors import EngineError

HEADERS = sorted((Path(__file__).parent.parent / "native").glob("gemmachat*.h"))


def interface() -> str:
    """The C interface, as its headers say it."""
    return "\n".join(header.read_text(encoding="utf-8") for header in HEADERS)


def test_constants_are_those_of_the_headers():
    text = interface()
    assert int(re.search(r"#define GC_ABI_VERSION (\d+)", text)[1]) == native.ABI_VERSION
    assert int(re.search(r"#define GC_MAX_DRAFT (\d+)", text)[1]) == native_structs.MAX_DRAFT


def test_every_function_of_the_headers_is_declared():
    text = interface()
    functions = set(re.findall(r"\bGC_API [^(;]*?\b(gc_\w+)\(", text))
    assert functions == set(native.SIGNATURES)


def test_every_struct_has_the_headers_fields_in_order():
    text = re.sub(r"//.*", "", interface())
    in_header = {
        name: re.findall(r"(\w+)(?:\[\w+\])?(?=[;,])", body)
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.DOTALL)
    }
    declared = {
        struct.__doc__.split()[0].rstrip("."): [name for name, *_ in struct._fields_]
        for struct in vars(native_structs).values()
        if isinstance(struct, type) and issubclass(struct, ctypes.Structure)
    }
    assert declared == in_header


def test_another_abi_version_is_refused_with_both_named(monkeypatch):
    monkeypatch.setattr(native, "_library", None)
    monkeypatch.setattr(native, "ABI_VERSION", 99)
    with pytest.raises(EngineError, match=r"ABI version \d+ .*99.*reinstall"):
        native.library()


def test_another_llama_cpp_python_is_refused_with_both_named(monkeypatch):
    monkeypatch.setattr(native, "_library", None)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "9.9.9")
    with pytest.raises(EngineError, match=r"built for llama-cpp-python 0\.\d.* 9\.9\.9 is"):
        native.library()


def test_llama_cpp_python_without_its_metadata_is_refused(monkeypatch):
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(native, "_library", None)
    monkeypatch.setattr("importlib.metadata.version", missing)
    with pytest.raises(EngineError, match="llama-cpp-python is not installed properly"):
        native.library()


def test_another_library_in_place_of_ours_is_refused(monkeypatch):
    monkeypatch.setattr(native, "_library", None)
    monkeypatch.setattr(native, "_library_path", lambda: Path(native._load_llama()._name))
    with pytest.raises(EngineError, match=r"libllama.* is not gemmachat's: reinstall"):
        native.library()


def test_missing_arguments_are_a_status_and_no_crash():
    lib, bad_argument = native.library(), 2
    with Engine.load(TARGET, threads=1) as engine, engine.session(n_ctx=64) as session:
        pointer, count = session._handle.pointer, ctypes.c_int32()
        tokens = (native_structs.NativeToken * native_structs.MAX_WIDTH)()
        assert lib.gc_session_sync(pointer, None, 3) == bad_argument
        assert lib.gc_session_set_sampling(pointer, None) == bad_argument
        status = lib.gc_session_verify(pointer, None, 2, 9, tokens, ctypes.byref(count))
        assert status == bad_argument
        for n_threads in (0, 100_000):
            params = native_structs.SessionParams(n_ctx=64, n_threads=n_threads)
            status = lib.gc_session_new(
                engine._handle.pointer, ctypes.byref(params), ctypes.byref(ctypes.c_void_p())
            )
            assert status == bad_argument
    row = (ctypes.c_float * 4)()
    assert lib.gc_verify_rounds(row, None, 0, 4, None, False, 1, None, None) == bad_argument


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("order", ["llama_cpp first", "gemmachat first"])
def test_each_library_is_mapped_once(order):
    imports = ["import llama_cpp", "from gemmachat import native; native.library()"]
    if order == "gemmachat first":
        imports.reverse()
    script = "\n".join(
        [
            *imports,
            "import re",
            "paths = {line.split()[-1] for line in open('/proc/self/maps') if '.so' in line}",
            "print(*sorted(p for p in paths if re.search('/lib(llama|ggml|gemmachat)', p)))",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    names = [re.sub(r"\.so.*", "", Path(path).name) for path in done.stdout.split()]
    assert sorted(names) == ["libgemmachat", "libggml", "libggml-base", "libggml-cpu", "libllama"]


def test_importing_the_package_loads_no_native_code():
    script = (
        "import sys, gemmachat\n"
        "print([m for m in ('llama_cpp', 'numpy', 'typer') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_failed_assertion_of_llama_cpp_is_one_sentence():
    script = (
        "import ctypes; from gemmachat import native\n"
        "native.library().gc_engine_load(b'none', None, 0, ctypes.byref(ctypes.c_void_p()))\n"
        "native._load_llama().ggml_abort(b'/x/ops.cpp', 7, b'GGML_ASSERT(%s) failed', b'\\x1b[n')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.stderr == (
        b"error: llama.cpp failed and cannot go on: ops.cpp:7: GGML_ASSERT(?[n) failed\n"
    )
    assert (done.returncode, done.stdout) == (1, b"")
