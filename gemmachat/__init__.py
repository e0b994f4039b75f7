"""gemmachat: local chat for Gemma 4 with its MTP drafters.

The public API. Everything else may change without notice.
"""

# The command starts here, and Ctrl-C finds no handler yet: nothing is imported, not even typing.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from gemmachat.api import Chat
    from gemmachat.conversation import Conversation, Message, ToolCall
    from gemmachat.engine import Engine
    from gemmachat.errors import (
        ContextFullError,
        DamagedFileError,
        EngineError,
        GemmachatError,
        MemoryLimitError,
        NotFoundError,
        PairMismatchError,
        ServerError,
        UsageError,
    )
    from gemmachat.prompt import PromptFormat
    from gemmachat.sampling import SamplingParams
    from gemmachat.session import Session, TokenEvent
    from gemmachat.stats import Stats

__all__ = [
    "Chat",
    "ContextFullError",
    "Conversation",
    "DamagedFileError",
    "Engine",
    "EngineError",
    "GemmachatError",
    "MemoryLimitError",
    "Message",
    "NotFoundError",
    "PairMismatchError",
    "PromptFormat",
    "SamplingParams",
    "ServerError",
    "Session",
    "Stats",
    "TokenEvent",
    "ToolCall",
    "UsageError",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import what is used when it is used: the command must start quickly."""
        from importlib import import_module

        if name in __all__:
            homes = (
                "errors",
                "sampling",
                "stats",
                "conversation",
                "prompt",
                "session",
                "engine",
                "api",
            )
            for module in homes:
                home = import_module(f"gemmachat.{module}")
                if hasattr(home, name):
                    return getattr(home, name)
        raise AttributeError(f"module 'gemmachat' has no attribute {name!r}")
