"""A chat with a model on an OpenAI-compatible server: python docs/server.py URL [MODEL].

The key is read from GEMMACHAT_API_KEY or, over https and on this machine only, OPENAI_API_KEY.
"""

import sys

import gemmachat

if len(sys.argv) < 2:
    sys.exit("give the address of a server, as http://127.0.0.1:8000/v1")
url, *model = sys.argv[1:]
with gemmachat.Chat(*model, base_url=url) as chat:
    for piece in chat.send("Who are you?"):
        print(piece.text, end="", flush=True)
    print()
