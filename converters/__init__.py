"""Converts a Gemma 4 checkpoint (config.json, safetensors, tokenizer.json) to one GGUF file.

Imports nothing else from gemmachat, so that it can be used and read on its own.
"""

from .conversion import convert
from .errors import (
    CheckpointError,
    CheckpointNotFoundError,
    ConversionError,
    OptionError,
    OutputError,
)

__all__ = [
    "CheckpointError",
    "CheckpointNotFoundError",
    "ConversionError",
    "OptionError",
    "OutputError",
    "convert",
]
