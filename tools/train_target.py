"""Trains the target from scratch on the corpus: resumable, seeded, two fixed shapes.

Matrices are updated by Muon (Jordan et al. 2024, momentum orthogonalised by Newton-Schulz steps),
embeddings and scales by AdamW. The learning rate is constant and then falls linearly to zero; an
exponential average of the weights is what gets saved as the model.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import Gemma4ForCausalLM

from . import models
from .corpus import build
from .packing import BATCH_TOKENS, Batch, Encoded, batches, encode
from .tokenizer import Codec

SOFTCAP = 30.0
EMA = 0.99
DECAY_SHARE = 0.4
WARMUP = 30
CHECKPOINT_SECONDS = 240.0
HELD_OUT_BATCHES = 4


def orthogonalise(update: Tensor) -> Tensor:
    """Newton-Schulz iteration towards the nearest semi-orthogonal matrix; [..., m, n]."""
    wide = update.shape[-2] <= update.shape[-1]
    x = update if wide else update.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x if wide else x.mT


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised; matrices of one shape are handled together."""

    def __init__(self, weights: list[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(weights, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    shapes.setdefault(weight.shape, []).append(weight)
            for shape, weights in shapes.items():
                gradients = torch.stack([w.grad for w in weights if w.grad is not None])
                memory = torch.stack(
                    [self.state[w].setdefault("momentum", torch.zeros_like(w)) for w in weights]
                )
                memory.lerp_(gradients, 1 - group["momentum"])
                update = orthogonalise(gradients.lerp(memory, group["momentum"]))
                rate = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for weight, kept, change in zip(weights, memory, update, strict=True):
                    self.state[weight]["momentum"].copy_(kept)
                    weight.mul_(1 - 0.01 * group["lr"]).add_(change, alpha=-rate)


def optimisers(model: Gemma4ForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings and vectors."""
    matrices: list[Tensor] = []
    rest: list[Tensor] = []
    for name, weight in model.named_parameters():
        inner = weight.dim() == 2 and "embed_tokens" not in name
        (matrices if inner else rest).append(weight)
    adam = torch.optim.AdamW(rest, lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    return [Muon(matrices, lr=0.02), adam]


def rate(step: int, total: int) -> float:
    """Learning rate factor: warm-up, plateau, linear fall to zero."""
    fall = (total - step) / max(1.0, DECAY_SHARE * total)
    return max(0.0, min(1.0, (step + 1) / WARMUP, fall))


def logits_of(model: Gemma4ForCausalLM, hidden: Tensor) -> Tensor:
    """Soft-capped logits [N, V] of final hidden rows [N, H]."""
    raw = hidden @ model.model.embed_tokens.weight.T
    return SOFTCAP * torch.tanh(raw / SOFTCAP)


def loss_of(model: Gemma4ForCausalLM, trunk: torch.nn.Module, batch: Batch) -> Tensor:
    """Mean cross-entropy of the tokens that the model has to produce."""
    hidden = trunk(
        input_ids=batch.ids,
        attention_mask=batch.masks(),
        position_ids=batch.positions,
        use_cache=False,
    ).last_hidden_state
    rows = hidden[:, :-1][batch.own[:, 1:]]
    return functional.cross_entropy(logits_of(model, rows), batch.ids[:, 1:][batch.own[:, 1:]])


@torch.no_grad()
def validate(model: Gemma4ForCausalLM, held_out: list[Batch]) -> float:
    """Mean loss per produced token over held-out batches."""
    total = torch.zeros(())
    tokens = 0
    for batch in held_out:
        produced = int(batch.own[:, 1:].sum())
        total += loss_of(model, model.model, batch) * produced
        tokens += produced
    return float(total) / tokens


def endless(data: list[Encoded], seed: int, tokens: int = BATCH_TOKENS) -> Iterator[Batch]:
    """Batches of one epoch after the other."""
    for epoch in count():
        yield from batches(data, seed + epoch, tokens)


class Trainer:
    """The model in training, its running average, optimisers and progress, saved as one state."""

    def __init__(self, out: Path, seed: int, steps: int) -> None:
        self.out, self.steps, self.step = out, steps, 0
        self.model = models.new_target(seed)
        self.average = models.new_target(seed)
        self.tools = optimisers(self.model)
        self.base_rates = [group["lr"] for group in self.groups()]
        if (saved := out / "state.pt").exists():
            state = torch.load(saved, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.average.load_state_dict(state["average"])
            for tool, kept in zip(self.tools, state["optimisers"], strict=True):
                tool.load_state_dict(kept)
            self.step = state["step"]
        self.trunk = torch.compile(self.model.model, dynamic=False)

    def groups(self) -> list[dict[str, Any]]:
        """The parameter groups of all optimisers."""
        return [group for tool in self.tools for group in tool.param_groups]

    def update(self, batch: Batch) -> float:
        """One step on one batch; returns its loss."""
        for group, base in zip(self.groups(), self.base_rates, strict=True):
            group["lr"] = base * rate(self.step, self.steps)
        loss = loss_of(self.model, self.trunk, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for tool in self.tools:
            tool.step()
            tool.zero_grad(set_to_none=True)
        keep = min(EMA, self.step / (self.step + 10))
        with torch.no_grad():
            for kept, weight in zip(
                self.average.parameters(), self.model.parameters(), strict=True
            ):
                kept.lerp_(weight, 1 - keep)
        self.step += 1
        return loss.item()

    def save(self, tokenizer: Path) -> None:
        """Writes the state for resuming and the averaged model as a checkpoint folder."""
        state = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimisers": [tool.state_dict() for tool in self.tools],
            "step": self.step,
        }
        temporary = self.out / "state.tmp"
        torch.save(state, temporary)
        temporary.replace(self.out / "state.pt")
        models.save(self.average, self.out / "model", tokenizer)


def train(
    trainer: Trainer, stream: Iterator[Batch], held_out: list[Batch], tokenizer: Path
) -> None:
    """Runs the remaining steps, logging every 20 and saving every few minutes."""
    saved = logged = time.monotonic()
    tokens, running = 0, 0.0
    while trainer.step < trainer.steps:
        batch = next(stream)
        running += trainer.update(batch)
        tokens += batch.ids.numel()
        now = time.monotonic()
        if trainer.step % 20 == 0:
            speed = tokens / (now - logged)
            line = f"step {trainer.step} loss {running / 20:.3f} tokens/s {speed:.0f}"
            print(line, flush=True)
            tokens, running, logged = 0, 0.0, now
        if now - saved > CHECKPOINT_SECONDS or trainer.step == trainer.steps:
            loss = validate(trainer.average, held_out)
            print(f"step {trainer.step} held-out loss {loss:.3f}", flush=True)
            trainer.save(tokenizer)
            saved = time.monotonic()


def main() -> None:
    """Runs or resumes training; the result is OUT/model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=640)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    args.out.mkdir(parents=True, exist_ok=True)
    codec = Codec(args.tokenizer)
    data = encode(codec, build.read(args.corpus / "train.jsonl"))
    held_out = list(batches(encode(codec, build.read(args.corpus / "held_out.jsonl")), 0))
    print(f"{sum(len(ids) for ids, _ in data)} training tokens", flush=True)
    trainer = Trainer(args.out, args.seed, args.steps)
    stream = islice(endless(data, args.seed * 1000), trainer.step, None)
    train(trainer, stream, held_out[:HELD_OUT_BATCHES], args.tokenizer)


if __name__ == "__main__":
    main()
