"""Command line: `python -m gemmachat.converters SRC -o OUT [--quant Q8_0] [--force]`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .conversion import convert
from .errors import ConversionError
from .quantize import QUANTIZATIONS


def main(arguments: Sequence[str] | None = None) -> int:
    """Converts as the arguments say and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m gemmachat.converters",
        description="Convert a Gemma 4 checkpoint, target or drafter, to GGUF.",
    )
    parser.add_argument("source", type=Path, help="folder with config.json and safetensors")
    parser.add_argument("-o", "--output", type=Path, required=True, help="GGUF file to write")
    parser.add_argument(
        "--quant", default="Q8_0", choices=QUANTIZATIONS, help="type of the matrices (%(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    options = parser.parse_args(arguments)
    try:
        convert(options.source, options.output, quant=options.quant, force=options.force)
    except ConversionError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
