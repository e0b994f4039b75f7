"""What tells the chat templates in Gemma 4's model files apart.

A template is only searched, never executed: the format itself is in `prompt` and `tool_calls`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# As a template spells it: with an escaped newline in a string, or with a real one.
_EMPTY_THOUGHTS = ("<|channel>thought\\n<channel|>", "<|channel>thought\n<channel|>")
# The condition on the opened turn ends before the empty thought.
_ALWAYS_EMPTY = re.compile(r"<\|turn>model.*?endif.*?<\|channel>thought", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TemplateVariant:
    """The traits of one template. Those of a file without a template are the defaults."""

    empty_thought: bool = False
    """An answer without thinking opens with an empty thought channel, as of the larger models."""
    empty_thought_always: bool = False
    """It does so too where the model goes on after a tool's response."""
    newline_after_think: bool = True
    """A newline follows the mark that asks for thoughts."""
    nullable_first: bool = False
    """In a parameter's schema `nullable` stands before what depends on the type."""

    @classmethod
    def of(cls, template: str | None) -> TemplateVariant:
        """Look for the traits in a template's source."""
        if template is None:
            return cls()
        empty_thought = any(spelling in template for spelling in _EMPTY_THOUGHTS)
        tail = template[max(template.rfind("add_generation_prompt"), 0) :]
        nullable, enum = template.find("nullable:true"), template.find("enum:")
        return cls(
            empty_thought,
            empty_thought and _ALWAYS_EMPTY.search(tail) is not None,
            "<|think|>'" not in template,
            0 <= nullable < enum,
        )
