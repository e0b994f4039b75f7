"""An answer piece by piece, and its figures."""

import gemmachat

with gemmachat.Chat("tiny", system="Be brief.", max_tokens=200) as chat:
    for piece in chat.send("What is speculative decoding?"):
        print(piece.text, end="", flush=True)
    print()
    stats = chat.last.stats
    print(f"{stats.completion_tokens} tokens, {stats.mean_accepted_length:.2f} per pass")
