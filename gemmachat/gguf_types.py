"""What a GGUF header says, once it has been read: values, arrays, tensors."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from gemmachat.errors import DamagedFileError, GemmachatError
from gemmachat.files import FileState

# Type id of a number: its name, and its code in the struct module.
SCALARS = {
    0: ("u8", "B"), 1: ("i8", "b"), 2: ("u16", "H"), 3: ("i16", "h"), 4: ("u32", "I"),
    5: ("i32", "i"), 6: ("f32", "f"), 7: ("bool", "?"), 10: ("u64", "Q"), 11: ("i64", "q"),
    12: ("f64", "d"),
}  # fmt: skip
# Type id: name, elements per block, bytes per block. Ids that llama.cpp has retired are absent.
TENSOR_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2),
    26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array that stays in the file until it is asked for: `nbytes` of it from `offset` on."""

    item_type: str
    length: int
    path: Path
    offset: int
    nbytes: int

    def raw(self) -> bytes:
        """The encoded items.

        Raises DamagedFileError when the file has changed meanwhile, and a plain GemmachatError when
        it cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(self.nbytes)
        except OSError as error:
            reason = error.strerror or error
            raise GemmachatError(f"{quoted(self.path)} cannot be read: {reason}.") from error
        if len(data) != self.nbytes:
            raise self._changed()
        return data

    def strings(self) -> list[bytes]:
        """The items of a string array."""
        length_at = struct.Struct("<Q").unpack_from
        raw = self.raw()
        items: list[bytes] = []
        position = 0
        try:
            for _ in range(self.length):
                start = position + 8
                position = start + length_at(raw, position)[0]
                items.append(raw[start:position])
        except (struct.error, OverflowError):
            raise self._changed() from None
        return items

    def numbers(self) -> tuple[int | float | bool, ...]:
        """The items of an array of numbers."""
        code = next(code for name, code in SCALARS.values() if name == self.item_type)
        return struct.unpack(f"<{self.length}{code}", self.raw())

    def _changed(self) -> DamagedFileError:
        return DamagedFileError(f"{quoted(self.path)} changed while it was read.")


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: `shape[0]` is the length of a row, `offset` counts from the file's start."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class GgufInfo:
    """A checked header. Arrays of up to 1024 items are tuples, longer ones ArrayInfo.

    `value_types` names the GGUF type of each key: u8 to f64, bool, str, or arr[item type].
    """

    path: Path
    version: int
    alignment: int
    metadata: dict[str, object]
    value_types: dict[str, str]
    tensors: dict[str, TensorInfo]
    state: FileState
    """Of the file that was read: another one may have its path by now."""

    @property
    def architecture(self) -> str:
        """What `general.architecture` says, or "" when it says nothing."""
        name = self.metadata.get("general.architecture")
        return name if isinstance(name, str) else ""

    def array_length(self, key: str) -> int:
        """How many items the array under that key has; 0 where there is none."""
        value = self.metadata.get(key)
        if isinstance(value, ArrayInfo):
            return value.length
        return len(value) if isinstance(value, tuple) else 0


def quoted(name: object, limit: int = 120) -> str:
    """`name` in quotes and cut to `limit`; what cannot be printed shows as `<U+XXXX>`."""
    text = "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in str(name))
    return f"'{text[:limit]}…'" if len(text) > limit else f"'{text}'"
