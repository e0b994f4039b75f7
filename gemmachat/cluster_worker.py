"""Computes the clusters that a drafter's file lacks, beside a chat that already runs."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from gemmachat import bridge, clusters
from gemmachat.errors import GemmachatError

if TYPE_CHECKING:
    from gemmachat.bridge_engine import EngineHandle
    from gemmachat.gguf_types import GgufInfo


class ClusterWorker:
    """A thread that yields to all others. The sessions opened after it is done use its clusters."""

    def __init__(self, handle: EngineHandle, drafter: GgufInfo) -> None:
        self._handle = handle
        self._drafter = drafter
        self._stop = bridge.Stop()
        # A daemon: a program that ends does not wait for it.
        self._thread = threading.Thread(target=self._work, name="clusters", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give up soon, and keep nothing unless all is done. Returns when the thread has ended."""
        self._stop.set()
        self._thread.join()

    def wait(self) -> None:
        """Return when the clusters are computed, or cannot be."""
        self._thread.join()

    def _work(self) -> None:
        if sys.platform == "linux":  # where a priority is a thread's own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        # Without clusters drafts come from the whole vocabulary, only slower.
        with contextlib.suppress(bridge.CancelledError, GemmachatError, OSError):
            found = clusters.provide(self._drafter, self._stop)
            self._handle.set_clusters(found.count, found.top, found.centroids, found.ordering)
