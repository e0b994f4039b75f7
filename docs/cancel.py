"""An answer stopped from another thread; what was said is kept."""

import threading

import gemmachat

with gemmachat.Chat("tiny") as chat:
    threading.Timer(0.05, chat.cancel).start()
    answer = chat.ask("Tell me a long story.")
    print(answer.text)
    print("ended by:", answer.finish_reason)
