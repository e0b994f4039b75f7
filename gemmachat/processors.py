"""What this process computes on: the processor's name, and how many threads to use.

The default is the physical cores that this process may use.

A second thread on a core shares its arithmetic units, so it adds little to matrix products and
makes every pass wait for one thread more. Limits of containers (cgroups) and processor affinity
count: a thread that is not allowed to run holds up all others.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from pathlib import Path

from gemmachat import cgroup

MAX_THREADS = 512  # what ggml accepts
_ROOT = Path("/")


def default_threads(root: Path = _ROOT) -> int:
    """Physical cores that this process may use, within its cgroups' share of processor time.

    `root` is where `/sys` and `/proc` are found.
    """
    if sys.platform == "darwin":
        return _mac_cores() or os.cpu_count() or 1
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:
        return os.cpu_count() or 1
    cores = _physical_cores(allowed, root)
    return max(min([cores, *cgroup.processors(root)]), 1) if cores else 1


def processor_name() -> str:
    """Return what the system calls the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def _physical_cores(processors: set[int], root: Path) -> int:
    """Cores that these processors belong to; one that does not say is a core of its own."""
    cores = set()
    for processor in processors:
        siblings = root / f"sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list"
        cores.add(_first_line(siblings) or str(processor))
    return len(cores)


def _first_line(path: Path) -> str | None:
    try:
        return next(iter(path.read_text(encoding="utf-8", errors="replace").splitlines()), None)
    except OSError:
        return None


def _mac_cores() -> int:
    """Performance cores, all where there is one kind; 0 if the system does not say."""
    libc = ctypes.CDLL(None)
    for name in (b"hw.perflevel0.physicalcpu", b"hw.physicalcpu"):
        value, size = ctypes.c_int32(), ctypes.c_size_t(4)
        if libc.sysctlbyname(name, ctypes.byref(value), ctypes.byref(size), None, 0) == 0:
            return int(value.value)
    return 0
