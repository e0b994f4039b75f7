"""Has transformers compute what the nano checkpoints of the tests must compute: tests/data/nano.

    python -m tools.make_nano_vectors

Each checkpoint is written by the tests' own code and loaded by transformers' own classes, which
must use every tensor of it. Float32, eager attention, no cache.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

LEAST_GAP = 0.05
TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))

import nano_checkpoint as nano  # noqa: E402


def load(folder: Path, config: dict[str, Any], left_out: list[str]) -> torch.nn.Module:
    """The model in `folder`, all of whose tensors but `left_out` must have been used."""
    kind = getattr(transformers, config["architectures"][0])
    model, info = kind.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    for problem in ("missing_keys", "mismatched_keys", "error_msgs"):
        if info.get(problem):
            raise SystemExit(f"{folder.name}: {problem} {info[problem]}")
    if len(info["unexpected_keys"]) != len(left_out) or any(
        ".layers." in key for key in info["unexpected_keys"]
    ):
        raise SystemExit(f"{folder.name}: unexpected_keys {info['unexpected_keys']}")
    return model.eval()


@torch.no_grad()
def run_target(model: torch.nn.Module, tokens: list[int]) -> Any:
    """Logits, all hidden rows (the last normed) and shared keys and values of one pass."""
    return model(
        input_ids=torch.tensor([tokens]),
        use_cache=False,
        output_hidden_states=True,
        return_shared_kv_states=True,
    )


@torch.no_grad()
def run_drafter(drafter: torch.nn.Module, target: torch.nn.Module, tokens: list[int]) -> Any:
    """Tokens fed, logits and states of chained draft steps after `tokens`, the last not yet seen
    by the target."""
    seen = run_target(target, tokens[:-1])
    state, token = seen.hidden_states[-1][:, -1:], tokens[-1]
    fed, logits, states = [], [], []
    for _ in range(nano.DRAFT_STEPS):
        embedded = target.get_input_embeddings()(torch.tensor([[token]]))
        out = drafter(
            inputs_embeds=torch.cat([embedded, state], -1),
            position_ids=torch.tensor([[len(tokens) - 1]]),
            shared_kv_states=seen.shared_kv_states,
        )
        state = out.last_hidden_state
        fed.append(token)
        logits.append(out.logits[0, 0].numpy())
        states.append(state[0, 0].numpy())
        token = int(out.logits.argmax())
    return np.array(fed), np.stack(logits), np.stack(states)


def refuse_near_ties(name: str, logits: Any) -> None:
    """A test that compares the best token needs one that rounding cannot change."""
    best = np.sort(logits, axis=-1)[..., -2:]
    if (gap := (best[..., 1] - best[..., 0]).min()) < LEAST_GAP:
        raise SystemExit(f"{name}: the best two logits are {gap:.3f} apart: choose another seed")


def vectors(root: Path, name: str) -> dict[str, Any]:
    """The arrays of one fixture."""
    target_folder, drafter_folder = nano.write_pair(root, name)
    target = load(target_folder, nano.target_config(name), nano.towers(name))
    drafter = load(drafter_folder, nano.drafter_config(name), [])
    tokens = nano.prompt(name)
    run = run_target(target, tokens)
    fed, logits, states = run_drafter(drafter, target, tokens[: nano.CONTEXT_LENGTH + 1])
    for rows in (run.logits[0].numpy(), logits):
        refuse_near_ties(name, rows)
    return {
        "weights_sha256": np.array(nano.digest(name)),
        "tokens": np.array(tokens, np.int32),
        "logits": run.logits[0].numpy(),
        "hidden": run.hidden_states[-1][0].numpy(),
        "draft_tokens": fed.astype(np.int32),
        "draft_logits": logits,
        "draft_states": states,
    }


def main() -> None:
    """Writes one file per member of the family."""
    folder = TESTS / "data" / "nano"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        for name in nano.NAMES:
            np.savez_compressed(folder / f"{name}.npz", **vectors(Path(root), name))
            print(f"{name}: {(folder / f'{name}.npz').stat().st_size} bytes")


if __name__ == "__main__":
    main()
