"""Distils the drafter from the frozen target, for every position and four chained steps at once.

Query i gets the embedding of token i and the target's state of position i - 1, sees the target's
keys of positions before i only, and predicts token i + 1. Step k feeds the drafter's own state of
step k - 1 and the embedding of token i + k; its position and its keys stay those of i, because the
target's cache holds nothing newer. The loss is the Kullback-Leibler divergence from the target's
distribution of token i + k + 1, on tokens that the model itself produces.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import Gemma4AssistantForCausalLM, Gemma4ForCausalLM

from . import models
from .corpus import build
from .packing import Batch, batches, encode
from .tokenizer import Codec
from .train_target import Muon, endless, logits_of, rate

STEPS = 4
STEP_WEIGHT = 0.85
CENTROID_WEIGHT = 0.3
ROWS_PER_STEP = 1024
BATCH_TOKENS = 2560
CLUSTER_SHARE = 0.5
HELD_OUT_BATCHES = 4
EMA = 0.99


def shift(x: Tensor, n: int) -> Tensor:
    """Moves dimension 1 by n towards the front, filling the end with zeros."""
    return torch.cat([x[:, n:], torch.zeros_like(x[:, :n])], 1) if n else x


# The text model inside a target or drafter, compiled or not.
Trunk = torch.nn.Module
Observed = tuple[Tensor, Tensor, dict[str, Tensor]]


@torch.no_grad()
def observe(target: Trunk, batch: Batch) -> Observed:
    """The target's final states [B, L, H], scaled embeddings [B, L, H], and shared KV states."""
    seen = target(
        input_ids=batch.ids,
        attention_mask=batch.masks(),
        position_ids=batch.positions,
        use_cache=False,
        return_shared_kv_states=True,
    )
    return seen.last_hidden_state, target.embed_tokens(batch.ids), seen.shared_kv_states


def roll_out(
    drafter: Gemma4AssistantForCausalLM,
    trunk: Trunk,
    batch: Batch,
    seen: Observed,
) -> list[tuple[Tensor, Tensor]]:
    """Per step k: the drafter's output rows [B, L, D] and which of them predict a produced token
    of the same conversation, bool [B, L]."""
    hidden, embeddings, kv = seen
    masks = batch.masks(strict=True)
    state = torch.cat([torch.zeros_like(hidden[:, :1]), hidden[:, :-1]], 1)
    results = []
    for k in range(STEPS):
        tokens = shift(embeddings, k)
        rows = trunk(
            inputs_embeds=drafter.pre_projection(torch.cat([tokens, state], -1)),
            attention_mask=masks,
            position_ids=batch.positions,
            shared_kv_states=kv,
            use_cache=False,
            output_hidden_states=True,
        ).last_hidden_state
        state = drafter.post_projection(rows)
        same = shift(batch.segments, k + 1) == batch.segments
        results.append((rows, shift(batch.own, k + 1) & same & (batch.positions > 0)))
    return results


def dense_logits(drafter: Gemma4AssistantForCausalLM, rows: Tensor) -> Tensor:
    """Logits over the whole vocabulary, without the centroid head."""
    return rows @ drafter.model.embed_tokens.weight.T


def cluster(drafter: Gemma4AssistantForCausalLM, seed: int) -> None:
    """Groups the embedding rows into equally large clusters and sets ordering and centroids."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        rows = functional.normalize(drafter.model.embed_tokens.weight, dim=1)
        room = rows.shape[0] // models.CENTROIDS
        start = torch.randperm(rows.shape[0], generator=generator)[: models.CENTROIDS]
        centres = rows[start].clone()
        for _ in range(12):
            order = balanced(rows @ centres.T, room)
            centres = functional.normalize(rows[order].view(-1, room, rows.shape[1]).mean(1), dim=1)
        drafter.masked_embedding.token_ordering.copy_(order)
        drafter.masked_embedding.centroids.weight.copy_(4 * centres)


def balanced(similarity: Tensor, room: int) -> Tensor:
    """Assigns rows to clusters of `room` rows each, the surest first; returns the row order."""
    count, clusters = similarity.shape
    assigned = torch.full((count,), -1)
    free = torch.full((clusters,), room)
    score = similarity.clone()
    while (open_rows := (assigned < 0).nonzero()[:, 0]).numel():
        value, choice = score[open_rows].max(1)
        for row, cluster_id in zip(
            open_rows[value.argsort(descending=True)].tolist(),
            choice[value.argsort(descending=True)].tolist(),
            strict=True,
        ):
            if free[cluster_id] > 0:
                assigned[row] = cluster_id
                free[cluster_id] -= 1
        score[:, free == 0] = -torch.inf
    return assigned.argsort(stable=True)


def centroid_loss(drafter: Gemma4AssistantForCausalLM, rows: Tensor, wanted: Tensor) -> Tensor:
    """Cross-entropy of the centroid scores against the probability mass of each cluster."""
    head = drafter.masked_embedding
    mass = wanted[:, head.token_ordering].view(len(wanted), models.CENTROIDS, -1).sum(-1)
    return functional.cross_entropy(head.centroids(rows.detach()), mass)


@torch.no_grad()
def agreement(
    drafter: Gemma4AssistantForCausalLM, target: Gemma4ForCausalLM, held_out: list[Batch]
) -> tuple[list[float], float]:
    """Share of positions where the drafter's argmax (centroid head) is the target's, per step, and
    how often the centroid head keeps the dense argmax."""
    hits, kept, counts = [0] * STEPS, 0, [0] * STEPS
    for batch in held_out:
        seen = observe(target.model, batch)
        for k, (rows, useful) in enumerate(roll_out(drafter, drafter.model, batch, seen)):
            b, i = useful.nonzero().unbind(1)
            wanted = logits_of(target, seen[0][b, i + k]).argmax(-1)
            own = rows[b, i]
            weight = drafter.model.embed_tokens.weight
            guess = torch.cat(
                [drafter.masked_embedding(part[None], weight)[0] for part in own.split(512)]
            ).argmax(-1)
            hits[k] += int((guess == wanted).sum())
            counts[k] += len(guess)
            kept += int((guess == dense_logits(drafter, own).argmax(-1)).sum())
    return [h / c for h, c in zip(hits, counts, strict=True)], kept / sum(counts)


class Distiller:
    """The drafter in training, its running average, optimisers and progress."""

    def __init__(self, target: Gemma4ForCausalLM, out: Path, seed: int, steps: int) -> None:
        self.target, self.out, self.seed, self.steps, self.step = target, out, seed, steps, 0
        self.cluster_at = int(CLUSTER_SHARE * steps)
        self.drafter, self.average = models.new_drafter(seed), models.new_drafter(seed)
        named = list(self.drafter.named_parameters())
        inner = [n for n, w in named if w.dim() == 2 and n.startswith("model.layers")]
        self.tools = [
            Muon([w for n, w in named if n in inner], lr=0.02),
            torch.optim.AdamW(
                [w for n, w in named if n not in inner],
                lr=3e-3,
                betas=(0.9, 0.98),
                weight_decay=0.0,
                fused=True,
            ),
        ]
        self.base_rates = [group["lr"] for group in self.groups()]
        self.generator = torch.Generator().manual_seed(seed)
        self.trunk = torch.compile(self.drafter.model, dynamic=False)
        self.watched = torch.compile(target.model, dynamic=False)
        if (saved := out / "state.pt").exists():
            self._load(torch.load(saved, weights_only=True))

    def _load(self, state: dict[str, Any]) -> None:
        self.drafter.load_state_dict(state["drafter"])
        self.average.load_state_dict(state["average"])
        for tool, kept in zip(self.tools, state["optimisers"], strict=True):
            tool.load_state_dict(kept)
        self.generator.set_state(state["generator"])
        self.step = state["step"]

    def groups(self) -> list[dict[str, Any]]:
        """The parameter groups of all optimisers."""
        return [group for tool in self.tools for group in tool.param_groups]

    def loss_of(self, batch: Batch) -> Tensor:
        """Weighted divergence over the chained steps, on a random subset of rows."""
        seen = observe(self.watched, batch)
        total = torch.zeros(())
        for k, (rows, useful) in enumerate(roll_out(self.drafter, self.trunk, batch, seen)):
            index = useful.nonzero()
            pick = torch.randperm(len(index), generator=self.generator)[:ROWS_PER_STEP]
            b, i = index[pick].unbind(1)
            with torch.no_grad():
                wanted = logits_of(self.target, seen[0][b, i + k]).softmax(-1)
            own = rows[b, i]
            guessed = dense_logits(self.drafter, own).log_softmax(-1)
            divergence = functional.kl_div(guessed, wanted, reduction="batchmean")
            total = total + STEP_WEIGHT**k * divergence
            if self.step >= self.cluster_at:
                total = total + CENTROID_WEIGHT * centroid_loss(self.drafter, own, wanted)
        return total

    def update(self, batch: Batch) -> float:
        """One step on one batch; returns its loss."""
        if self.step == self.cluster_at:
            cluster(self.drafter, self.seed)
        for group, base in zip(self.groups(), self.base_rates, strict=True):
            group["lr"] = base * rate(self.step, self.steps)
        loss = self.loss_of(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), 1.0)
        for tool in self.tools:
            tool.step()
            tool.zero_grad(set_to_none=True)
        # The average starts anew when the centroids do.
        keep = 0.0 if self.step == self.cluster_at else min(EMA, self.step / (self.step + 10))
        with torch.no_grad():
            for old, new in zip(self.average.parameters(), self.drafter.parameters(), strict=True):
                old.lerp_(new, 1 - keep)
            ordering = self.drafter.masked_embedding.token_ordering
            self.average.masked_embedding.token_ordering.copy_(ordering)
        self.step += 1
        return loss.item()

    def save(self, tokenizer: Path) -> None:
        """Writes the state for resuming and the averaged drafter as a checkpoint folder."""
        state = {
            "drafter": self.drafter.state_dict(),
            "average": self.average.state_dict(),
            "optimisers": [tool.state_dict() for tool in self.tools],
            "generator": self.generator.get_state(),
            "step": self.step,
        }
        temporary = self.out / "state.tmp"
        torch.save(state, temporary)
        temporary.replace(self.out / "state.pt")
        models.save(self.average, self.out / "model", tokenizer)


def distil(run: Distiller, stream: Iterator[Batch], held_out: list[Batch], tokenizer: Path) -> None:
    """Runs the remaining steps, logging every 20 and measuring and saving every 100."""
    tokens, running, logged = 0, 0.0, time.monotonic()
    while run.step < run.steps:
        batch = next(stream)
        running += run.update(batch)
        tokens += batch.ids.numel()
        if run.step % 20 == 0:
            speed = tokens / (time.monotonic() - logged)
            print(f"step {run.step} loss {running / 20:.3f} tokens/s {speed:.0f}", flush=True)
            tokens, running, logged = 0, 0.0, time.monotonic()
        if run.step % 100 == 0 or run.step == run.steps:
            shares, kept = agreement(run.average, run.target, held_out)
            shown = " ".join(f"{share:.3f}" for share in shares)
            print(f"step {run.step} agreement {shown} centroids keep {kept:.3f}", flush=True)
            run.save(tokenizer)
            logged = time.monotonic()


def main() -> None:
    """Runs or resumes distillation; the result is OUT/model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    args.out.mkdir(parents=True, exist_ok=True)
    codec = Codec(args.target)
    data = encode(codec, build.read(args.corpus / "train.jsonl"))
    held_out = list(batches(encode(codec, build.read(args.corpus / "held_out.jsonl")), 0))
    target = Gemma4ForCausalLM.from_pretrained(args.target).eval().requires_grad_(False)
    run = Distiller(target, args.out, args.seed, args.steps)
    stream = islice(endless(data, args.seed * 1000, BATCH_TOKENS), run.step, None)
    distil(run, stream, held_out[:HELD_OUT_BATCHES], args.target)


if __name__ == "__main__":
    main()
