"""`gemmachat chats`: saved chats listed, searched, shown, exported, renamed, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gemmachat.cli_shared import JsonReport, Yes, ask_to_remove
from gemmachat.errors import NotFoundError
from gemmachat.settings import chats_file

if TYPE_CHECKING:
    from gemmachat.render import Screen
    from gemmachat.store import ChatInfo, Store

chats = typer.Typer(name="chats", rich_markup_mode=None)

Chat = Annotated[int, typer.Argument(metavar="ID", min=1, show_default=False)]


@chats.callback(invoke_without_command=True)
def overview(context: typer.Context, as_json: JsonReport = False) -> None:
    """List saved chats, newest first; or search, show, export, rename, delete them.

    `gemmachat run --resume ID` goes on with one.
    """
    if context.invoked_subcommand is None:
        _list(context.obj, "", as_json=as_json)


@chats.command()
def search(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False)],
    as_json: JsonReport = False,
) -> None:
    """List the chats that hold TEXT, in any case, in their name or in what was said."""
    _list(context.obj, text, as_json=as_json)


@chats.command()
def show(context: typer.Context, chat: Chat, as_json: JsonReport = False) -> None:
    """Print what was said in a chat."""
    _print(context.obj, chat, "json" if as_json else "md")


@chats.command("export")
def export_chat(
    context: typer.Context,
    chat: Chat,
    form: Annotated[
        str, typer.Option("--format", metavar="md|json", help="json holds everything.")
    ] = "md",
) -> None:
    """Write a chat to standard output, as Markdown or JSON."""
    _print(context.obj, chat, form)


@chats.command()
def rename(
    context: typer.Context,
    chat: Chat,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
) -> None:
    """Give a chat another name."""
    _store(context.obj).rename(chat, name)


@chats.command()
def delete(
    context: typer.Context,
    numbers: Annotated[list[int], typer.Argument(metavar="ID...", min=1, show_default=False)],
    yes: Yes = False,
) -> None:
    """Delete chats for good; what they said is overwritten."""
    store = _store(context.obj)
    names = {chat.id: chat.name for chat in store.chats()}
    wanted = list(dict.fromkeys(numbers))
    for number in wanted:
        if number not in names:
            raise NotFoundError(f"there is no chat {number}: nothing was deleted")
    told = ", ".join(f"{number} ({names[number]})" for number in wanted)
    ask_to_remove(context.obj, f"delete {told}?", yes)
    for number in wanted:
        store.delete(number)


def _store(screen: Screen) -> Store:
    from gemmachat.store import Store

    return Store(chats_file(), screen.note)


def _list(screen: Screen, text: str, *, as_json: bool) -> None:
    try:
        found = _store(screen).chats(text)
    except NotFoundError:  # no file yet
        found = []
    if as_json:
        screen.json({"chats": [_entry(chat) for chat in found]})
        return
    from gemmachat.table import Column, table_lines

    if found:
        columns = [
            Column("id", [str(chat.id) for chat in found], right=True),
            Column("changed", [_local_time(chat) for chat in found], rank=1),
            Column("questions", [str(chat.questions) for chat in found], rank=3, right=True),
            Column("model", [chat.model for chat in found], rank=2),
            Column("name", [chat.name for chat in found]),
        ]
        screen.result(*table_lines(columns, screen.width))
    else:
        screen.note("no saved chat holds that" if text else "there are no saved chats yet")


def _local_time(chat: ChatInfo) -> str:
    return chat.changed_at.astimezone().strftime("%Y-%m-%d %H:%M")


def _entry(chat: ChatInfo) -> dict[str, object]:
    return {
        "id": chat.id,
        "name": chat.name,
        "model": chat.model,
        "questions": chat.questions,
        "created_at": chat.created_at.isoformat(),
        "changed_at": chat.changed_at.isoformat(),
    }


def _print(screen: Screen, chat: int, form: str) -> None:
    from gemmachat.conversation import Conversation
    from gemmachat.export import export

    content = _store(screen).load(chat).content
    conversation = Conversation.from_dict(content.document)
    text = export(conversation, form, name=content.name, model=content.model)
    screen.result(*text.splitlines())
