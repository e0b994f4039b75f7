"""Trains the target from scratch on the corpus: resumable, seeded, two fixed shapes.

Matrices are updated by Muon (Jordan et al. 2024, momentum orthogonalised by Newton-Schulz steps),
embeddings and scales by AdamW. The learning rate is constant and then falls linearly to zero; an
exponential average of the weights is what gets saved as the model.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from transformers import Gemma4ForCausalLM

from . import models
from .corpus import build
from .packing import Batch, batches, encode
from .tokenizer import Codec

SOFTCAP = 30.0
EMA = 0.99
DECAY_SHARE = 0.4
WARMUP = 30
CHECKPOINT_SECONDS = 240.0


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
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    shapes.setdefault(weight.shape, []).append(weight)
            for shape, weights in shapes.items():
                gradients = torch.stack([w.grad for w in weights])
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
    matrices, rest = [], []
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
    count = 0
    for batch in held_out:
        produced = int(batch.own[:, 1:].sum())
        total += loss_of(model, model.model, batch) * produced
        count += produced
    return float(total) / count


def endless(data: list[tuple[list[int], list[bool]]], seed: int) -> Iterator[Batch]:
    """Batches of one epoch after the other."""
    epoch = 0
    while True:
        yield from batches(data, seed + epoch)
        epoch += 1


def main() -> None:
    """Runs or resumes training; the result is OUT/model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    args.out.mkdir(parents=True, exist_ok=True)

    codec = Codec(args.tokenizer)
    data = encode(codec, build.read(args.corpus / "train.jsonl"))
    held_out = list(batches(encode(codec, build.read(args.corpus / "held_out.jsonl")), 0))[:8]
    print(f"{sum(len(ids) for ids, _ in data)} training tokens", flush=True)

    model = models.new_target(args.seed)
    average = models.new_target(args.seed)
    tools = optimisers(model)
    base_rates = [group["lr"] for tool in tools for group in tool.param_groups]
    start, saved = 0, args.out / "state.pt"
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        average.load_state_dict(state["average"])
        for tool, kept in zip(tools, state["optimisers"], strict=True):
            tool.load_state_dict(kept)
        start = state["step"]
    trunk = torch.compile(model.model, dynamic=False)
    stream = endless(data, args.seed * 1000)
    for _ in range(start):
        next(stream)

    def checkpoint(step: int) -> None:
        state = {
            "model": model.state_dict(),
            "average": average.state_dict(),
            "optimisers": [tool.state_dict() for tool in tools],
            "step": step,
        }
        torch.save(state, saved.with_suffix(".tmp"))
        saved.with_suffix(".tmp").replace(saved)
        models.save(average, args.out / "model", args.tokenizer)

    last_saved = last_logged = time.monotonic()
    tokens, running = 0, 0.0
    for step in range(start, args.steps):
        batch = next(stream)
        groups = [group for tool in tools for group in tool.param_groups]
        for group, base in zip(groups, base_rates, strict=True):
            group["lr"] = base * rate(step, args.steps)
        loss = loss_of(model, trunk, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for tool in tools:
            tool.step()
            tool.zero_grad(set_to_none=True)
        with torch.no_grad():
            keep = min(EMA, step / (step + 10))
            for kept, weight in zip(average.parameters(), model.parameters(), strict=True):
                kept.lerp_(weight, 1 - keep)
        tokens += batch.ids.numel()
        running += loss.item()
        if (step + 1) % 20 == 0:
            now = time.monotonic()
            speed = tokens / (now - last_logged)
            print(f"step {step + 1} loss {running / 20:.3f} tokens/s {speed:.0f}", flush=True)
            tokens, running, last_logged = 0, 0.0, now
        if time.monotonic() - last_saved > CHECKPOINT_SECONDS or step + 1 == args.steps:
            print(f"step {step + 1} held-out loss {validate(average, held_out):.3f}", flush=True)
            checkpoint(step + 1)
            last_saved = last_logged = time.monotonic()


if __name__ == "__main__":
    main()
