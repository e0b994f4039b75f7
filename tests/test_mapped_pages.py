"""Pages of a file that was read are given back, and memory that holds something is left alone."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import pytest

from gemmachat.native import library

PAGE = mmap.PAGESIZE
N_PAGES = 64

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is mapped")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * (N_PAGES * PAGE // 256))
    return path


def address(view: mmap.mmap) -> int:
    """Where a view that can be written lies."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def map_file(path: Path, protection: int, flags: int) -> tuple[int, ctypes.Array[ctypes.c_char]]:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    with path.open("r+b") as opened:
        begin = libc.mmap(None, N_PAGES * PAGE, protection, flags, opened.fileno(), 0)
    return begin, (ctypes.c_char * (N_PAGES * PAGE)).from_address(begin)


def held(begin: int) -> int:
    """How many of the pages are in this process's memory."""
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        pagemap.seek(begin // PAGE * 8)
        entries = memoryview(pagemap.read(8 * N_PAGES)).cast("Q")
    return sum(entry >> 63 for entry in entries)


def drop(begin: int, size: int) -> None:
    library().gc_drop_mapped_pages(begin, size)


def test_whole_pages_of_a_read_only_view_go_and_come_back(file: Path) -> None:
    begin, view = map_file(file, mmap.PROT_READ, mmap.MAP_SHARED)
    assert view.raw == file.read_bytes()
    assert held(begin) == N_PAGES
    drop(begin + 1, 10 * PAGE)  # of both ends a part stays
    assert held(begin) == N_PAGES - 9
    assert view.raw == file.read_bytes()


def test_a_range_that_leaves_the_view_is_left_alone(file: Path) -> None:
    begin, view = map_file(file, mmap.PROT_READ, mmap.MAP_SHARED)
    assert view.raw == file.read_bytes()
    drop(begin, (N_PAGES + 1) * PAGE)
    assert held(begin) == N_PAGES


def test_what_was_written_stays(file: Path) -> None:
    anonymous = mmap.mmap(-1, N_PAGES * PAGE)
    anonymous[:] = file.read_bytes()
    drop(address(anonymous), N_PAGES * PAGE)
    assert anonymous[:] == file.read_bytes()
    for flags in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
        begin, view = map_file(file, mmap.PROT_READ | mmap.PROT_WRITE, flags)
        view[0:5] = b"mine!"
        drop(begin, N_PAGES * PAGE)
        assert view[0:5] == b"mine!"


def test_a_copy_on_the_heap_stays(file: Path) -> None:
    copy = ctypes.create_string_buffer(file.read_bytes())
    drop(ctypes.addressof(copy), N_PAGES * PAGE)
    assert copy.raw[:-1] == file.read_bytes()
