"""Thoughts apart from answers, within a budget of tokens."""

import gemmachat

with gemmachat.Chat("tiny", think=True, thought_budget=100) as chat:
    answer = chat.ask("What is 2 + 2?")
    print("thoughts:", answer.thinking or "none")
    print("answer:", answer.text)
