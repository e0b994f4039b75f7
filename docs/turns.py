"""Several turns of one conversation, and how to go back in it."""

import gemmachat

with gemmachat.Chat("tiny", sampling=gemmachat.SamplingParams(temperature=0.0)) as chat:
    print(chat.ask("What is a token?").text)
    print(chat.ask("Who are you?").text)

    # Only what is new is read by the model: the rest is still in its cache.
    stats = chat.last.stats
    print(f"{stats.cached_tokens} of {stats.prompt_tokens} tokens of the prompt were cached")

    for piece in chat.regenerate():
        print(piece.text, end="")
    print()
    for piece in chat.edit("What is top-p?"):
        print(piece.text, end="")
    print()

    done = chat.compact()
    if done is not None:
        print(f"a summary stands for {done.turns} turns: {done.summary}")
    print("taken back:", chat.undo())
