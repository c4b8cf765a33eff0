"""Schemes: every spelling that is in use, and refusals that name what there is."""

import pytest

from evalcard_engine.quant.scheme import ALIASES, SCHEMES, UnknownScheme, parse_scheme


@pytest.mark.parametrize("name", SCHEMES)
def test_a_base_scheme_is_its_own_name(name: str) -> None:
    assert parse_scheme(f" {name.upper()} ") == SCHEMES[name]


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_aliases_have_one_canonical_name(alias: str, name: str) -> None:
    assert parse_scheme(alias) == SCHEMES[name]


@pytest.mark.parametrize(
    ("text", "name", "facts"),
    [
        ("W4A16-g64", "w4a16-g64", {"element": "int4", "group_size": 64}),
        ("w4a16-g128", "w4a16", {"group_size": 128}),
        ("w4a16_asym-channel", "w4a16_asym-channel", {"group_size": None, "symmetric": False}),
        ("w8a16-G32", "w8a16-g32", {"element": "int8", "group_size": 32}),
        ("w8a16-channel", "w8a16", {"group_size": None}),
        ("sparse24", "sparse24", {"element": None, "is_sparse24": True, "weight_bits": 16}),
        ("FP8 + sparse24", "sparse24+fp8", {"is_sparse24": True, "activations": "fp8_e4m3", "activation_bits": 8}),
        ("w4a16+head=w8", "w4a16+head=w8", {"head_bits": 8, "weight_bits": 4}),
        ("w8a8+KV=FP8", "w8a8+kv=fp8", {"kv_cache": "fp8_e4m3", "element": "int8", "changes_weights": True}),
        ("kv=int8+sparse24+head=w8", "sparse24+head=w8+kv=int8", {"kv_cache": "int8", "head_bits": 8}),
        ("kv=fp8", "kv=fp8", {"element": None, "weight_bits": 16, "activation_bits": 16, "changes_weights": False}),
        ("kv=int8", "kv=int8", {"kv_cache": "int8", "changes_weights": False}),
        ("head=w8+w4a16-g32+sparse24", "sparse24+w4a16-g32+head=w8", {"head_bits": 8, "group_size": 32}),
    ],
)
def test_options(text: str, name: str, facts: dict) -> None:
    scheme = parse_scheme(text)
    assert scheme.name == name and parse_scheme(name) == scheme
    assert {key: getattr(scheme, key) for key in facts} == facts


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("w4a15", "w4a16"),
        ("", "unknown scheme|names nothing"),
        ("head=w8", "names nothing to apply"),
        ("w4a16+w8a8", "at most one base"),
        ("sparse24+sparse24", "at most one base"),
        ("kv=fp8+kv=int8", "at most one base scheme with sparse24, head=w8 and kv=fp8"),
        ("kv=fp4", "the KV cache can be quantized as fp8, int8, got 'fp4'"),
        ("head=w8+kv=fp8", "names nothing to apply"),
        ("kv", "kv=fp8 and kv=int8 may stand alone"),
        ("w4a16+head=w4", "the head can be quantized as w8"),
        ("w8a8-g64", "no scheme; w8a16, w4a16, w4a16_asym"),
        ("w4a16-g48", "-g32, -g64, -g128 or -channel"),
        ("w4a16-", "Known schemes"),
    ],
)
def test_refusals_name_what_there_is(text: str, match: str) -> None:
    with pytest.raises(UnknownScheme, match=match):
        parse_scheme(text)


def test_titles_say_what_the_groups_are() -> None:
    assert "groups of 64" in parse_scheme("w4a16-g64").title and "128" not in parse_scheme("w4a16-g64").title
    assert "per channel" in parse_scheme("w4a16-channel").title
    assert parse_scheme("w8a16+kv=int8").title == f"{SCHEMES['w8a16'].title}, int8 KV cache"
    assert parse_scheme("kv=fp8").title == "weights and activations as they are, fp8 KV cache"
    assert parse_scheme("sparse24+w8a8+head=w8").title.startswith("2:4 sparsity by magnitude, int8 weights")
