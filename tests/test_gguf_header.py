"""A GGUF header is taken at its word only where the bytes of the file agree."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path

import gguf_builder as build
import pytest
from llama_cpp import llama_cpp

from gemmachat.errors import DamagedFileError, GemmachatError, NotFoundError
from gemmachat.gguf_info import ArrayInfo, read_header
from gemmachat.gguf_types import TENSOR_TYPES

ARCH = build.key("general.architecture", build.STR, build.text("gemma4"))
ONE = build.tensor("a", [8])
DATA = bytes(32)

MALFORMED = {
    "empty": (b"", "not a GGUF file"),
    "cut magic": (b"GG", "not a GGUF file"),
    "other magic": (b"GGML" + bytes(60), "not a GGUF file"),
    "cut counts": (b"GGUF\3\0\0\0\1\0", "truncated"),
    "version 1": (build.gguf(version=1), "version 1"),
    "version 4": (build.gguf(version=4), "version 4"),
    "version 0": (build.gguf(version=0), "version 0"),
    "big endian": (build.gguf(version=3 << 24), "big-endian"),
    "key count": (build.gguf(key_count=2**63), "keys"),
    "key count above the limit": (build.gguf(key_count=70_000, data=bytes(2_000_000)), "keys"),
    "tensor count": (build.gguf(tensor_count=2**64 - 1), "tensors"),
    "cut keys": (build.gguf([ARCH], key_count=2, data=bytes(8)), "0 bytes"),
    "key length": (build.gguf([struct.pack("<Q", 2**62) + bytes(20)]), "a key of"),
    "empty key": (build.gguf([build.u32("", 1)]), "a key of 0 bytes"),
    "key not UTF-8": (build.gguf([build.key(b"\xff\xfe", build.U8, b"\1")]), "not UTF-8"),
    "key with NUL": (build.gguf([build.key(b"a\0b", build.U8, b"\1")]), "NUL"),
    "duplicate key": (build.gguf([ARCH, ARCH]), "'general.architecture' twice"),
    "value type": (build.gguf([build.key("a", 13, bytes(8))]), "unknown type 13"),
    "string length": (
        build.gguf([build.key("a", build.STR, struct.pack("<Q", 2**63))]),
        "truncated",
    ),
    "string not UTF-8": (build.gguf([build.key("a", build.STR, build.text(b"\xc3"))]), "UTF-8"),
    "truth value": (build.gguf([build.key("a", build.BOOL, b"\2")]), "neither 0 nor 1"),
    "truth values": (build.gguf([build.array("a", build.BOOL, 2, b"\1\2")]), "neither 0 nor 1"),
    "nested array": (build.gguf([build.array("a", build.ARR, 1, bytes(12))]), "nests"),
    "array item type": (build.gguf([build.array("a", 77, 1, bytes(12))]), "unknown type 77"),
    "array length": (build.gguf([build.array("a", build.U32, 2**62, b"")]), "items"),
    "string array length": (build.gguf([build.array("a", build.STR, 2**40, b"")]), "items"),
    "cut string array": (
        build.gguf([build.array("a", build.STR, 3, build.text("xy") + bytes(16))[:-1]]),
        "truncated",
    ),
    "string in array too long": (
        build.gguf([build.array("a", build.STR, 2, struct.pack("<Q", 2**64 - 1) + bytes(32))]),
        "truncated",
    ),
    "alignment 0": (build.gguf([build.u32("general.alignment", 0)]), "power of two"),
    "alignment 48": (build.gguf([build.u32("general.alignment", 48)]), "power of two"),
    "alignment type": (
        build.gguf([build.key("general.alignment", build.U64, bytes(8))]),
        "unsigned 32-bit",
    ),
    "tensor name length": (build.gguf(tensors=[build.tensor("n" * 64, [8])], data=DATA), "64 b"),
    "tensor name not UTF-8": (build.gguf(tensors=[build.tensor(b"\x80", [8])], data=DATA), "UTF"),
    "duplicate tensor": (
        build.gguf(tensors=[ONE, build.tensor("a", [8], offset=32)], data=DATA * 2),
        "'a' twice",
    ),
    "no dimension": (build.gguf(tensors=[build.tensor("a", [])], data=DATA), "0 dimensions"),
    "five dimensions": (build.gguf(tensors=[build.tensor("a", [1] * 5)], data=DATA), "5 dim"),
    "empty dimension": (build.gguf(tensors=[build.tensor("a", [8, 0])], data=DATA), "empty"),
    "overflowing shape": (
        build.gguf(tensors=[build.tensor("a", [2**62, 2**62, 2**62, 4])], data=DATA),
        "truncated or damaged",
    ),
    "tensor type": (build.gguf(tensors=[build.tensor("a", [8], 99)], data=DATA), "type 99"),
    "retired tensor type": (build.gguf(tensors=[build.tensor("a", [8], 4)], data=DATA), "type 4"),
    "row of half a block": (
        build.gguf(tensors=[build.tensor("a", [48], build.TYPE_Q8_0)], data=bytes(68)),
        "blocks of 32",
    ),
    "offset off alignment": (
        build.gguf(tensors=[build.tensor("a", [8], offset=4)], data=bytes(64)),
        "offset 4",
    ),
    "overlap": (build.gguf(tensors=[ONE, build.tensor("b", [8])], data=bytes(64)), "offset 0"),
    "gap": (
        build.gguf(tensors=[ONE, build.tensor("b", [8], offset=64)], data=bytes(96)),
        "offset 64",
    ),
    "offset outside": (
        build.gguf(tensors=[build.tensor("a", [8], offset=2**60)], data=DATA),
        "offset",
    ),
    "cut data": (build.gguf(tensors=[ONE], data=bytes(31)), "it is truncated"),
    "no data": (build.gguf(tensors=[ONE])[:60], "truncated"),
    "bytes after the end": (build.gguf(tensors=[ONE], data=bytes(64)), "belong to no tensor"),
}


def written(folder: Path, content: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_header_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    content, expected = MALFORMED[name]
    with pytest.raises(DamagedFileError) as caught:
        read_header(written(tmp_path, content))
    message = str(caught.value)
    assert expected in message
    assert "model.gguf" in message
    assert "\n" not in message


def test_49_bytes_that_claim_an_array_of_2_to_the_40_items_are_refused(tmp_path: Path) -> None:
    content = build.gguf([build.array("k", build.U32, 2**40, b"")])
    with pytest.raises(DamagedFileError, match="1099511627776 items"):
        read_header(written(tmp_path, content))
    assert len(content) == 49


def test_control_characters_in_names_do_not_reach_the_message(tmp_path: Path) -> None:
    content = build.gguf(tensors=[build.tensor("\x1b]0;owned\x07", [8], 99)], data=DATA)
    with pytest.raises(DamagedFileError) as caught:
        read_header(written(tmp_path, content))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("version", [2, 3])
def test_intact_header_is_read(tmp_path: Path, version: int) -> None:
    tokens = b"".join(build.text(f"t{i}") for i in range(50_000))
    keys = [
        ARCH,
        build.array("short", build.I32, 2, struct.pack("<ii", -1, 7)),
        build.array("tokens", build.STR, 50_000, tokens),
        build.array("numbers", build.F32, 2000, struct.pack("<2000f", *range(2000))),
    ]
    tensors = [build.tensor("q", [64, 2], build.TYPE_Q8_0), build.tensor("f", [3], offset=160)]
    info = read_header(
        written(tmp_path, build.gguf(keys, tensors, bytes(160 + 12), version=version))
    )
    assert info.architecture == "gemma4"
    assert info.metadata["short"] == (-1, 7)
    assert info.value_types["tokens"] == "arr[str]"
    stored = info.metadata["tokens"]
    assert isinstance(stored, ArrayInfo)
    assert stored.strings() == [b"t%d" % i for i in range(50_000)]
    numbers = info.metadata["numbers"]
    assert isinstance(numbers, ArrayInfo)
    assert numbers.numbers() == tuple(range(2000))
    assert info.tensors["q"].nbytes == 4 * 34
    assert info.tensors["f"].offset == info.state.size - 12


def test_strings_longer_than_the_reading_window_are_skipped_exactly(tmp_path: Path) -> None:
    items = [b"x" * 300_000, b"", b"y" * (1 << 18), b"z"] * 3
    keys = [
        build.array("long", build.STR, len(items), b"".join(map(build.text, items))),
        build.u32("after", 42),
    ]
    info = read_header(written(tmp_path, build.gguf(keys)))
    assert info.metadata["after"] == 42


def test_array_that_changed_after_the_check_is_not_misread(tmp_path: Path) -> None:
    tokens = b"".join(build.text(f"t{i}") for i in range(2000))
    path = written(tmp_path, build.gguf([build.array("tokens", build.STR, 2000, tokens)]))
    stored = read_header(path).metadata["tokens"]
    assert isinstance(stored, ArrayInfo)
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(DamagedFileError, match="changed"):
        stored.strings()
    path.write_bytes(b"")
    with pytest.raises(DamagedFileError, match="changed"):
        stored.strings()


def test_missing_file_and_special_files_are_not_found(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("absent.gguf", ".", "pipe"):
        with pytest.raises(NotFoundError):
            read_header(tmp_path / name)


def test_block_sizes_are_those_of_the_installed_ggml() -> None:
    lib = llama_cpp._lib  # finds the symbols of the ggml that it has loaded
    for function in (lib.ggml_type_size, lib.ggml_blck_size, lib.ggml_type_name):
        function.argtypes = [ctypes.c_int]
    lib.ggml_type_size.restype = ctypes.c_size_t
    lib.ggml_blck_size.restype = ctypes.c_int64
    lib.ggml_type_name.restype = ctypes.c_char_p
    for kind, (name, block, block_bytes) in TENSOR_TYPES.items():
        assert lib.ggml_type_name(kind).decode().lower() == name.lower()
        assert (lib.ggml_blck_size(kind), lib.ggml_type_size(kind)) == (block, block_bytes)


def test_file_that_the_system_does_not_let_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, flags: int) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(GemmachatError, match="cannot be read: Permission denied") as caught:
        read_header(path)
    assert caught.value.exit_code == 1
