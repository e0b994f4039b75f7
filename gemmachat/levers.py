"""What makes a pair of models fast here: which of it is active, and why not where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmachat import clusters, schedule_state
from gemmachat.engine import Engine
from gemmachat.gguf_info import read_header
from gemmachat.native_structs import MAX_WIDTH
from gemmachat.sampling import SamplingParams

if TYPE_CHECKING:
    from gemmachat.catalog import ResolvedModel

_PROMPT = (0, 0, 0)


def describe_levers(model: ResolvedModel, threads: int | None = None) -> dict[str, object]:
    """Load a pair, run two passes, and say of each lever whether it is active."""
    with Engine.load(model.target, model.drafter, threads=threads) as engine:
        with engine.session(n_ctx=16) as session:
            for _ in session.generate(
                _PROMPT, SamplingParams(temperature=0.0, seed=0), max_tokens=2
            ):
                pass
            early_exit = session.stats().early_exit
        return {
            "matrix_kernels": _kernels(engine),
            "early_exit": early_exit,
            "draft_head": _draft_head(model),
            "draft_length": _draft_length(engine),
            "copied_drafts": "on, where the text repeats itself",
        }


def _kernels(engine: Engine) -> str:
    if engine.packed_bytes:
        return f"on, for {engine.packed_bytes / 2**20:,.0f} MiB of the weights"
    return "off: all weights are multiplied by ggml's"


def _draft_head(model: ResolvedModel) -> str:
    if model.drafter is None:
        return "off: no drafter"
    header = read_header(model.drafter)
    if clusters.has_trained_clusters(header):
        return "on, over clusters trained with the drafter"
    if not clusters.lacks_clusters(header):
        return "off: this drafter scores all tokens, as it was trained to"
    if clusters.find(header) is None:
        return (
            "off until clusters of the drafter's tokens are computed, in the background of a chat"
        )
    return "on, over clusters computed from the drafter's embedding"


def _draft_length(engine: Engine) -> str:
    if engine.schedule_file is None:
        return "by costs measured in each run: there is no place to keep them"
    known = sum(seconds > 0 for seconds in schedule_state.load(engine.schedule_file).pass_s)
    if not known:
        return "by measured costs, of which none are known yet"
    return f"by measured costs, {known} of {MAX_WIDTH} pass widths known from earlier answers"
