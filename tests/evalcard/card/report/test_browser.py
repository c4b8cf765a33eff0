"""The report in a real browser: what is shown, what keys do, and that answers stay data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.card.report.asked import Asked

SCORES = [[1, 1, 1, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 1, 1, 1]]
"""Of the baseline and the compressed model: items 1 and 2 are lost, 3 is gained."""


def answers_of(stored: Any, model: int, task: str = "sums") -> list[dict[str, Any]]:
    given: list[dict[str, Any]] = stored.answers[stored.slugs[model], task]
    return given


@pytest.fixture
def run(stored_run: Callable[..., Any]) -> Any:
    """Eight items of sums, some of which end otherwise, and four of a multiple choice."""
    stored = stored_run().add("sums", *SCORES).add("facts", [1, 1, 0, 1], [1, 0, 0, 1])
    answers_of(stored, 0)[5] |= {"text": "one two three\nfour\n#### 7"}
    answers_of(stored, 1)[5] |= {"text": "one two three\nfive\n#### 7"}
    answers_of(stored, 1)[4] |= {"outcome": "no_answer", "extracted": None}
    answers_of(stored, 0)[6] |= {"finish": "length"}
    answers_of(stored, 1)[2] |= {"outcome": "error", "finish": "error", "fault": "layer 3: not finite"}
    picks = {1: ("Paris", [-0.5, -2.25]), 0: ("Rome", [-3.0, -1.125])}
    for model in (0, 1):
        for one in answers_of(stored, model, "facts"):
            said, logprobs = picks[one["value"]]
            choices = [{"text": text, "logprob": value, "tokens": 1, "is_greedy": False}
                       for text, value in zip((" Paris", " Rome"), logprobs, strict=True)]  # fmt: skip
            one |= {"extracted": said, "target": "Paris", "text": None, "choices": choices, "output_tokens": 0}
    return stored


ASKED = Asked(
    questions={"sums": {item: f"What is {item} plus 7?" for item in range(8)}, "facts": {0: "Capital of France?"}},
    prompts={"sums": {item: ("Worked examples first.\n\n", f"What is {item} plus 7?\nAnswer:") for item in range(8)}},
    missing=["the documents of 3 items of facts changed since"],
)


@pytest.fixture
def page(run: Any, make_page: Callable[..., Path]) -> Path:
    return make_page(run, ASKED)


def test_nothing_is_asked_for_and_nothing_fails(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items")
    opened.page.locator("#search").fill("plus")
    opened.page.locator("#count", has_text="8 of 12").wait_for()
    assert (opened.network, opened.dialogs, opened.errors) == ([], [], [])
    assert [url for url in opened.requests if url.startswith("file:")] == [page.resolve().as_uri()]


def test_the_summary_says_what_it_cost(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page)
    text = opened.page.locator("#summary").inner_text()
    assert "83.33 %" in text and "3 lost, 1 gained of 12 answers" in text
    assert opened.page.locator("#items").is_hidden()
    opened.page.get_by_text("See the flipped items").click()
    assert opened.rows() == ["sums/1", "sums/2", "sums/3", "facts/1"]


@pytest.mark.parametrize(
    ("outcome", "rows"),
    [
        ("flipped", ["sums/1", "sums/2", "sums/3", "facts/1"]),
        ("lost", ["sums/1", "sums/2", "facts/1"]),
        ("gained", ["sums/3"]),
        ("differs", ["sums/1", "sums/2", "sums/3", "sums/4", "sums/5", "facts/1"]),
        ("truncated", ["sums/6"]),
        ("unparsed", ["sums/4"]),
        ("error", ["sums/2"]),
    ],
)
def test_outcomes_are_filtered(
    run: Any, make_page: Callable[..., Path], open_page: Callable[..., Any], outcome: str, rows: list[str]
):
    answers_of(run, 1)[4] |= {"text": "no idea"}
    opened = open_page(make_page(run, ASKED), "#items")
    opened.page.locator("#filter-outcome").select_option(outcome)
    assert opened.rows() == rows
    assert opened.page.locator("#count").inner_text() == f"{len(rows)} of 12 items"


def test_tasks_and_words_narrow_the_list(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items")
    opened.page.locator("#filter-task").select_option(label="facts (4)")
    assert opened.rows() == [f"facts/{item}" for item in range(4)]
    for words, shown in [("ROME", 4), ("capital OF", 1), ("worked examples", 0), ("plus", 0), ("facts/2", 1), ("", 4)]:
        opened.page.locator("#search").fill(words)
        opened.page.locator("#count", has_text=f"{shown} of 12").wait_for()
        assert len(opened.rows()) == shown
    opened.page.locator("#filter-task").select_option("")
    opened.page.locator("#search").fill("five")
    opened.page.locator("#count", has_text="1 of 12").wait_for()
    assert opened.rows() == ["sums/5"]


def test_keys_lead_through_the_items(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page)
    keyboard = opened.page.keyboard
    keyboard.press("s")
    assert opened.chosen() == "sums/0"
    for key, item in [("j", 1), ("ArrowDown", 2), ("k", 1), ("ArrowUp", 0), ("k", 0), ("j", 1)]:
        keyboard.press(key)
        assert opened.chosen() == f"sums/{item}"
        opened.detail(f"sums/{item}")
    keyboard.press("End")
    assert opened.chosen() == "facts/3"
    keyboard.press("f")
    assert opened.page.locator("#filter-outcome").input_value() == "flipped"
    keyboard.press("F")
    keyboard.press("/")
    assert opened.page.evaluate("document.activeElement.id") == "search"
    keyboard.type("jfk?")
    assert opened.page.locator("#search").input_value() == "jfk?"
    opened.page.locator("#count", has_text="0 of 12").wait_for()
    keyboard.press("Escape")
    opened.page.locator("#count", has_text="12 items").wait_for()
    keyboard.press("Escape")
    assert opened.page.evaluate("document.activeElement.id") == "list"
    keyboard.press("?")
    assert opened.page.locator("#help").is_visible()
    keyboard.press("j")
    keyboard.press("Escape")
    assert opened.page.locator("#help").is_hidden()
    assert opened.errors == []


def test_everything_can_be_reached_by_tab_and_focus_is_seen(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items")
    opened.page.locator("#tab-items").focus()
    seen = []
    for _ in range(14):
        opened.page.keyboard.press("Tab")
        seen.append(opened.page.evaluate("document.activeElement.id"))
        style = opened.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none" or opened.page.evaluate("document.activeElement === document.body"), seen
    assert {"theme", "filter-task", "filter-model", "filter-outcome", "search", "list", "detail"} <= set(seen)


def test_roles_say_what_things_are(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items")
    box = opened.page.get_by_role("listbox", name="Items")
    options = box.get_by_role("option")
    assert options.count() == 12
    assert options.nth(3).get_attribute("aria-posinset") == "4"
    assert options.nth(3).get_attribute("aria-setsize") == "12"
    active = box.get_attribute("aria-activedescendant")
    assert opened.page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    assert opened.page.get_by_role("tab", selected=True).inner_text() == "Items"
    assert opened.page.get_by_role("status").inner_text() == "12 items"


def test_the_first_difference_is_marked_on_both_sides(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items?item=sums/5")
    opened.detail("sums/5")
    assert opened.page.locator("#detail mark").all_inner_texts() == ["our", "ive"]  # both begin with an f
    said = "The answers are the same for 15 characters; the first difference is in line 2 and is marked."
    assert said in opened.page.locator("#detail .says").inner_text()


@pytest.mark.parametrize(
    ("ours", "theirs", "marks"),
    [
        ("so it is", "so", ["blank", "⟨ends here⟩"]),
        ("", "so", ["⟨ends here⟩", "so"]),
        ("a 😀b", "a 😁b", ["😀b", "😁b"]),
        ("a\u200bb", "ab", ["U+200Bb", "b"]),
        ("a  b", "a b", ["blank", "b"]),
    ],
)
def test_differences_at_ends_in_blanks_and_in_pairs(
    run: Any, make_page: Callable[..., Path], open_page: Callable[..., Any], ours: str, theirs: str, marks: list[str]
):
    answers_of(run, 0)[0] |= {"text": ours}
    answers_of(run, 1)[0] |= {"text": theirs}
    opened = open_page(make_page(run, ASKED), "#items?item=sums/0")
    opened.detail("sums/0")
    assert [one.strip() for one in opened.page.locator("#detail mark").all_inner_texts()] == marks


def test_answers_that_differ_at_once_are_not_the_same_for_no_characters(
    run: Any, make_page: Callable[..., Path], open_page: Callable[..., Any]
):
    answers_of(run, 1)[0] |= {"text": "other"}
    opened = open_page(make_page(run, ASKED), "#items?item=sums/0")
    opened.detail("sums/0")
    assert "The answers differ from their first character on" in opened.page.locator("#detail .says").inner_text()


def test_equal_answers_are_said_to_be(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items?item=sums/7")
    opened.detail("sums/7")
    assert opened.page.locator("#detail mark").count() == 0
    assert "Both answers are the same" in opened.page.locator("#detail .says").inner_text()


def test_an_item_shows_all_that_is_known_of_it(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items?item=sums/2")
    opened.detail("sums/2")
    text = opened.page.locator("#detail").inner_text()
    for part in ("What is 2 plus 7?", "lost", "correct", "error", "layer 3: not finite", "failed", "acc: 1", "acc: 0"):
        assert part in text, part
    assert "Worked examples" not in text
    opened.page.keyboard.press("p")
    opened.page.get_by_text("Worked examples first.").wait_for()
    opened.page.keyboard.press("j")  # the prompt stays open from item to item
    opened.page.get_by_text("What is 3 plus 7?\nAnswer:").wait_for()


def test_choices_stand_with_both_models_log_probabilities(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items?item=facts/1")
    opened.detail("facts/1")
    cells = [row.inner_text().split("\t") for row in opened.page.locator("#detail .choices tbody tr").all()]
    assert [[cell.strip() for cell in row] for row in cells] == [
        ["Paris gold", "picked -0.500", "-3.000"],
        ["Rome", "-2.250", "picked -1.125"],
    ]
    assert "The models pick different choices." in opened.page.locator("#detail").inner_text()
    assert "The question could not be read" in opened.page.locator("#detail").inner_text()
    assert "the documents of 3 items of facts changed since" in opened.page.locator(".missing").text_content()


def test_the_address_names_what_is_shown(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items?item=sums/3&task=sums&show=gained&q=plus")
    assert opened.rows() == ["sums/3"]
    opened.page.locator("#filter-outcome").select_option("lost")
    assert opened.page.evaluate("location.hash") == "#items?item=sums%2F1&task=sums&show=lost&q=plus"
    assert open_page(page, "#items?item=no/9&task=none&show=nothing&model=x").rows()[0] == "sums/0"


@pytest.mark.parametrize(
    ("address", "said", "rows"),
    [
        ("item=sums/99&show=lost", "This report has no item sums/99; choose one", ["sums/1", "sums/2", "facts/1"]),
        ("item=no%2F<b>9", "This report has no item no/<b>9; choose one", None),
        ("item=sums/3&task=none", "This report has no task none.", None),
        ("model=tiny-w2a2&show=gained", "This report has no model tiny-w2a2.", ["sums/3"]),
        ("show=nothing", "This report has no choice of items called nothing.", None),
    ],
)
def test_what_an_address_names_and_the_report_has_not_is_said(
    page: Path, open_page: Callable[..., Any], address: str, said: str, rows: list[str] | None
):
    opened = open_page(page, f"#items?{address}")
    notice, chosen = opened.page.locator("#unknown"), opened.page.locator('#list [aria-selected="true"]')
    notice.wait_for()
    assert said in notice.inner_text()
    assert opened.rows() == (rows or [*(f"sums/{item}" for item in range(8)), *(f"facts/{item}" for item in range(4))])
    assert chosen.count() == ("no item" not in said), "no other item is opened in its place"
    assert opened.page.locator("#detail h3").count() <= chosen.count()
    assert opened.page.evaluate("decodeURIComponent(location.hash)").endswith(address.replace("%2F", "/"))
    opened.page.locator("#list").press("j")
    assert chosen.count() == 1 and notice.is_hidden() and opened.errors == []


def test_a_prompt_that_is_the_question_is_shown_once(
    run: Any, make_page: Callable[..., Path], open_page: Callable[..., Any]
):
    asked = Asked(questions=ASKED.questions, prompts={"sums": {0: ("What is 0 plus 7?",), 1: ("What is 1 plus 7?\n",)}})
    opened = open_page(make_page(run, asked), "#items?item=sums/0")
    opened.detail("sums/0")
    text = opened.page.locator("#detail").inner_text()
    assert "Question, which is the whole prompt\n" in text and "Prompt as asked" not in text
    opened.page.locator("#list").press("j")
    opened.detail("sums/1")
    assert "Prompt as asked" in opened.page.locator("#detail").inner_text(), "a blank more is another prompt"


def test_repeats_are_items_of_their_own_that_lead_to_each_other(
    stored_run: Callable[..., Any], make_page: Callable[..., Path], open_page: Callable[..., Any]
):
    stored = stored_run().add("aime", [1, 0], [1, 1], repeats=3)
    for slug in stored.slugs:
        given = stored.answers[slug, "aime"]
        stored.answers[slug, "aime"] = [
            {**one, "repeat": repeat, "text": f"{one['item_id']}.{repeat}"} for one in given for repeat in range(3)
        ]
    opened = open_page(make_page(stored), "#items?item=aime/1%232")
    opened.detail("aime/1#2")
    assert opened.rows() == [f"aime/{item}#{repeat}" for item in (0, 1) for repeat in range(3)]
    assert opened.page.locator(".repeats button").all_inner_texts() == ["1", "2", "3"]
    opened.page.locator(".repeats button", has_text="1").click()
    opened.detail("aime/1#0")
    assert opened.chosen() == "aime/1#0"
    opened.page.keyboard.press("Home")
    opened.page.evaluate("location.hash = '#items?item=aime/1'")  # which of its answers is not said
    opened.detail("aime/1#0")
    assert opened.chosen() == "aime/1#0" and opened.page.locator("#unknown").is_hidden()


def test_an_item_that_one_model_lacks_is_shown_as_such(
    run: Any, make_page: Callable[..., Path], open_page: Callable[..., Any]
):
    del answers_of(run, 1)[7]
    opened = open_page(make_page(run, ASKED), "#items?item=sums/7")
    opened.detail("sums/7")
    assert "this model has no answer here" in opened.page.locator("#detail").inner_text()
    assert opened.errors == []


def test_a_run_of_the_baseline_alone_has_its_answers(
    stored_run: Callable[..., Any], make_page: Callable[..., Path], open_page: Callable[..., Any]
):
    stored = stored_run(slugs=("tiny",)).add("sums", [1, 0, 1])
    opened = open_page(make_page(stored, ASKED), "#items?item=sums/1")
    opened.detail("sums/1")
    assert opened.page.locator("#detail .side-head").all_inner_texts() == ["tiny\nbaseline\nwrong"]
    opened.page.locator("#filter-outcome").select_option("flipped")
    assert (opened.rows(), opened.errors) == ([], [])
    opened.page.keyboard.press("s")
    assert "No compressed model was run beside it." in opened.page.locator("#summary").inner_text()


def test_of_several_models_one_is_beside_the_baseline(
    stored_run: Callable[..., Any], make_page: Callable[..., Path], open_page: Callable[..., Any]
):
    stored = stored_run(slugs=("tiny", "tiny-w8a8", "tiny-w4a16")).add("sums", [1, 1, 0], [1, 1, 0], [0, 1, 0])
    opened = open_page(make_page(stored, ASKED), "#items?show=lost")
    assert opened.rows() == []
    opened.page.locator("#list").press("m")
    assert opened.rows() == ["sums/0"]
    opened.detail("sums/0")
    assert "w4a16" in opened.page.locator("#detail").inner_text()
    assert opened.page.evaluate("location.hash") == "#items?item=sums%2F0&model=tiny-w4a16&show=lost"


def ground(opened: Any) -> str:
    return str(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_is_the_systems_until_it_is_chosen(page: Path, open_page: Callable[..., Any], scheme: str):
    opened = open_page(page, color_scheme=scheme)
    shades = {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}
    assert ground(opened) == shades[scheme]
    assert opened.page.locator("img.on-dark").first.is_visible() == (scheme == "dark")
    for name in ("light", "dark", "auto"):
        opened.page.locator("#theme").click()
        shown = scheme if name == "auto" else name
        assert opened.page.locator("#theme").inner_text() == f"Theme: {name}"
        assert ground(opened) == shades[shown]
        assert opened.page.locator("img.on-dark").first.is_visible() == (shown == "dark")
        assert opened.page.locator("img.on-light").first.is_visible() == (shown == "light")


@pytest.mark.parametrize("width", [320, 390, 700, 1400])
def test_nothing_runs_over_the_edge(page: Path, open_page: Callable[..., Any], width: int):
    for address in ("", "#items?item=facts/1"):
        opened = open_page(page, address, viewport={"width": width, "height": 800})
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.page.locator("#list").is_visible() == bool(address)


def test_without_scripts_the_summary_is_there(page: Path, chromium: Any):
    context = chromium.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(page.resolve().as_uri())
    assert "needs JavaScript" in opened.locator("body").inner_text()
    assert opened.locator("#summary table").first.is_visible()
    context.close()


def test_endings_that_are_not_told_are_not_made_up(
    run: Any, make_page: Callable[..., Path], open_page: Callable[..., Any]
):
    for model in (0, 1):
        for one in answers_of(run, model):
            if one.get("finish") != "error":
                one |= {"finish": "not_told", "output_tokens": 0}
    opened = open_page(make_page(run, ASKED), "#items?item=sums%2F0&show=truncated")
    opened.detail("sums/0")
    facts = opened.page.locator("#detail .side-facts").first.inner_text()
    assert "not told" in facts and "Tokens" not in facts and "by itself" not in facts
    choice = opened.page.locator("#filter-outcome option[value=truncated]")
    assert choice.get_attribute("disabled") is not None and choice.inner_text() == "truncated (not told)"
    assert opened.page.locator("#filter-outcome").input_value() == "all" and opened.errors == []


def test_scored_choices_do_not_say_how_they_ended(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items?item=facts%2F0")
    opened.detail("facts/0")
    assert "Ended" not in opened.page.locator("#detail").inner_text()


def test_an_item_that_the_filters_hide_is_opened_and_that_is_said(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items?item=sums%2F7&show=lost")
    opened.detail("sums/7")
    assert opened.chosen() == "sums/7" and opened.page.locator("#filter-outcome").input_value() == "all"
    assert "filters hid this item" in opened.page.locator("#count").inner_text()


def test_on_a_narrow_screen_figures_are_read_and_recovery_is_in_sight(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, viewport={"width": 375, "height": 700})
    assert opened.page.locator("figure img:visible").first.bounding_box()["width"] >= 640
    head = opened.page.locator(".model thead th", has_text="Recovery").first.bounding_box()
    assert head["x"] + head["width"] <= 375
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 375, "the page itself does not scroll"
