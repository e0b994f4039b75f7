"""Whether llama.cpp can run a model of this shape.

It fixes which layers share keys and values, and divides heads without checking; a file of another
shape would be refused by its loader, run wrongly, or end the process.
"""

from .errors import CheckpointError
from .hparams import DRAFTER_ARCH, Hparams


def check_topology(hparams: Hparams) -> None:
    """Raises CheckpointError, which says what does not fit."""
    if hparams.heads % hparams.kv_heads_sliding or hparams.heads % hparams.kv_heads_full:
        raise CheckpointError(
            f"{hparams.heads} attention heads cannot be divided among "
            f"{hparams.kv_heads_sliding} and {hparams.kv_heads_full} key-value heads."
        )
    if hparams.head_dim_sliding % 2 or hparams.head_dim_full % 2:
        raise CheckpointError("An attention head has an odd width, which cannot be rotated.")
    if hparams.sliding[-2:] != (True, False):
        raise CheckpointError("The last two layers must be sliding and full attention.")
    if hparams.arch == DRAFTER_ARCH:
        _check_drafter(hparams)
    elif hparams.sliding[max(0, hparams.first_shared - 2) : hparams.first_shared] != (True, False):
        raise CheckpointError(
            "The last two layers that own keys and values must be sliding and full attention."
        )


def _check_drafter(hparams: Hparams) -> None:
    if hparams.shared_kv_layers != hparams.layers or hparams.per_layer_input:
        raise CheckpointError(
            "A drafter must take all keys and values from its target "
            "and have no per-layer embeddings."
        )
    if hparams.backbone == hparams.hidden:
        raise CheckpointError(
            f"The drafter is as wide as its target ({hparams.hidden}), "
            "which llama.cpp's loader refuses."
        )
    if hparams.centroids is not None and hparams.vocab % hparams.centroids.count:
        raise CheckpointError(
            f"{hparams.vocab} tokens cannot be divided among {hparams.centroids.count} centroids."
        )
