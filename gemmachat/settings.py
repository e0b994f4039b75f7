"""Settings, the environment before the config file, and the folders that they lie in.

The config file is `config.toml` in the platform's folder for a program's settings:

    model = "e2b"                      # what commands use when none is named
    models_folder = "/data/models"     # where pulled models lie
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gemmachat.errors import NotFoundError, UsageError
from gemmachat.files import read_small

MODELS_VARIABLE = "GEMMACHAT_MODELS"
MODEL_VARIABLE = "GEMMACHAT_MODEL"
KERNELS_VARIABLE = "GEMMACHAT_KERNELS"

Kernels = Literal["auto", "ggml"]
"""Matrix kernels: gemmachat's own where there are any, or ggml's alone."""

_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """What the config file says; None where it says nothing."""

    model: str | None = None
    models_folder: Path | None = None


def models_folder() -> Path:
    """Where pulled models lie.

    Raises `UsageError` on a setting that makes no sense, and `NotFoundError` where none is made for
    a user without a home.
    """
    if folder := os.environ.get(MODELS_VARIABLE):
        return Path(os.path.expanduser(folder)).absolute()
    return read_config().models_folder or _platform_folder("XDG_DATA_HOME", ".local/share") / (
        "models"
    )


def default_model() -> str | None:
    """The model that commands use when none is named; None if nobody said."""
    return os.environ.get(MODEL_VARIABLE) or read_config().model


def chats_file() -> Path:
    """Where saved chats are: one SQLite file. Raises `NotFoundError` for a user without a home."""
    return _platform_folder("XDG_DATA_HOME", ".local/share") / "chats.sqlite3"


def history_file() -> Path:
    """Where typed messages are remembered. Raises `NotFoundError` for a user without a home."""
    return _platform_folder("XDG_DATA_HOME", ".local/share") / "history"


def schedule_folder() -> Path:
    """Where what drafting learned is kept. Raises `NotFoundError` for a user without a home."""
    return _platform_folder("XDG_STATE_HOME", ".local/state") / "schedule"


def kernels(asked: str | None = None, option: str = "kernels") -> Kernels:
    """The matrix kernels to use: those that are asked for by an option, else by the environment.

    Raises `UsageError`.
    """
    if asked is None:
        option, asked = KERNELS_VARIABLE, os.environ.get(KERNELS_VARIABLE) or "auto"
    if asked == "auto":
        return "auto"
    if asked == "ggml":
        return "ggml"
    raise UsageError(f"{option} must be auto or ggml, not {asked[:40]!r}")


def config_folder() -> Path:
    """Where the config file and the user's own catalog lie."""
    return _platform_folder("XDG_CONFIG_HOME", ".config")


def config_path() -> Path:
    """Where the config file is, if there is one."""
    return config_folder() / "config.toml"


def read_config() -> Settings:
    """Read the config file; raises `UsageError` that names what is wrong with it."""
    import tomllib

    try:
        path = config_path()
        values = tomllib.loads(read_small(path, _MAX_BYTES).decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError, NotFoundError):  # no file, or no home for one
        return Settings()
    except (ValueError, RecursionError) as error:  # of UTF-8 and of endless numbers too
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    if unknown := sorted(values.keys() - {"model", "models_folder"}):
        raise UsageError(
            f"{path} has an unknown key {unknown[0]!r}: model and models_folder are known"
        )
    for key, value in values.items():
        if not isinstance(value, str) or not value or "\0" in value:
            raise UsageError(f"{path}: {key} must be a text in quotes")
    folder = os.path.expanduser(values.get("models_folder", ""))
    if folder and not os.path.isabs(folder):
        raise UsageError(f"{path}: models_folder must be an absolute path, not {folder!r}")
    return Settings(values.get("model"), Path(folder) if folder else None)


def _platform_folder(variable: str, usual: str) -> Path:
    """The folder of this program; as the XDG specification asks, a relative path counts as none."""
    base = os.environ.get(variable, "")
    if os.path.isabs(base):
        return Path(base) / "gemmachat"
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise NotFoundError(f"there is no home folder: set {MODELS_VARIABLE} to a folder")
    within = "Library/Application Support" if sys.platform == "darwin" else usual
    return Path(home) / within / "gemmachat"
