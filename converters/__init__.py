"""Converts Gemma 4 checkpoints (config.json, safetensors, tokenizer.json) and GGUF files to GGUF.

Imports nothing else from gemmachat, so that it can be read on its own.
"""

from .conversion import convert
from .errors import (
    CheckpointError,
    CheckpointNotFoundError,
    ConversionError,
    OptionError,
    OutputError,
    ResourceError,
)

__all__ = [
    "CheckpointError",
    "CheckpointNotFoundError",
    "ConversionError",
    "OptionError",
    "OutputError",
    "ResourceError",
    "convert",
]
