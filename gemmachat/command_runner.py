"""Does what the commands of the chat say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from gemmachat import chat_settings, clipboard, commands
from gemmachat.ask import show_stats
from gemmachat.attachment import attached
from gemmachat.errors import GemmachatError, UsageError
from gemmachat.saved_chat_commands import SavedChatCommands, shortened

if TYPE_CHECKING:
    from gemmachat.dialogue import Dialogue
    from gemmachat.talk import Talk

_CODE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^`\n]*\n(.*?)^ {0,3}\1", re.MULTILINE | re.DOTALL)
_WITHOUT_MODEL = {"/help", "/chats", "/read"}


class CommandRunner:
    """Runs commands on one chat. What goes wrong is told, and the chat goes on."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._screen = talk.screen
        saved = SavedChatCommands(talk)
        self._actions: dict[str, Callable[[str], None]] = {
            "/help": self._help,
            "/model": self._model,
            "/system": self._system,
            "/set": self._set,
            "/show": self._show,
            "/think": self._think,
            "/draft": self._draft,
            "/stats": self._stats,
            "/regen": self._regen,
            "/undo": self._undo,
            "/edit": self._edit,
            "/copy": self._copy,
            "/save": saved.save,
            "/load": saved.load,
            "/chats": saved.chats,
            "/rename": saved.rename,
            "/export": saved.export,
            "/read": self._read,
            "/clear": self._clear,
            "/compact": self._compact,
            "/tokens": self._tokens,
        }

    def run(self, name: str, argument: str) -> bool:
        """Run a command; returns whether the chat goes on."""
        self._talk.edits = False  # what is typed next is no longer the question that was to change
        if name == "/bye":
            return False
        if name not in self._actions:
            self._screen.note(commands.unknown(name))
            return True
        if name not in _WITHOUT_MODEL:
            self._talk.opened  # noqa: B018 - a model that cannot be loaded ends the chat
        try:
            if argument and commands.BY_NAME[name].kind == "none":
                raise UsageError(f"{name} takes nothing more")
            self._actions[name](argument)
        except GemmachatError as error:
            self._screen.error(str(error))
        except (OSError, ValueError) as error:  # of a file: that it cannot be, or not be so named
            self._screen.error(f"{name} {argument}: {getattr(error, 'strerror', None) or error}")
        return True

    def _help(self, name: str) -> None:
        self._screen.note(*commands.help_lines(name))

    def _model(self, name: str) -> None:
        talk = self._talk
        if not name:
            self._screen.note(talk.opening.name)
            return
        opening = talk.reopen(name)  # refuses a name that stands for nothing
        old, conversation, options = talk.opening, talk.chat.conversation, talk.chat.options

        def take_up(chat: Dialogue) -> None:
            chat.options = options
            chat.restore(conversation)

        try:
            old.close()
            talk.start(opening.after(old, take_up))
            talk.opened  # noqa: B018 - waits
        except BaseException:  # Ctrl-C among them
            failed = talk.opening
            failed.close()
            talk.start(old.after(failed, take_up))
            raise
        talk.changed()
        self._screen.note(f"{opening.name} goes on with this chat")

    def _system(self, text: str) -> None:
        if text:
            self._talk.chat.set_system(None if text == "off" else text)
            self._talk.changed()
        system = self._talk.chat.conversation.system
        self._screen.note(f"system prompt: {system}" if system else "no system prompt")

    def _set(self, argument: str) -> None:
        name, _, value = argument.partition(" ")
        if not value.strip():
            raise UsageError("give a setting and its value, as in /set temperature 0.7")
        chat_settings.change(name, value.strip(), self._talk.chat, self._screen.display)
        self._talk.changed()
        self._show(name)

    def _show(self, name: str) -> None:
        chat, display = self._talk.chat, self._screen.display
        if name:
            value = chat_settings.one(name, chat, display)
            self._screen.note(f"{name.replace('-', '_')} {value}")
            return
        values = chat_settings.listed(chat, display)
        width = max(map(len, values))
        chat_id = self._talk.recording.id
        self._screen.note(
            *(f"{key:{width}}  {value}" for key, value in values.items()),
            f"{'model':{width}}  {self._talk.opening.name}",
            f"{'system':{width}}  {chat.conversation.system or 'none'}",
            f"{'chat':{width}}  {self._talk.recording.name or 'new'}"
            + (f" ({chat_id})" if chat_id is not None else ""),
        )

    def _think(self, argument: str) -> None:
        chat, display = self._talk.chat, self._screen.display
        if argument == "show":
            thinking = chat.last.thinking if chat.last else ""
            self._screen.note(thinking or "the last answer came without a thought")
            return
        if argument in ("on", "off", "hide"):
            chat_settings.change("think", "off" if argument == "off" else "on", chat, display)
            display.fold_thoughts = argument == "hide"
        elif argument:
            raise UsageError(f"/think takes on, off, hide or show, not {argument[:40]!r}")
        hidden = " and its thoughts are folded" if display.fold_thoughts else ""
        thinks = f"thinks before it answers{hidden}"
        self._screen.note(f"the model {thinks if chat.options.think else 'does not think first'}")

    def _draft(self, argument: str) -> None:
        if argument:
            chat_settings.change("draft", argument, self._talk.chat, self._screen.display)
        self._show("draft")

    def _stats(self, argument: str) -> None:
        if argument not in ("", "full"):
            raise UsageError(f"/stats takes full or nothing, not {argument[:40]!r}")
        last = self._talk.chat.last
        if last is None:
            self._screen.note("no answer yet")
        else:
            show_stats(last, self._talk.chat, self._screen, full=argument == "full")

    def _regen(self, _argument: str) -> None:
        self._talk.show(self._talk.chat.regenerate)

    def _undo(self, _argument: str) -> None:
        question = self._talk.chat.undo()
        if question is None:
            raise UsageError("there is nothing to take back")
        self._talk.changed()
        self._screen.note(f"taken back: {shortened(question)}")

    def _edit(self, text: str) -> None:
        turns = self._talk.chat.conversation.turns()
        if not turns:
            raise UsageError("there is no question to edit")
        self._talk.edits = True
        if text:
            self._talk.ask(text)
        else:
            self._talk.typed_again = turns[-1][0].text

    def _copy(self, argument: str) -> None:
        answers = [turn[-1].text for turn in self._talk.chat.conversation.turns()[-1:]]
        text = answers[0] if answers else ""
        if argument == "code":
            blocks = _CODE.findall(text)
            text = blocks[-1][1] if blocks else ""
        elif argument:
            raise UsageError(f"/copy takes code or nothing, not {argument[:40]!r}")
        if not text:
            raise UsageError(f"there is no {'code' if argument else 'answer'} to copy")
        program = clipboard.copy(text)
        if program is None and not self._screen.copy(text):
            raise UsageError("nothing here takes a copy: neither a desktop nor the terminal")
        self._screen.note(f"copied {len(text)} characters ({program or 'by the terminal'})")

    def _read(self, argument: str) -> None:
        if not argument:
            raise UsageError("give the path of a text file")
        text = attached(argument)
        self._talk.attached.append(text)
        self._screen.note(f"{argument}, {len(text)} characters, goes before your next message")

    def _clear(self, _argument: str) -> None:
        self._talk.chat.clear()
        self._talk.recording.switch(None)
        self._talk.attached = []
        self._talk.used = 0
        self._screen.note("a new conversation")

    def _compact(self, _argument: str) -> None:
        chat, recording = self._talk.chat, self._talk.recording
        kept, go_back = recording.secured(), recording.branch()
        compacted = False
        try:
            compacted = self._talk.show(chat.compact) and chat.compaction is not None
        finally:
            if not compacted:
                go_back()
        done = chat.compaction
        if done is None:
            self._screen.note("nothing was changed")
        else:
            counts = f": {done.tokens_before} tokens became {done.tokens_after}"
            known = done.tokens_before and done.tokens_after
            turns = "one turn" if done.turns == 1 else f"{done.turns} turns"
            self._screen.note(f"this summary stands for {turns} now{counts if known else ''}")
            if kept is not None and recording.id is not None:
                self._screen.note(f"chat {kept} keeps them, this goes on as chat {recording.id}")

    def _tokens(self, text: str) -> None:
        opened = self._talk.opened
        n_ctx, used = opened.chat.n_ctx, opened.chat.used_tokens
        if text and opened.vocab is None:
            raise UsageError("a server counts no tokens of a text: /tokens alone tells its figures")
        if text:
            assert opened.vocab is not None
            self._screen.note(f"{len(opened.vocab.tokenize(text))} tokens")
        elif n_ctx is None:
            self._screen.note(f"{used} tokens were used by the last turn, as the server counts")
        else:
            # The next prompt closes the last answer and opens another, and may be too long already.
            left = max(n_ctx - used, 0)
            self._screen.note(f"{used} of {n_ctx} tokens are used, {left} are left")
