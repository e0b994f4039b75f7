"""A conversation as JSON, and taken up again."""

import json

import gemmachat

with gemmachat.Chat("tiny") as chat:
    chat.ask("What is a token?")
    saved = json.dumps(chat.conversation.as_dict())

with gemmachat.Chat("tiny") as chat:
    chat.conversation = gemmachat.Conversation.from_dict(json.loads(saved))
    print(chat.ask("Who are you?").text)
    print(len(chat.conversation.turns()), "turns")
