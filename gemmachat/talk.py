"""What a running chat in the terminal consists of, and how a question is answered in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

from gemmachat.ask import context_full, show_answer, show_stats
from gemmachat.errors import ContextFullError, GemmachatError
from gemmachat.opening import OpenedChat, Opening
from gemmachat.saving import Saving, origin
from gemmachat.status_line import status_line

if TYPE_CHECKING:
    from gemmachat.chat_source import Source
    from gemmachat.dialogue import Dialogue
    from gemmachat.parse import Piece
    from gemmachat.recording import ChatOrigin, Recording
    from gemmachat.render import Screen
    from gemmachat.store import Store

SETTLED_S = 1.0  # a Ctrl-C sooner after an answer was stopped was still meant for it
_ROOM = "/compact or /undo makes room, /clear starts a new conversation"


class Talk:
    """One chat: its model, which may still be loading, what is shown, and where it is saved.

    `reopen` loads another model by its name. `private`: nothing is saved.
    """

    def __init__(
        self,
        opening: Opening,
        screen: Screen,
        recording: Recording,
        *,
        store: Store | None,
        reopen: Callable[[str], Opening],
        stats: bool,
    ) -> None:
        self.opening = opening
        self.screen = screen
        self.recording = recording
        self.store = store
        self.reopen = reopen
        self.stats = stats
        self.attached: list[str] = []
        """Texts of files that go before the next question."""
        self.typed_again: str | None = None
        """What the next prompt begins with."""
        self.edits = False
        """Whether the next message replaces the last question."""
        self.used = 0
        """Tokens of the context after the last turn."""
        self.loaded: Callable[[BaseException | None], None] = lambda _error: None
        """Told, from another thread, when a model is there, or what went wrong."""
        self._stopped_at = -SETTLED_S

    @classmethod
    def of(cls, source: Source, screen: Screen, saving: Saving, *, stats: bool) -> Talk:
        """A chat with a model that is not loaded yet, new or going on with a saved one."""

        def load() -> OpenedChat:
            # Imported by the first answer, this would be there for Ctrl-C to break off.
            from gemmachat import answer_view, block_view  # noqa: F401

            opened = source.open()
            saving.restore(opened.chat, source.system)
            if saving.resumed is not None:
                talk.used = opened.chat.used_tokens
            return opened

        def reopen(name: str) -> Opening:
            other = source.other(name)
            return Opening(other.name, other.open, other.settings)

        talk = cls(
            Opening(source.name, load, source.settings),
            screen,
            saving.recording(source, source.options, screen.note),
            store=saving.store,
            reopen=reopen,
            stats=stats,
        )
        if saving.resumed is not None:
            talk.typed_again = saving.resumed.content.pending
        return talk

    def start(self, opening: Opening) -> None:
        """Go on with a model, which is loaded from now on."""
        self.opening = opening

        def done(error: BaseException | None) -> None:
            if self.opening is opening:  # otherwise nobody waits for it any more
                self.loaded(error)

        opening.start(done)

    @property
    def opened(self) -> OpenedChat:
        """The chat, as soon as it is loaded. Raises what loading it raised."""
        if self.opening.loading:
            self.screen.progress(f"loading {self.opening.name}")
            try:
                self.opening.wait()
            finally:
                self.screen.progress("")
        return self.opening.wait()

    @property
    def chat(self) -> Dialogue:
        """The conversation of `opened`."""
        return self.opened.chat

    @property
    def status(self) -> str:
        """The quiet line under the prompt."""
        opened = self.opening.opened
        if opened is None:
            return f"loading {self.opening.name}" if self.opening.loading else self.opening.name
        last = opened.chat.last
        return status_line(
            self.opening.name,
            used=self.used,
            n_ctx=opened.chat.n_ctx,
            stats=None if last is None else last.stats,
        )

    @property
    def settled(self) -> bool:
        """Whether a Ctrl-C can no longer be meant for the answer that was stopped last."""
        return monotonic() - self._stopped_at >= SETTLED_S

    def ask(self, message: str) -> None:
        """Have a typed message answered, after the files that were attached."""
        chat = self.chat
        attached, self.attached = self.attached, []
        edits, self.edits = self.edits, False
        question = "\n\n".join([*attached, message])
        if not self.answer(question, chat.edit if edits else chat.ask):
            self.attached, self.edits, self.typed_again = attached, edits, message

    def answer(self, question: str, pieces: Callable[[str], Iterator[Piece]]) -> bool:
        """Save a question, show the answer that `pieces` streams, and save the turn.

        Returns False after an error, as `show` does.
        """
        chat = self.chat
        self.recording.origin = self._origin
        self.recording.ask(question, chat.conversation.as_dict())
        return self.show(lambda: pieces(question))

    def show(self, pieces: Callable[[], Iterator[Piece]]) -> bool:
        """Show what `pieces` streams, tell how it ended, and save the conversation.

        Returns False after an error, which has left the conversation as it was.
        """
        chat = self.chat
        before = chat.conversation
        keys = self.screen.terminal is not None
        try:
            answer = show_answer(chat, pieces(), self.screen, hold_keys=keys)
        except KeyboardInterrupt:  # the second one: the engine did not stop at once
            self.stopped()
        except ContextFullError as error:
            self.screen.error(str(error))
            self.screen.note(_ROOM)
            return False
        except GemmachatError as error:
            self.screen.error(str(error))
            return False
        else:
            if answer.finish_reason == "context":
                self.screen.error(context_full(answer, chat, _ROOM))
            elif answer.finish_reason == "cancelled":
                self.stopped()
            if self.stats:
                show_stats(answer, chat, self.screen)
        if chat.conversation is not before:  # otherwise the question stays saved as unanswered
            self.changed()
        return True

    def changed(self) -> None:
        """Save the conversation as it is now, and count its tokens."""
        self.recording.origin = self._origin
        self.recording.keep(self.chat.conversation.as_dict())
        self.used = self.chat.used_tokens

    @property
    def _origin(self) -> ChatOrigin:
        """What the chat is saved with now; /model and /set change it."""
        return origin(self.opening, self.chat.options)

    def stopped(self) -> None:
        """Tell that an answer was stopped."""
        self._stopped_at = monotonic()
        self.screen.note("stopped")
