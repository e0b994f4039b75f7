"""Measures a pair on held-out questions, by kind: loss, answers, draft agreement, accepted length.

Accepted length is computed from one pass: the target's own greedy text is laid under the drafter,
which then sees exactly what it would see while its drafts are being accepted.
"""

import argparse
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import Gemma4AssistantForCausalLM, Gemma4ForCausalLM

from .corpus import build
from .corpus.base import Sample
from .packing import Batch
from .tokenizer import Codec
from .train_drafter import STEPS, observe, roll_out
from .train_target import logits_of

ENDS = ("<turn|>", "<eos>", "<|tool_response>")
MAX_NEW = 200
DRAFT = 3


@dataclass
class Score:
    """Sums over the samples of one kind."""

    loss: float = 0.0
    produced: int = 0
    exact: int = 0
    samples: int = 0
    hits: list[int] = field(default_factory=lambda: [0] * STEPS)
    drafts: list[int] = field(default_factory=lambda: [0] * STEPS)
    tokens: int = 0
    passes: int = 0

    def summary(self) -> dict[str, object]:
        """The measures as numbers."""
        shares = [h / max(1, n) for h, n in zip(self.hits, self.drafts, strict=True)]
        return {
            "samples": self.samples,
            "loss": round(self.loss / max(1, self.produced), 3),
            "exact_answers": round(self.exact / max(1, self.samples), 3),
            "agreement": [round(share, 3) for share in shares],
            "mean_accepted_length": round(self.tokens / max(1, self.passes), 3),
        }


def as_batch(ids: list[int], own: list[bool]) -> Batch:
    """One conversation as a batch of one row."""
    row = torch.tensor([ids])
    return Batch(row, torch.tensor([own]), torch.ones_like(row), torch.arange(len(ids))[None])


@torch.no_grad()
def answer(target: Gemma4ForCausalLM, codec: Codec, prompt: list[int]) -> list[int]:
    """The target's greedy answer, with its end token when it ended by itself."""
    out = target.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=MAX_NEW,
        do_sample=False,
        eos_token_id=[codec.vocab[name] for name in ENDS],
    )
    tokens: list[int] = out[0, len(prompt) :].tolist()
    return tokens


@torch.no_grad()
def loss_of(target: Gemma4ForCausalLM, codec: Codec, sample: Sample, score: Score) -> None:
    """Adds the loss of the written answers."""
    batch = as_batch(*codec.conversation(sample.turns))
    hidden, _, _ = observe(target.model, batch)
    rows = hidden[:, :-1][batch.own[:, 1:]]
    wanted = batch.ids[:, 1:][batch.own[:, 1:]]
    loss = torch.nn.functional.cross_entropy(logits_of(target, rows), wanted, reduction="sum")
    score.loss += float(loss)
    score.produced += len(wanted)


@torch.no_grad()
def draft(
    target: Gemma4ForCausalLM,
    drafter: Gemma4AssistantForCausalLM,
    prompt: list[int],
    text: list[int],
    score: Score,
) -> None:
    """Adds agreement per step and the rounds that greedy decoding with drafts of 3 would take."""
    if len(text) < 2:
        return
    ids = prompt + text
    batch = as_batch(ids, [False] * len(prompt) + [True] * len(text))
    seen = observe(target.model, batch)
    guesses = []
    for k, (rows, useful) in enumerate(roll_out(drafter, drafter.model, batch, seen)):
        logits = drafter.masked_embedding(rows, drafter.model.embed_tokens.weight)
        guess = logits[0].argmax(-1).tolist()
        guesses.append(guess)
        for i in useful[0].nonzero()[:, 0].tolist():
            if i >= len(prompt):
                score.hits[k] += int(guess[i] == ids[i + k + 1])
                score.drafts[k] += 1
    # The first token comes from the prefill; every later pass yields the accepted drafts and one.
    i = len(prompt)
    score.tokens += 1
    score.passes += 1
    while i + 1 < len(ids):
        accepted = 0
        while (
            accepted < DRAFT
            and i + accepted + 1 < len(ids)
            and guesses[accepted][i] == ids[i + accepted + 1]
        ):
            accepted += 1
        step = min(accepted + 1, len(ids) - 1 - i)
        score.tokens += step
        score.passes += 1
        i += step


def main() -> None:
    """Prints one JSON object; answers go to --answers as text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafter", type=Path)
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--per-kind", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    codec = Codec(args.target)
    target = Gemma4ForCausalLM.from_pretrained(args.target).eval()
    drafter = None
    if args.drafter:
        drafter = Gemma4AssistantForCausalLM.from_pretrained(args.drafter).eval()
    samples = build.read(args.corpus / "held_out.jsonl")
    random.Random(0).shuffle(samples)
    scores: dict[str, Score] = {}
    lines = []
    for sample in samples:
        score = scores.setdefault(sample.kind, Score())
        if score.samples >= args.per_kind:
            continue
        score.samples += 1
        loss_of(target, codec, sample, score)
        *before, last = sample.turns
        prompt = codec.prompt(before)
        text = answer(target, codec, prompt)
        wanted = codec.content(last.text)
        score.exact += text[: len(wanted)] == wanted
        if drafter is not None:
            draft(target, drafter, prompt, text, score)
        lines.append(f"## {sample.kind}\n{codec.decode(prompt)}\n>>> {codec.decode(text)}\n")
    if args.answers:
        args.answers.write_text("\n".join(lines), "utf-8")
    total = Score()
    for score in scores.values():
        for name in ("loss", "produced", "exact", "samples", "tokens", "passes"):
            setattr(total, name, getattr(total, name) + getattr(score, name))
        total.hits = [a + b for a, b in zip(total.hits, score.hits, strict=True)]
        total.drafts = [a + b for a, b in zip(total.drafts, score.drafts, strict=True)]
    report = {kind: score.summary() for kind, score in sorted(scores.items())}
    print(json.dumps({**report, "all": total.summary()}, indent=1))


if __name__ == "__main__":
    main()
