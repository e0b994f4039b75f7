"""A target for coverage-guided fuzzing of the header check, run by `make fuzz`.

    python tests/fuzz_header.py --seed FOLDER          writes headers to begin with
    python tests/fuzz_header.py [libFuzzer options] FOLDER

An input is a header after 4 bytes that say how many zeros follow it as tensor data: what matters is
the header, and a hole costs nothing. Anything but a plain refusal in printable words is a find, and
so is an input that takes seconds or a gigabyte (libFuzzer's -timeout and -rss_limit_mb).
"""

from __future__ import annotations

import os
import random
import struct
import sys
import tempfile
from pathlib import Path

import gguf_builder as build
import gguf_faults

DATA_LIMIT = 1 << 26


def check(data: bytes) -> None:
    """Check the file that an input stands for."""
    size, header = int.from_bytes(data[:4], "little") % DATA_LIMIT, data[4:]
    descriptor = os.memfd_create("header")
    try:
        os.write(descriptor, header)
        os.truncate(descriptor, len(header) + size)
        refusal = refusal_of(Path(f"/proc/self/fd/{descriptor}"))
    finally:
        os.close(descriptor)
    assert refusal.isprintable(), ascii(refusal)
    assert len(refusal) < 1000


def refusal_of(path: Path) -> str:
    """What the check says against a file, "" if nothing."""
    from gemmachat.errors import GemmachatError
    from gemmachat.gguf_info import read_header, validate_drafter, validate_target

    try:
        info = read_header(path)
        validate = validate_drafter if "assistant" in info.architecture else validate_target
        validate(info)
    except GemmachatError as error:
        return str(error)
    return ""


def as_input(file: bytes, header_bytes: int) -> bytes:
    """The input that stands for a file, its data as zeros."""
    return struct.pack("<I", max(len(file) - header_bytes, 0)) + file[:header_bytes]


def write_seeds(folder: Path) -> None:
    """Write a target's and a drafter's headers, faults in them, and headers of a few bytes."""
    import tiny_checkpoint as tiny
    from gemmachat.converters.conversion import plan_file
    from gemmachat.converters.write import GgufFile, write_files

    folder.mkdir(parents=True, exist_ok=True)
    key = build.u32("general.alignment", 32)
    small = build.gguf([key], [build.tensor("a", [8])])
    (folder / "small").write_bytes(as_input(small + bytes(32), len(small)))
    with tempfile.TemporaryDirectory() as temporary:
        tiny.write_target(Path(temporary, "target"))
        tiny.write_drafter(Path(temporary, "drafter"))
        for kind in ("target", "drafter"):
            plan = plan_file(Path(temporary, kind), quant="F32")
            path = Path(temporary, f"{kind}.gguf")
            write_files({path: GgufFile(plan.metadata, plan.tensors)}, force=True)
            file = gguf_faults.File(path.read_bytes())
            (folder / kind).write_bytes(as_input(file.data, file.header_end))
            for index, (name, make) in enumerate(gguf_faults.KINDS.items()):
                try:
                    damaged, _ = make(file, random.Random(name))
                except IndexError:  # nothing in this file that the fault could be in
                    continue
                (folder / f"{kind}-{index}").write_bytes(as_input(damaged, file.header_end))


def main() -> None:
    if sys.argv[1] == "--seed":
        write_seeds(Path(sys.argv[2]))
        return
    import atheris

    import gemmachat.gguf_info  # noqa: F401 - what is loaded by now is watched

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
