"""Trains the byte-pair tokenizer of the embedded pair and encodes conversations with it.

The file has the form of Gemma 4's: spaces become U+2581, text is split only at newline runs, merges
run over whole lines, unknown characters fall back to bytes. Training splits into words, digits,
single Chinese characters and punctuation, so that no merge crosses a word; on whole lines the same
merges then apply, because no token holds a word boundary except in front.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from .corpus.base import CONTROL, Turn

VOCAB_SIZE = 4096
SPACE = "\u2581"
CONTROLS = (
    "<pad>", "<eos>", "<bos>", "<unk>", "<mask>",
    "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>",
    '<|"|>', "<|think|>", "<|channel>", "<channel|>", "<|turn>", "<turn|>",
)  # fmt: skip
NEWLINE_RUNS = tuple("\n" * n for n in range(1, 32))
BYTES = tuple(f"<0x{b:02X}>" for b in range(256))
_WORDS = (
    rf"{SPACE}{SPACE}+|{SPACE}?[A-Za-z]+|[0-9]|[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
    rf"|{SPACE}?[^A-Za-z0-9{SPACE}\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]+"
)
TEMPLATE = """\
{{ bos_token }}
{%- for message in messages -%}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
{{ '<|turn>' + role + '\\n' + (message['content'] | trim) + '<turn|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|turn>model\\n' }}
{%- endif -%}
"""


def _pieces(text: str) -> list[str]:
    return [piece for piece in text.split(CONTROL)[::2] if piece]


def train(texts: Iterable[str], size: int = VOCAB_SIZE) -> dict[str, object]:
    """Learns merges from the contents of `texts` and returns the tokenizer.json object."""
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.Replace(" ", SPACE)
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("\n+"), "removed"),
            pre_tokenizers.Split(Regex(_WORDS), "isolated"),
        ]
    )
    fixed = len(CONTROLS) + len(BYTES) + len(NEWLINE_RUNS)
    ascii_letters = [chr(c) for c in range(33, 127)]
    trainer = trainers.BpeTrainer(
        vocab_size=size - fixed,
        initial_alphabet=[*ascii_letters, SPACE],
        special_tokens=[],
        show_progress=False,
        max_token_length=18,
    )
    learner.train_from_iterator((p for text in texts for p in _pieces(text)), trainer)
    learned = json.loads(learner.to_str())["model"]
    words = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    vocab = {word: i for i, word in enumerate((*CONTROLS, *BYTES, *NEWLINE_RUNS, *words))}
    for filler in range(len(vocab), size):
        vocab[f"<unused{filler}>"] = filler
    runs = range(1, len(NEWLINE_RUNS) + 1)
    joins = [["\n" * a, "\n" * b] for a in runs for b in runs if a + b <= len(NEWLINE_RUNS)]
    return _tokenizer_json(vocab, joins + [list(pair) for pair in learned["merges"]])


def _tokenizer_json(vocab: dict[str, int], merges: list[list[str]]) -> dict[str, object]:
    added = [
        {"id": vocab[name], "content": name, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False, "special": True}
        for name in CONTROLS
    ]  # fmt: skip
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\n+"}, "behavior": "Isolated",
                          "invert": False},
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>",
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": vocab, "merges": merges},
    }  # fmt: skip


def save(tokenizer: dict[str, object], folder: Path) -> None:
    """Writes tokenizer.json and tokenizer_config.json (with the chat template) into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(tokenizer, ensure_ascii=False, indent=1)
    (folder / "tokenizer.json").write_text(text, "utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "eos_token": "<eos>",
        "bos_token": "<bos>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2), "utf-8")


class Codec:
    """Encodes turns: control tokens by id, contents as plain text that can never match one."""

    def __init__(self, folder: Path) -> None:
        raw = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        raw["added_tokens"] = []
        self._plain = Tokenizer.from_str(json.dumps(raw))
        self.vocab: dict[str, int] = raw["model"]["vocab"]

    def text(self, text: str) -> list[int]:
        """Ids of plain text."""
        ids: list[int] = self._plain.encode(text).ids
        return ids

    def content(self, text: str) -> list[int]:
        """Ids of a turn's content, where control tokens stand between CONTROL marks."""
        ids: list[int] = []
        for i, piece in enumerate(text.split(CONTROL)):
            ids.extend([self.vocab[piece]] if i % 2 else self.text(piece))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, control tokens spelled out."""
        text: str = self._plain.decode(list(ids), skip_special_tokens=False)
        return text

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Ids of a conversation up to the start of the model's next answer."""
        ids, _ = self.conversation(turns)
        return [*ids, self.vocab["<|turn>"], *self.text("model\n")]

    def conversation(self, turns: Sequence[Turn]) -> tuple[list[int], list[bool]]:
        """Ids of whole turns, and for each id whether the model has to produce it."""
        ids, own = [self.vocab["<bos>"]], [False]
        for turn in turns:
            head = [self.vocab["<|turn>"], *self.text(turn.role + "\n")]
            body = [*self.content(turn.text), self.vocab["<turn|>"]]
            newline = self.text("\n")
            ids += head + body + newline
            own += [False] * len(head)
            own += self._produced(body) if turn.role == "model" else [False] * len(body)
            own += [False] * len(newline)
        return ids, own

    def _produced(self, body: Sequence[int]) -> list[bool]:
        """Which tokens of a model turn the model itself writes: all but the result of a tool."""
        begin, end = self.vocab["<|tool_response>"], self.vocab["<tool_response|>"]
        produced, inside = [], False
        for token in body:
            produced.append(not inside)
            inside = (inside or token == begin) and token != end
        return produced
