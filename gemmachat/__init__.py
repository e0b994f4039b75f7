"""gemmachat: local chat for Gemma 4 with its MTP drafters.

The public API. Everything else may change without notice.
"""

from __future__ import annotations

from gemmachat.engine import Engine, Session, TokenEvent
from gemmachat.errors import (
    ContextFullError,
    DamagedFileError,
    EngineError,
    GemmachatError,
    MemoryLimitError,
    NotFoundError,
    PairMismatchError,
    UsageError,
)
from gemmachat.prompt import Message, PromptFormat
from gemmachat.sampling import SamplingParams
from gemmachat.stats import Stats

__all__ = [
    "ContextFullError",
    "DamagedFileError",
    "Engine",
    "EngineError",
    "GemmachatError",
    "MemoryLimitError",
    "Message",
    "NotFoundError",
    "PairMismatchError",
    "PromptFormat",
    "SamplingParams",
    "Session",
    "Stats",
    "TokenEvent",
    "UsageError",
]
