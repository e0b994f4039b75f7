"""Clusters of a drafter's tokens, for files that carry no centroids: computed once and kept.

A drafter's head scores the tokens of the best clusters instead of the whole vocabulary. Any tokens
may be drafted without a change to what is drawn, so clusters need not be good to be safe.

The file that keeps them has this header, then float32 centroids [count, width], then int32 tokens
in the order of their clusters; everything little-endian.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import struct
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gemmachat import bridge
from gemmachat.errors import DamagedFileError
from gemmachat.files import FileState, open_regular
from gemmachat.publish import publish

if TYPE_CHECKING:
    from gemmachat.gguf_types import GgufInfo

TOKENS_PER_CLUSTER = 128
TOP_SHARE = 3 / 128
"""How many of the computed clusters are looked into: half as many again as of trained ones."""

_FEWEST = 32_768  # tokens: less would gain little
_WIDEST = 256  # drafters of the E-series; larger ones were trained to choose from all tokens
_EMBEDDING = "token_embd.weight"
_MAGIC = b"GCCLUST1"
_CHECKSUM = hashlib.sha256().digest_size
_HEADER = struct.Struct("<8s3IQq32s")  # count, width, tokens, bytes and mtime of the file, sha256


@dataclass(frozen=True, slots=True)
class Clusters:
    """Equally large groups of all tokens."""

    count: int
    centroids: array[float]
    """Single precision, `count` rows as wide as the drafter."""
    ordering: array[int]
    """Every token once: those of the first cluster, of the second, and so on."""

    @property
    def top(self) -> int:
        """How many of them a head looks into."""
        return max(round(self.count * TOP_SHARE), 1)


def has_trained_clusters(drafter: GgufInfo) -> bool:
    """Whether a drafter's file has centroids."""
    return f"{drafter.architecture}.masked_embedding.centroid_count" in drafter.metadata


def lacks_clusters(drafter: GgufInfo) -> bool:
    """Whether a drafter would draft faster with clusters and its file has none."""
    shape = drafter.tensors[_EMBEDDING].shape
    return (
        shape[0] <= _WIDEST
        and shape[1] >= _FEWEST
        and shape[1] % TOKENS_PER_CLUSTER == 0
        and not has_trained_clusters(drafter)
    )


def provide(drafter: GgufInfo, stop: bridge.Stop) -> Clusters:
    """The clusters of a drafter's file: those that are kept, else computed now and kept.

    Computing takes seconds, beside other threads, and raises `bridge.CancelledError` soon after
    `stop` was set. Raises `DamagedFileError` on a drafter that cannot be used, also one that is not
    the file that was checked any more. Where there is no
    place to keep them, they are computed every time.
    """
    return find(drafter) or _compute(drafter, stop)


def find(drafter: GgufInfo) -> Clusters | None:
    """The clusters that were kept for this state of the drafter's file, if they are sound."""
    for place in places(drafter.path):
        try:
            found = _read(place, _header(drafter))
        except OSError:
            continue
        if found is not None:
            return found
    return None


def places(drafter: Path) -> list[Path]:
    """Where clusters are kept: beside the drafter, else in the user's cache."""
    here = drafter.absolute()
    digest = hashlib.sha256(os.fsencode(here)).hexdigest()[:16]
    found = [here.with_name(f"{here.name}.clusters")]
    with contextlib.suppress(RuntimeError):  # a user without a home
        found.append(_cache_folder() / f"{here.stem}-{digest}.clusters")
    return found


def _compute(drafter: GgufInfo, stop: bridge.Stop) -> Clusters:
    """Compute on the very file that was checked, and keep nothing if it is another by the end."""
    width, n_tokens = drafter.tensors[_EMBEDDING].shape
    count = n_tokens // TOKENS_PER_CLUSTER
    changed = DamagedFileError(f"{drafter.path} changed after it was checked: load it again")
    try:
        with open_regular(drafter.path) as file:
            if FileState.of(file) != drafter.state:
                raise changed
            found = Clusters(count, *bridge.cluster_tokens(file, count, width, n_tokens, stop))
    except OSError:
        raise changed from None
    if not drafter.state.is_at(drafter.path):
        raise changed
    for place in places(drafter.path):
        try:
            _write(place, _header(drafter), found)
            break
        except OSError:
            continue
    return found


def _header(drafter: GgufInfo) -> bytes:
    """What the file of this drafter's clusters begins with, but for the checksum."""
    width, n_tokens = drafter.tensors[_EMBEDDING].shape
    count = n_tokens // TOKENS_PER_CLUSTER
    size, modified_ns = drafter.state.size, drafter.state.modified_ns
    return _HEADER.pack(_MAGIC, count, width, n_tokens, size, modified_ns, b"")[:-_CHECKSUM]


def _read(place: Path, header: bytes) -> Clusters | None:
    """None where the file is of another state of the drafter, or damaged."""
    _, count, width, n_tokens, _, _, _ = _HEADER.unpack(header + bytes(_CHECKSUM))
    n_floats = count * width
    if not place.is_file() or place.stat().st_size != _HEADER.size + 4 * (n_floats + n_tokens):
        return None
    data = place.read_bytes()
    payload = data[_HEADER.size :]
    if data[: _HEADER.size] != header + hashlib.sha256(payload).digest():
        return None
    centroids, ordering = array("f"), array("i")
    centroids.frombytes(payload[: 4 * n_floats])
    ordering.frombytes(payload[4 * n_floats :])
    _to_native(centroids, ordering)
    each_once = sorted(ordering) == list(range(n_tokens))
    if not each_once or not all(map(math.isfinite, centroids)):
        return None
    return Clusters(count, centroids, ordering)


def _write(place: Path, header: bytes, clusters: Clusters) -> None:
    """Raise OSError."""
    centroids, ordering = clusters.centroids[:], clusters.ordering[:]
    _to_native(centroids, ordering)
    payload = centroids.tobytes() + ordering.tobytes()
    place.parent.mkdir(parents=True, exist_ok=True)
    publish(place, header + hashlib.sha256(payload).digest() + payload)


def _to_native(*arrays: array[float] | array[int]) -> None:
    """Between little-endian and this machine's order, either way."""
    if sys.byteorder == "big":
        for items in arrays:
            items.byteswap()


def _cache_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gemmachat"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "gemmachat"
