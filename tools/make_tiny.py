"""Makes the embedded pair from nothing: corpus, tokenizer, target, drafter, two GGUF files.

Every stage resumes where it was stopped, so the command can be run again until it is done.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from gemmachat.converters import convert

from .make_corpus import HELD_OUT, TRAIN, make

ROOT = Path(__file__).parent.parent
TARGET_STEPS = 640
DRAFTER_STEPS = 300
CARD = "---\nlicense: apache-2.0\n---\n"


def stage(module: str, *arguments: object) -> None:
    """Runs one training script of this package in a process of its own."""
    subprocess.run([sys.executable, "-m", f"tools.{module}", *map(str, arguments)], check=True)


def main() -> None:
    """Runs all stages; working files go to --work, the models to gemmachat/data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "tiny")
    parser.add_argument("--out", type=Path, default=ROOT / "gemmachat" / "data")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target-steps", type=int, default=TARGET_STEPS)
    parser.add_argument("--drafter-steps", type=int, default=DRAFTER_STEPS)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    corpus, target, drafter = args.work / "corpus", args.work / "target", args.work / "drafter"
    if not (args.work / "tokenizer" / "tokenizer_config.json").exists():
        make(args.work, args.seed, TRAIN, HELD_OUT)
    common = ("--corpus", corpus, "--threads", args.threads)
    stage("train_target", *common, "--tokenizer", args.work / "tokenizer", "--out", target,
          "--steps", args.target_steps, "--seed", args.seed)  # fmt: skip
    stage("train_drafter", *common, "--target", target / "model", "--out", drafter,
          "--steps", args.drafter_steps, "--seed", args.seed + 1)  # fmt: skip
    args.out.mkdir(parents=True, exist_ok=True)
    for folder, name in ((target, "tiny"), (drafter, "tiny-drafter")):
        # The folder's name becomes the model's.
        shutil.copytree(folder / "model", args.work / name, dirs_exist_ok=True)
        (args.work / name / "README.md").write_text(CARD, "utf-8")
    convert(
        args.work / "tiny",
        args.out / "tiny.gguf",
        quant="Q8_0",
        drafter=args.work / "tiny-drafter",
        force=True,
    )


if __name__ == "__main__":
    main()
