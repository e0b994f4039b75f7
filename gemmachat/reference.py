"""What the text of a MODEL can be: a name, a place on a hub, or a path. Nothing is looked up here.

e2b  e2b:q8_0  gemma4:e2b        a model of the catalog or of the shelf, in one quantization
hf:OWNER/REPO  hf:OWNER/REPO:FILE  hf:OWNER/REPO:Q4_K_M
model.gguf  folder/model         a file
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from gemmachat.errors import UsageError
from gemmachat.file_names import is_plain_name, is_plain_path, is_repository

HUB_PREFIX = "hf:"
ALIASES = "aliases.json"
"""The file of the models folder that holds the aliases: no name of a model."""
UNKNOWN_QUANT = "GGUF"
"""The quantization of a file whose name tells none."""
_FAMILY_PREFIX = "gemma4:"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_QUANT = re.compile(r"[A-Z0-9][A-Z0-9._-]*", re.IGNORECASE)
_QUANT_IN_FILE = re.compile(
    r"(?:UD-)?(?:I?Q\d\w*|MXFP4\w*|NVFP4\w*|BF16|F16|F32)", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model by its name, in one quantization (upper case) or in any."""

    name: str
    quant: str | None

    def __str__(self) -> str:
        return self.name if self.quant is None else f"{self.name}:{self.quant.lower()}"


@dataclass(frozen=True, slots=True)
class HostedModel:
    """A model by its repository on a hub, and by its file or quantization there, or neither."""

    repo: str
    file: str | None
    quant: str | None

    @property
    def name(self) -> str:
        """The name under which it lies on the shelf. No repository has `--` in its own."""
        return self.repo.replace("/", "--").lower()


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model by the path of its file."""

    path: str


def parse_reference(text: str) -> NamedModel | HostedModel | LocalModel | None:
    """Return what a text stands for; None if it cannot be the name of a model.

    Raises `UsageError` on what begins with `hf:` and goes on wrongly.
    """
    if text.startswith(HUB_PREFIX):
        return _hosted(text)
    if text.lower().endswith(".gguf") or any(sep in text for sep in (os.sep, os.altsep or os.sep)):
        return LocalModel(text)
    name, colon, quant = text.removeprefix(_FAMILY_PREFIX).partition(":")
    if not is_model_name(name) or (colon and not _is_quant(quant)):
        return None
    return NamedModel(name, quant.upper() or None)


def is_model_name(name: str) -> bool:
    """Whether a model or an alias may be called this; the name becomes that of a folder."""
    reserved = name.startswith(ALIASES)  # what lies beside the models' folders, and its lock
    return _NAME.fullmatch(name) is not None and is_plain_name(name) and not reserved


def quant_in(file: str) -> str:
    """Return the quantization that a file's name tells, in upper case, else `UNKNOWN_QUANT`."""
    found = _QUANT_IN_FILE.findall(os.path.basename(file))
    return found[-1].upper() if found else UNKNOWN_QUANT


def _hosted(text: str) -> HostedModel:
    repo, _, which = text.removeprefix(HUB_PREFIX).partition(":")
    if not is_repository(repo):
        raise UsageError(
            f"{text[:100]!r} is no place on a hub: write hf:OWNER/REPO or hf:OWNER/REPO:FILE"
        )
    if not which or (not which.lower().endswith(".gguf") and _is_quant(which)):
        return HostedModel(repo, None, which.upper() or None)
    if not which.lower().endswith(".gguf") or not is_plain_path(which):
        raise UsageError(f"{which[:100]!r} is not a .gguf file of a repository, as in Q4_K_M.gguf")
    return HostedModel(repo, which, quant_in(which))


def _is_quant(text: str) -> bool:
    return _QUANT.fullmatch(text) is not None and is_plain_name(text)
