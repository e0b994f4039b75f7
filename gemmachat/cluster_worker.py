"""Computes the clusters that a drafter's file lacks, beside a chat that already runs."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from gemmachat import bridge, clusters

if TYPE_CHECKING:
    from gemmachat.bridge_engine import EngineHandle
    from gemmachat.gguf_types import GgufInfo


_LOWEST_PRIORITY = 19


class ClusterWorker:
    """A thread that, on Linux, yields to all others. Sessions opened once it is done profit."""

    def __init__(self, handle: EngineHandle, drafter: GgufInfo) -> None:
        self._handle = handle
        self._drafter = drafter
        self._stop = bridge.Stop()
        # A daemon: a program that ends does not wait for it.
        self._thread = threading.Thread(target=self._work, name="clusters", daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads: no clusters
            self._thread.start()

    def stop(self) -> None:
        """Give up soon, and keep nothing unless all is done. Returns when the thread has ended."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether the clusters are computed, or cannot be, once the time is over."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        # Whatever goes wrong: without clusters drafts come from the whole vocabulary, only slower.
        with contextlib.suppress(Exception):
            if sys.platform == "linux":  # where a priority is a thread's own
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
            found = clusters.provide(self._drafter, self._stop)
            self._handle.set_clusters(found.count, found.top, found.centroids, found.ordering)
