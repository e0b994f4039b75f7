"""What the header of a model file tells a reader."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from gemmachat.clusters import find, has_trained_clusters, lacks_clusters
from gemmachat.template_variant import TemplateVariant

if TYPE_CHECKING:
    from gemmachat.gguf_info import GgufInfo

_TEMPLATE = "tokenizer.chat_template"


class TypeUse(NamedTuple):
    """How much of a file has one tensor type."""

    tensors: int
    nbytes: int


def types_used(info: GgufInfo) -> dict[str, TypeUse]:
    """Return the tensor types of a file, the one with the most bytes first."""
    counts = Counter(tensor.type_name for tensor in info.tensors.values())
    sizes: Counter[str] = Counter()
    for tensor in info.tensors.values():
        sizes[tensor.type_name] += tensor.nbytes
    return {name: TypeUse(counts[name], nbytes) for name, nbytes in sizes.most_common()}


def main_type(info: GgufInfo) -> str:
    """Return the tensor type that most bytes of a file have."""
    return next(iter(types_used(info)), "F32")


def licence(info: GgufInfo) -> str | None:
    """Return what the file says about its licence."""
    told = [info.metadata.get(f"general.license{end}") for end in ("", ".name", ".link")]
    return next((text for text in told if isinstance(text, str) and text), None)


def template_kind(info: GgufInfo) -> str:
    """Return in a few words what kind of chat template a file has."""
    template = info.metadata.get(_TEMPLATE)
    if not isinstance(template, str):
        return "none: Gemma 4's turns are used"
    if "<|turn>" not in template:
        return "not Gemma 4's: its turns are used all the same"
    parts = ["Gemma 4"]
    if "<|think|>" in template or "enable_thinking" in template:
        parts.append("thinking")
    if "<|tool_call>" in template:
        parts.append("tools")
    if TemplateVariant.of(template).empty_thought:
        parts.append("empty thought before an answer without thinking")
    return ", ".join(parts)


def draft_head(drafter: GgufInfo | None) -> str:
    """Return in a few words from which tokens a drafter chooses here."""
    if drafter is None:
        return "nothing drafts: there is no drafter"
    if has_trained_clusters(drafter):
        return "from clusters trained with the drafter"
    if not lacks_clusters(drafter):
        return "from all tokens, as the drafter was trained to"
    if find(drafter) is None:
        return "from all tokens until clusters are computed, beside a chat"
    return "from clusters computed from the drafter's embedding"
