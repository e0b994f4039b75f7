"""Faults in a valid GGUF file: each of a named kind, in a field drawn by a seed.

Finds the fields by a walk of its own, without help from the reader under test.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import gguf_builder as build

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_KEY_COUNT, _TENSOR_COUNT = 16, 8
BITS_63, BITS_64 = 2**63, 2**64 - 1


@dataclass
class Key:
    """Where the parts of one key begin: its length, type, value."""

    name: str
    begin: int
    type_at: int
    value_at: int
    end: int
    kind: int
    item: int | None
    length: int


@dataclass
class Tensor:
    """Where the parts of one tensor's description begin."""

    name: str
    begin: int
    dims_at: int
    shape: tuple[int, ...]
    type_at: int
    kind: int
    offset: int

    @property
    def offset_at(self) -> int:
        return self.type_at + 4


@dataclass
class File:
    """A valid file, and where in it is what."""

    data: bytes
    keys: list[Key] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    header_end: int = 0

    def __post_init__(self) -> None:
        tensors, keys = self._numbers("<QQ", _TENSOR_COUNT)
        at = 24
        for _ in range(keys):
            at = self._key(at)
        for _ in range(tensors):
            at = self._tensor(at)
        self.header_end = at

    def _numbers(self, layout: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(layout, self.data, at)

    def _key(self, begin: int) -> int:
        (length,) = self._numbers("<Q", begin)
        type_at = begin + 8 + length
        (kind,) = self._numbers("<I", type_at)
        value_at, item, items = type_at + 4, None, 1
        end = value_at + _SIZES.get(kind, 0)
        if kind == build.STR:
            end = value_at + 8 + self._numbers("<Q", value_at)[0]
        elif kind == build.ARR:
            item, items = self._numbers("<IQ", value_at)
            end = value_at + 12
            for _ in range(items if item == build.STR else 0):
                end += 8 + self._numbers("<Q", end)[0]
            end += items * _SIZES.get(item, 0)
        name = self.data[begin + 8 : type_at].decode()
        self.keys.append(Key(name, begin, type_at, value_at, end, kind, item, items))
        return end

    def _tensor(self, begin: int) -> int:
        (length,) = self._numbers("<Q", begin)
        dims_at = begin + 8 + length
        (dims,) = self._numbers("<I", dims_at)
        type_at = dims_at + 4 + 8 * dims
        kind, offset = self._numbers("<IQ", type_at)
        name = self.data[begin + 8 : dims_at].decode()
        shape = self._numbers(f"<{dims}Q", dims_at + 4)
        self.tensors.append(Tensor(name, begin, dims_at, shape, type_at, kind, offset))
        return type_at + 12

    def put(self, at: int, value: bytes) -> bytes:
        """The file with these bytes over its own."""
        return self.data[:at] + value + self.data[at + len(value) :]

    def with_key(self, key: bytes) -> bytes:
        """The file with one more key, its data where the longer header wants it."""
        (count,) = self._numbers("<Q", _KEY_COUNT)
        head = self.put(_KEY_COUNT, struct.pack("<Q", count + 1))
        return self._spliced(head, self.keys[0].begin, key)

    def with_tensor(self, tensor: bytes) -> bytes:
        """The file with one more description before all others."""
        (count,) = self._numbers("<Q", _TENSOR_COUNT)
        head = self.put(_TENSOR_COUNT, struct.pack("<Q", count + 1))
        return self._spliced(head, self.tensors[0].begin, tensor)

    def _spliced(self, data: bytes, at: int, part: bytes) -> bytes:
        header = data[:at] + part + data[at : self.header_end]
        begin = self.header_end + -self.header_end % 32
        return header + bytes(-len(header) % 32) + data[begin:]


Made = tuple[bytes, str]
"""A damaged file, and what its refusal has to name."""


def _u32(value: int) -> bytes:
    return struct.pack("<I", value)


def _u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def _key(*kinds: int) -> Callable[[File, random.Random], Key]:
    def choose(file: File, rng: random.Random) -> Key:
        return rng.choice([key for key in file.keys if not kinds or key.kind in kinds])

    return choose


def _array(*items: int) -> Callable[[File, random.Random], Key]:
    def choose(file: File, rng: random.Random) -> Key:
        arrays = [key for key in file.keys if key.item is not None and key.length]
        return rng.choice([key for key in arrays if not items or key.item in items])

    return choose


def _on_key(
    choose: Callable[[File, random.Random], Key], at: Callable[[Key], int], value: bytes
) -> Callable[[File, random.Random], Made]:
    def make(file: File, rng: random.Random) -> Made:
        key = choose(file, rng)
        return file.put(at(key), value), f"'{key.name}'"

    return make


def _on_tensor(
    at: Callable[[Tensor], int], value: bytes, *, several: bool = False
) -> Callable[[File, random.Random], Made]:
    """`several`: of more than one dimension."""

    def make(file: File, rng: random.Random) -> Made:
        tensor = rng.choice([t for t in file.tensors if len(t.shape) > 1 or not several])
        return file.put(at(tensor), value), f"'{tensor.name}'"

    return make


def _named(
    make: Callable[[File, random.Random], Made], expected: str
) -> Callable[[File, random.Random], Made]:
    return lambda file, rng: (make(file, rng)[0], expected)


def _whole(
    change: Callable[[File, random.Random], bytes], expected: str
) -> Callable[[File, random.Random], Made]:
    return lambda file, rng: (change(file, rng), expected)


def _twice_the_tensor(file: File, rng: random.Random) -> Made:
    tensor = rng.choice(file.tensors[1:])
    end = tensor.offset_at + 8
    return file.with_tensor(file.data[tensor.begin : end]), "tensor"


def _twice_the_key(file: File, rng: random.Random) -> Made:
    key = rng.choice(file.keys)
    return file.with_key(file.data[key.begin : key.end]), f"'{key.name}' twice"


def _moved(by: int) -> Callable[[File, random.Random], Made]:
    def make(file: File, rng: random.Random) -> Made:
        tensor = rng.choice(file.tensors[1:])
        return file.put(tensor.offset_at, _u64(tensor.offset + by)), f"'{tensor.name}'"

    return make


def _overlapping(file: File, rng: random.Random) -> Made:
    index = rng.randrange(1, len(file.tensors))
    tensor, before = file.tensors[index], file.tensors[index - 1]
    return file.put(tensor.offset_at, _u64(before.offset)), f"'{tensor.name}'"


def _ragged(file: File, rng: random.Random) -> Made:
    tensor = rng.choice([t for t in file.tensors if t.kind == build.TYPE_Q8_0])
    return file.put(tensor.dims_at + 4, _u64(tensor.shape[0] + 1)), f"'{tensor.name}'"


def _escaped(file: File, rng: random.Random) -> Made:
    name = "\x1b]0;owned\x07\x1b[2J"
    return file.with_tensor(build.tensor(name, [8], 99)), "<U+001B>]0;owned<U+0007>"


def _cut_string(file: File, rng: random.Random) -> Made:
    key = _array(build.STR)(file, rng)
    return file.put(key.value_at + 12, _u64(2**61)), f"'{key.name}'"


def _put_item(item: int, value: bytes) -> Callable[[File, random.Random], Made]:
    return _on_key(_array(item), lambda key: key.value_at + 12, value)


def _cut(file: File, rng: random.Random) -> bytes:
    return file.data[: rng.randrange(file.tensors[0].begin + 1, file.header_end)]


def _cut_data(file: File, rng: random.Random) -> bytes:
    return file.data[: rng.randrange(file.header_end + 32, len(file.data) - 32)]


KINDS: dict[str, Callable[[File, random.Random], Made]] = {
    "magic": _whole(lambda f, r: f.put(r.randrange(4), b"x"), "GGUF"),
    "version": _whole(lambda f, r: f.put(4, _u32(r.randrange(4, 2**16))), "version"),
    "big endian": _whole(lambda f, r: f.put(4, b"\0\0\0\3"), "big-endian"),
    "one tensor more": _whole(
        lambda f, r: f.put(_TENSOR_COUNT, _u64(len(f.tensors) + 1)), "tensor"
    ),
    "one tensor less": _whole(
        lambda f, r: f.put(_TENSOR_COUNT, _u64(len(f.tensors) - 1)), "tensor"
    ),
    "tensors without end": _whole(lambda f, r: f.put(_TENSOR_COUNT, _u64(BITS_64)), "tensors"),
    "one key less": _whole(lambda f, r: f.put(_KEY_COUNT, _u64(len(f.keys) - 1)), "tensor"),
    "one key more": _whole(lambda f, r: f.put(_KEY_COUNT, _u64(len(f.keys) + 1)), "tensor"),
    "keys without end": _whole(lambda f, r: f.put(_KEY_COUNT, _u64(BITS_63)), "keys"),
    "key without a name": _named(_on_key(_key(), lambda k: k.begin, _u64(0)), "a key"),
    "key name of 2^62 bytes": _named(_on_key(_key(), lambda k: k.begin, _u64(2**62)), "a key"),
    "key name of 70000 bytes": _named(_on_key(_key(), lambda k: k.begin, _u64(70_000)), "a key"),
    "key with NUL": _named(_on_key(_key(), lambda k: k.begin + 9, b"\0"), "a key"),
    "key not UTF-8": _named(_on_key(_key(), lambda k: k.begin + 9, b"\xff"), "a key"),
    "key twice": _twice_the_key,
    "value type": _on_key(_key(), lambda k: k.type_at, _u32(77)),
    "value type 13": _on_key(_key(), lambda k: k.type_at, _u32(13)),
    "string of 2^62 bytes": _on_key(_key(build.STR), lambda k: k.value_at, _u64(2**62)),
    "string of 2^64 - 1 bytes": _on_key(_key(build.STR), lambda k: k.value_at, _u64(BITS_64)),
    "string not UTF-8": _on_key(_key(build.STR), lambda k: k.value_at + 8, b"\xfe"),
    "truth value 2": _put_item(build.BOOL, b"\2"),
    "array of arrays": _on_key(_array(), lambda k: k.value_at, _u32(build.ARR)),
    "array of unknown items": _on_key(_array(), lambda k: k.value_at, _u32(99)),
    "array of 2^40 items": _on_key(_array(), lambda k: k.value_at + 4, _u64(2**40)),
    "array of 2^64 - 1 items": _on_key(_array(), lambda k: k.value_at + 4, _u64(BITS_64)),
    "string of 2^61 bytes in an array": _cut_string,
    "alignment 0": _whole(lambda f, r: f.with_key(build.u32("general.alignment", 0)), "alignment"),
    "alignment 13": _whole(
        lambda f, r: f.with_key(build.u32("general.alignment", 13)), "alignment"
    ),
    "alignment 2^31": _whole(
        lambda f, r: f.with_key(build.u32("general.alignment", 2**31)), "tensor"
    ),
    "alignment of 64 bits": _whole(
        lambda f, r: f.with_key(build.key("general.alignment", build.U64, _u64(32))), "alignment"
    ),
    "tensor without a name": _named(_on_tensor(lambda t: t.begin, _u64(0)), "a tensor name"),
    "tensor name of 64 bytes": _named(_on_tensor(lambda t: t.begin, _u64(64)), "a tensor name"),
    "tensor name with NUL": _named(_on_tensor(lambda t: t.begin + 9, b"\0"), "a tensor name"),
    "tensor name not UTF-8": _named(_on_tensor(lambda t: t.begin + 9, b"\xc3"), "a tensor name"),
    "escape codes in a tensor name": _escaped,
    "tensor twice": _twice_the_tensor,
    "no dimension": _on_tensor(lambda t: t.dims_at, _u32(0)),
    "dimensions without end": _on_tensor(lambda t: t.dims_at, _u32(2**32 - 1)),
    "empty dimension": _on_tensor(lambda t: t.dims_at + 4, _u64(0)),
    "dimension of 2^62": _on_tensor(lambda t: t.dims_at + 4, _u64(2**62)),
    "dimensions that overflow": _on_tensor(
        lambda t: t.dims_at + 4, _u64(2**62) + _u64(2**62), several=True
    ),
    "row of half a block": _ragged,
    "unknown tensor type": _on_tensor(lambda t: t.type_at, _u32(99)),
    "retired tensor type": _on_tensor(lambda t: t.type_at, _u32(4)),
    "data off alignment": _moved(4),
    "gap before data": _moved(32),
    "data far outside": _moved(2**62),
    "data that overlaps": _overlapping,
    "cut header": _whole(_cut, "tensor"),
    "cut data": _whole(_cut_data, "truncated"),
    "bytes after the end": _whole(lambda f, r: f.data + bytes(64), "at its end"),
}
