"""Every spelling of a MODEL means one thing, and none can lead out of the models folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmachat.errors import UsageError
from gemmachat.file_names import is_plain_name, is_repository
from gemmachat.reference import (
    HostedModel,
    LocalModel,
    NamedModel,
    is_model_name,
    parse_reference,
    quant_in,
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("e2b", NamedModel("e2b", None)),
        ("26b-a4b", NamedModel("26b-a4b", None)),
        ("e2b:q8_0", NamedModel("e2b", "Q8_0")),
        ("e2b:Q4_K_M", NamedModel("e2b", "Q4_K_M")),
        ("gemma4:e2b", NamedModel("e2b", None)),
        ("gemma4:e2b:q8_0", NamedModel("e2b", "Q8_0")),
        ("gemma4", NamedModel("gemma4", None)),
        ("hf:Me/My.Model-GGUF", HostedModel("Me/My.Model-GGUF", None, None)),
        ("hf:me/mine:q4_k_m", HostedModel("me/mine", None, "Q4_K_M")),
        ("hf:me/mine:UD-Q4_K_XL", HostedModel("me/mine", None, "UD-Q4_K_XL")),
        ("hf:me/mine:a/b-Q4_0.gguf", HostedModel("me/mine", "a/b-Q4_0.gguf", "Q4_0")),
        ("x.gguf", LocalModel("x.gguf")),
        ("e2b:x.GGUF", LocalModel("e2b:x.GGUF")),
        ("./e2b", LocalModel("./e2b")),
        ("/a/b", LocalModel("/a/b")),
    ],
)
def test_spellings(text: str, meant: object) -> None:
    assert parse_reference(text) == meant


@pytest.mark.parametrize(
    "text",
    ["", "E2B", "hello world", "e2b:", "e2b:a b", "e2b:q4:q5", ":q4", "gemma4:", "..", "con", "-x"],
)
def test_what_is_no_model_is_none(text: str) -> None:
    assert parse_reference(text) is None


@pytest.mark.parametrize(
    "text",
    [
        *("hf:", "hf:mine", "hf:a/b/c", "hf:../x", "hf:a/..", "hf:a/b:../x.gguf"),
        *("hf:a/b:/x.gguf", "hf:a/b:x.bin/y", "hf:a/b:x\0.gguf", "hf:a/b:*.gguf", "hf:a b/c"),
    ],
)
def test_wrong_places_on_a_hub_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"hf:OWNER/REPO|is not a \.gguf file"):
        parse_reference(text)


@given(st.text(max_size=40))
def test_names_for_the_shelf_are_plain_names_of_folders(text: str) -> None:
    try:
        found = parse_reference(text)
    except UsageError:
        return
    if isinstance(found, NamedModel | HostedModel):
        assert is_model_name(found.name)
        assert not set("/\\\0") & set(found.name + (found.quant or ""))
        assert ".." not in (found.name, found.quant)


@pytest.mark.parametrize(
    ("file", "quant"),
    [
        ("gemma-4-E2B-it-Q4_0.gguf", "Q4_0"),
        ("MTP/mtp-gemma-4-12b-it-BF16.gguf", "BF16"),
        ("gemma-4-E2B-it-qat-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("gemma-4-12b-it-qat-q4_0.gguf", "Q4_0"),
        ("gemma-4-E2B_q4_0-it.gguf", "Q4_0"),
        ("x-IQ4_NL.gguf", "IQ4_NL"),
        ("x-F16.gguf", "F16"),
        ("Q8_0/plain.gguf", "GGUF"),
    ],
)
def test_quantization_is_read_from_the_name_of_a_file(file: str, quant: str) -> None:
    assert quant_in(file) == quant


def test_places_on_a_hub_do_not_share_a_name_on_the_shelf() -> None:
    repos = ("a/b_c", "a_b/c", "a.b/c", "a/b.c", "a/b-c", "a-b/c", "a-/b")
    assert len({HostedModel(repo, None, None).name for repo in repos}) == len(repos)
    assert HostedModel("Me/Mine", None, None).name == HostedModel("me/mine", None, None).name
    longest = f"a/{'b' * 197}"
    assert is_repository(longest)
    assert not is_repository(f"{longest}b")
    assert is_plain_name(HostedModel(longest, None, None).name)
