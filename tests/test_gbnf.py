"""Our grammars allow what llama.cpp's grammar sampler allows, without its crashes and hangs."""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Iterator

import llama_cpp.llama_cpp as lib
import pytest
from embedded import TARGET

from gemmachat import UsageError
from gemmachat.bridge import check_grammar
from gemmachat.bridge_engine import EngineHandle
from gemmachat.json_schema import to_grammar

ARITHMETIC = r"""
# calculations, as in llama.cpp's examples
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"""
GRAMMARS = {
    "words": 'root ::= ("a" | "the" | "model" | " ")+ "!"',
    "arithmetic": ARITHMETIC,
    "repetitions": 'root ::= "a"{2} "b"{1,3} "c"{2,} ("d" | "e"){0,2}? "x"*',
    "nested": 'root ::= pair\npair ::= ( "(" pair? ")" | \'[\'? )'.replace("'['", '"["'),
    "ambiguous": 'root ::= x* y?\nx ::= "a" | "aa" | "a" x "b"\ny ::= "a" "c"?',
    "frames": 'root ::= a\na ::= "x" a "b" | "x" a "c" | "x"',
    "classes": r'root ::= [^a-zA-Z"\\\n]{2} [\u00e0-\u4e2d]? [😀-😎] [a\]\[z-] .',
    "negated": "root ::= [^x]*",
    "escapes": r'root ::= "\x41\u00e9\U0001F600\"\\\n\r\t[" "]"',
    "nullable": 'root ::= (a? b?)* "!"\na ::= "x" | b\nb ::= "y"?',
    "empty": 'root ::= "" | "ab" | ("c" | )\nunused ::= "z"',
    "json": to_grammar('{"type": "object"}'),
    "schema": to_grammar(
        '{"properties": {"name": {"type": "string", "minLength": 2, "maxLength": 5},'
        ' "n": {"type": "integer"}, "x": {"enum": ["é", 1, null]},'
        ' "l": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}}, "required": ["n"],'
        ' "additionalProperties": false, "type": "object"}'
    ),
}


class Reference:
    """llama.cpp's own grammar sampler on the embedded vocabulary."""

    def __init__(self, model: object) -> None:
        self._vocab = lib.llama_model_get_vocab(model)
        self.size = lib.llama_vocab_n_tokens(self._vocab)
        self._data = (lib.llama_token_data * self.size)()

    def reads(self, grammar: str) -> bool:
        sampler = lib.llama_sampler_init_grammar(self._vocab, grammar.encode(), b"root")
        if sampler:
            lib.llama_sampler_free(sampler)
        return bool(sampler)

    def allowed(self, grammar: str, tokens: list[int]) -> list[int]:
        sampler = lib.llama_sampler_init_grammar(self._vocab, grammar.encode(), b"root")
        assert sampler
        try:
            for token in tokens:
                lib.llama_sampler_accept(sampler, token)
            for token in range(self.size):
                self._data[token] = lib.llama_token_data(id=token, logit=0.0, p=0.0)
            array = lib.llama_token_data_array(
                data=self._data, size=self.size, selected=-1, sorted=False
            )
            lib.llama_sampler_apply(sampler, ctypes.byref(array))
            return [token for token in range(self.size) if self._data[token].logit == 0.0]
        finally:
            lib.llama_sampler_free(sampler)


@pytest.fixture(scope="module")
def handle() -> Iterator[EngineHandle]:
    handle = EngineHandle(TARGET, None)
    yield handle
    handle.free()


@pytest.fixture(scope="module")
def reference(handle: EngineHandle) -> Iterator[Reference]:
    params = lib.llama_model_default_params()
    params.vocab_only = True
    model = lib.llama_model_load_from_file(str(TARGET).encode(), params)
    yield Reference(model)
    lib.llama_model_free(model)


def is_utf8(text: bytes) -> bool:
    """Whether some text in UTF-8 begins so."""
    tails = (b"", b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\xbf\xbf\xbf", b"\xbf\xbf", b"\xbf")
    for tail in tails:
        try:
            (text + tail).decode()
        except UnicodeDecodeError:
            continue
        return True
    return False


def is_torn(text: bytes) -> bool:
    """Whether the text ends inside of a character."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return is_utf8(text)
    return False


def same_allowed(
    handle: EngineHandle, reference: Reference, grammar: str, tokens: list[int]
) -> list[int]:
    """Compares with llama.cpp; what it lets through besides markers and broken UTF-8 is ours."""
    said = b"".join(map(handle.piece, tokens))
    ours = handle.grammar_allows(grammar, tokens)
    theirs = [
        token
        for token in reference.allowed(grammar, tokens)
        if handle.is_end(token) or (handle.piece(token) and is_utf8(said + handle.piece(token)))
    ]
    assert set(theirs) <= set(ours), (grammar, said)
    # llama.cpp lets no first byte begin a character under [^...] where that byte could also begin
    # one that is excluded.
    more = set(ours) - set(theirs)
    assert all(is_torn(said + handle.piece(token)) for token in more), (grammar, said, more)
    return ours


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_same_tokens_are_allowed_as_by_llama_cpp(
    handle: EngineHandle, reference: Reference, name: str
) -> None:
    grammar = GRAMMARS[name]
    for seed in range(6):
        tokens = handle.walk_grammar(grammar, seed, 12)
        for n in range(len(tokens)):
            ours = same_allowed(handle, reference, grammar, tokens[:n])
            assert tokens[n] in ours


def random_grammar(source: random.Random) -> str:
    """A grammar whose rules refer to later ones, and to any after a character."""
    n_rules = source.randint(1, 5)

    def symbol(rule: int, depth: int, *, first: bool) -> str:
        kinds = ['"%s"', "[%s]", "[^%s]"]
        text = "".join(source.choices("ab01 {é你", k=source.randint(1, 3)))
        kind = source.random()
        if kind < 0.25 and (not first or rule + 1 < n_rules):
            found = f"r{source.randrange(0 if not first else rule + 1, n_rules)}"
        elif kind < 0.45 and depth < 2:
            found = f"({alternatives(rule, depth + 1, first=first)})"
        else:
            found = source.choice(kinds) % text
        marks = ["", "", "", "?", "*", "+", "{2}", "{1,3}", "{0,2}", "{2,}"]
        return found + source.choice(marks)

    def sequence(rule: int, depth: int, *, first: bool) -> str:
        anchor = f'"{source.choice("xyz")}"' if first else ""
        inner = [symbol(rule, depth, first=first) for _ in range(source.randint(0, 2))]
        later = [symbol(rule, depth, first=False) for _ in range(source.randint(0, 1))]
        return " ".join([*inner, anchor, *later])

    def alternatives(rule: int, depth: int, *, first: bool) -> str:
        return " | ".join(sequence(rule, depth, first=first) for _ in range(source.randint(1, 3)))

    rules = [f'r{i} ::= {alternatives(i, 0, first=True)} | "#"' for i in range(n_rules)]
    return "root ::= r0\n" + "\n".join(rules)


def ours_reads(grammar: str) -> bool:
    try:
        check_grammar(grammar)
    except UsageError as error:
        if re.search("before any character|no text can ever", str(error)):
            return False
        raise
    return True


def test_random_grammars_allow_what_llama_cpp_allows(
    handle: EngineHandle, reference: Reference
) -> None:
    compared = 0
    for seed in range(60):
        grammar = random_grammar(random.Random(seed))
        if not ours_reads(grammar):
            continue
        if not reference.reads(grammar):  # it takes ("a"?)* for left recursion
            continue
        tokens = handle.walk_grammar(grammar, seed, 8)
        for n in range(len(tokens)):
            same_allowed(handle, reference, grammar, tokens[:n])
            compared += 1
    assert compared > 120
