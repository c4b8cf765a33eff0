"""What a card says of fidelity: numbers formatted, tables that hold any name, and every term explained once."""

from typing import Any

import pytest

from evalcard.card.environment import card_environment
from evalcard.card.fidelity import FidelityView, GeneratedLine, LeftOutLine, ScoredLine, fidelity_view
from evalcard.results.compared import FidelityRecord, GeneratedFidelity

SLUG = "toy-1b-w8a8"
SCORED = FidelityRecord(
    row="arc", model=SLUG, unit="choices", items=200, kl_mean=0.01234, kl_stderr=0.00071, kl_median=0.0000181,
    kl_p90=0.03, kl_p99=0.14, kl_max=12.04, top_agreement=0.985, gold_items=200, gold_shift=0.0123,
)  # fmt: skip
GENERATED = FidelityRecord(
    row="sums", model=SLUG, unit=None, items=0, left_out={"failed": 1, "unpaired": 2},
    generated=GeneratedFidelity(
        answers=40, identical=0.65, with_tokens=40, first_difference=17.5, token_agreement=0.8012
    ),
)  # fmt: skip
TOKENS = FidelityRecord(row="wiki.test.raw", model=SLUG, unit="tokens", items=2048, kl_mean=0.0, kl_median=-1e-6)


def view(make_case: Any, *records: FidelityRecord) -> FidelityView | None:
    return fidelity_view(make_case()[1].model_copy(update={"fidelity": list(records)}), SLUG)


def test_every_number_is_formatted(make_case):
    found = view(make_case, SCORED, GENERATED, TOKENS)
    assert found.choices == (
        ScoredLine("arc", "200", "0.012 ± 0.00071", "1.8×10⁻⁵", "0.030", "0.14", "12.0", "98.50 %", "1.23"),
    )
    assert found.tokens[0] == ScoredLine("wiki.test.raw", "2048", "0", "-1.0×10⁻⁶", "–", "–", "–", "–", "–")
    assert found.generated == (GeneratedLine("sums", "40", "65.00 %", "17.5", "80.12 %"),)
    assert found.left_out == (LeftOutLine("sums", 1, "failed"), LeftOutLine("sums", 2, "unpaired"))
    assert found.has_gold


def test_other_models_are_not_shown_and_nothing_is_none(make_case):
    assert view(make_case, SCORED.model_copy(update={"model": "someone else"})) is None
    assert view(make_case) is None
    assert not view(make_case, SCORED.model_copy(update={"gold_shift": None})).has_gold


def test_generated_answers_that_all_agree(make_case):
    told = GeneratedFidelity(answers=3, identical=1.0, with_tokens=0, first_difference=None, token_agreement=None)
    (line,) = view(make_case, GENERATED.model_copy(update={"generated": told})).generated
    assert line == GeneratedLine("sums", "3", "100.00 %", "–", "–")


def rendered(found: FidelityView) -> str:
    return card_environment().get_template("fidelity.md.j2").module.fidelity(found)


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table as another library of Markdown reads them."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    found: list[list[list[str]]] = []
    is_cell = False
    for token in markdown.parse(text):
        is_cell = token.type in ("th_open", "td_open") or (is_cell and token.type == "inline")
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and is_cell:
            found[-1][-1].append(token.content)
    return found


def test_tables_are_tables(make_case):
    choices, tokens, generated = tables(rendered(view(make_case, SCORED, GENERATED, TOKENS)))
    assert [len(row) for row in choices] == [9, 9] and [len(row) for row in tokens] == [8, 8]
    assert choices[0][-1] == "Gold moved" and choices[1][0] == "`arc`" and choices[1][2] == "0.012\u00a0±\u00a00.00071"
    assert generated[1] == ["`sums`", "40", "65.00\u00a0%", "17.5", "80.12\u00a0%"]


def test_words_are_there_for_what_is_there_and_for_nothing_else(make_case):
    text = rendered(view(make_case, SCORED))
    assert "over an item's choices" in text and "Word for word" not in text and "vocabulary" not in text
    text = rendered(view(make_case, GENERATED))
    assert "*KL*" not in text
    assert "`sums`: 1 pair of answers, as one of the two failed" in text
    assert "`sums`: 2 pairs of answers, as only one of the two models has an answer" in text
    assert "not comparable with a divergence over choices" in rendered(view(make_case, TOKENS))


def test_a_hostile_name_stays_in_its_cell(make_case):
    name = "a|b`c` <script>alert(1)</script> **d** $$"
    text = rendered(view(make_case, SCORED.model_copy(update={"row": name})))
    ((_, row),) = tables(text)
    assert len(row) == 9 and "<script>" not in text and "$$" not in text
