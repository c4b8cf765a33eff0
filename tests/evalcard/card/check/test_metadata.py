"""Front matter: found as the Hub finds it, and each key by the Hub's rules."""

import pytest

from evalcard.card.check.check import check_card
from evalcard.card.check.lists import languages, libraries, licenses, pipeline_tags
from evalcard.card.check.problem import Problem

GOOD = """\
license: apache-2.0
base_model: acme/toy-1b
base_model_relation: quantized
library_name: transformers
pipeline_tag: text-generation
language: [en, "no", gsw, multilingual]
datasets: [HuggingFaceH4/ultrachat_200k, c4]
metrics: [accuracy]
tags: [w4a16, vllm]
validated_on: {free: [1, 2]}
"""


def problems(front: str, body: str = "\n# Toy\n") -> list[Problem]:
    return check_card(f"---\n{front}\n---\n{body}")


def changed(**keys: str) -> list[Problem]:
    """Of GOOD with other values, as YAML; an empty one takes the key out."""
    lines = [line for line in GOOD.splitlines() if line.partition(":")[0] not in keys]
    return problems("\n".join(lines + [f"{key}: {value}" for key, value in keys.items() if value]))


def only(found: list[Problem]) -> Problem:
    assert len(found) == 1, found
    return found[0]


def test_a_good_card_has_no_problem():
    assert problems(GOOD) == []
    assert check_card(f"---\n{GOOD}---\n# Toy\n".replace("\n", "\r\n")) == []
    assert check_card(f"\n\n---\n{GOOD}---  \n# Toy") == []


@pytest.mark.parametrize(
    ("text", "what", "level"),
    [
        ("# Toy\n", "there is none", "warning"),
        ("# Toy\n\n---\n\nText\n\n---\n", "there is none", "warning"),
        ("\ufeff---\nlicense: mit\n---\n# Toy\n", "byte order mark", "warning"),
        ("--- \nlicense: mit\n---\n# Toy\n", "blanks behind", "error"),
        ("---\nlicense: mit\n\n# Toy\n", "never closed", "error"),
        ("<!-- x -->\n---\nlicense: mit\n---\n# Toy\n", "something stands before", "error"),
        ("---\n---\n# Toy\n", "empty", "warning"),
        ("---\n# nothing\n---\n# Toy\n", "empty", "warning"),
        ("---\n- a\n---\n# Toy\n", "it is a list", "error"),
        ("---\nlicense: mit\n\tx: 1\n---\n# Toy\n", "no YAML", "error"),
        ("---\nlicense: mit\nname: a: b\n---\n# Toy\n", "no YAML", "error"),
        ("---\nlicense: !!python/object:os.system x\n---\n# Toy\n", "no YAML", "error"),
        ("---\na: " + "[" * 9000 + "\n---\n# Toy\n", "nested too deeply", "error"),
    ],
)
def test_front_matter_that_the_hub_does_not_find_or_read(text: str, what: str, level: str):
    problem = next(one for one in check_card(text) if "heading" not in one.where)
    assert what in problem.what and problem.level == level


def test_lines_are_those_of_the_card():
    text = "\n---\nlicense: mit\ntags:\n- a\n- 8\nlanguage:\n- en\n- jp\n---\n# Toy\n"
    for end in ("\n", "\r\n"):
        assert [(one.line, one.where) for one in check_card(text.replace("\n", end))] == [
            (6, "tags[1]"),
            (9, "language[1]"),
        ]


def test_a_key_given_twice_is_an_error_to_the_hub():
    problem = only(problems(GOOD + "license: mit"))
    assert (problem.where, problem.line, problem.level) == ("license", 12, "error") and "twice" in problem.what


@pytest.mark.parametrize(
    ("key", "value", "what", "advice"),
    [
        ("license", "apache 2.0", "not one of the Hub's licences", "Write apache-2.0,"),
        ("license", "Apache-2.0", "not one of the Hub's licences", "Write apache-2.0,"),
        ("license", "llama-3.1", "not one of the Hub's licences", "Write llama3.1,"),
        ("license", "my-own-terms", "not one of the Hub's licences", "Write `other` with license_name"),
        ("license", "[mit, gpl3]", "'gpl3' is not one", "Write gpl-3.0,"),
        ("license", "3", "must be text and is the number 3", "quotes"),
        ("license_link", "licence.txt", "neither LICENSE", "one of these"),
        ("language", "[jp]", "'jp' is no code", "Write ja."),
        ("language", "no", "read as false", '"no"'),
        ("language", "[en, no]", "read as false", '"no"'),
        ("language", "noinfo", "'noinfo' is no code", "leave the key out"),
        ("language", "zh-CN", "'zh-CN' is no code", "Write zh, and zh-CN under language_bcp47."),
        ("language", "[English]", "'English' is no code", "Write en."),
        ("language", "EN", "'EN' is no code", "Write en."),
        ("language", "Norwegian", "no code", 'Write "no", in quotes.'),
        ("base_model", "/data/models/llama", "is a local path", "Hub id"),
        ("base_model", "./llama", "is a local path", "Hub id"),
        ("base_model", "models/meta/llama", "is a local path", "Hub id"),
        ("base_model", "'C:\\models\\llama'", "is a local path", "Hub id"),
        ("base_model", "https://huggingface.co/acme/toy-1b", "it is a link", "Write acme/toy-1b."),
        ("base_model", "Llama 3.1 (8B)", "is no id of a model", "owner/name"),
        ("base_model", "[]", "empty list", "Leave the key out"),
        ("base_model_relation", "quantised", "no relation", "Write quantized."),
        ("base_model_relation", "gguf", "no relation", "adapter, merge, quantized, finetune"),
        ("datasets", "[/var/data]", "is a local path", "data set's Hub id"),
        ("datasets", "[Various web pages]", "is no id of a data set", "owner/name"),
        ("tags", "w4a16", "must be an array", "`- `"),
        ("tags", "[8]", "must be text and is the number 8", '"8"'),
        ("tags", "{a: b}", "must be an array", "`- `"),
        ("metrics", "[1.5]", "must be text", '"1.5"'),
        ("new_version", "../next", "is a local path", "Hub id"),
        ("pipeline_tag", "[text-generation]", "must be text", "quotes"),
    ],
)
def test_what_the_hub_refuses(key: str, value: str, what: str, advice: str):
    problem = only(changed(**{key: value}))
    assert problem.level == "error" and problem.where.startswith(key), problem
    assert what in problem.what and advice in problem.advice, problem


@pytest.mark.parametrize(
    ("keys", "where", "what"),
    [
        ({"license": ""}, "license", "there is none"),
        ({"license_name": "mine"}, "license_name", "`license: other` only"),
        ({"pipeline_tag": "text-generating"}, "pipeline_tag", "no task of the Hub (list of 20"),
        ({"library_name": "transformer"}, "library_name", "no library of the Hub (list of 20"),
        ({"tags": "[a, b, a]"}, "tags", "'a' is in it twice"),
        ({"base_model": ""}, "base_model_relation", "no base_model"),
        ({"base_model": "[a/b, c/d]", "base_model_relation": ""}, "base_model", "taken for a merge"),
    ],
)
def test_what_works_and_is_hardly_meant(keys: dict[str, str], where: str, what: str):
    problem = only(changed(**keys))
    assert (problem.level, problem.where) == ("warning", where) and what in problem.what


def test_another_licence_has_a_name_and_a_link():
    found = changed(license="other")
    assert [(one.where, one.level) for one in found] == [("license_name", "error"), ("license_link", "error")]
    text = f"---\n{GOOD.replace('apache-2.0', 'other')}license_name: acme-1.0\nlicense_link: LICENSE\n---\n# Toy\n"
    assert check_card(text) == [] and check_card(text, files={"README.md": b"", "LICENSE": b""}) == []
    problem = only(check_card(text, files={"README.md": b""}))
    assert problem.level == "warning" and "no LICENSE beside" in problem.what


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ("quantized_by:", "quantized_by"), ("x-foo: {a: [1, null]}", "x-foo.a[1]"),
        ("co2_eq_emissions:\n  source:", "co2_eq_emissions.source"),
    ],
)  # fmt: skip
def test_no_key_is_empty(more: str, where: str):
    problem = only(problems(GOOD + more))
    assert (problem.where, problem.level) == (where, "error") and "no value" in problem.what


def test_a_required_key_that_is_empty_is_told_once():
    for key in ("license", "language", "base_model", "tags", "datasets", "pipeline_tag", "library_name"):
        (problem,) = [one for one in changed(**{key: "~"}) if one.where == key]
        assert "no value" in problem.what


def test_an_alias_that_leads_back_ends():
    assert only(problems(GOOD + "x: &x {a: *x, b: }")).where == "x.b"


def test_the_lists_hold_what_cards_use():
    assert {"apache-2.0", "mit", "llama3.1", "gemma", "other", "unknown", "openrail++"} <= licenses()
    assert {"en", "zh", "deu", "ger", "gsw", "code", "multilingual"} <= languages() and not {"jp", "cn"} & languages()
    assert "text-generation" in pipeline_tags() and {"transformers", "mlx", "vllm"} <= libraries()
    assert len(licenses()) == 83 and len(languages()) > 8000
