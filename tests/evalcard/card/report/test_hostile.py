"""What a model says is data: no answer, question, name or finding may run, load, or break the page."""

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from evalcard.card.report.asked import Asked

SCRIPT = "window.stolen = 1; alert(1); fetch('https://example.org/x')"
HOSTILE = [
    f"</script><script>{SCRIPT}</script>",
    f'</script><img src=x onerror="{SCRIPT}">',
    f"<!--<script>{SCRIPT}</script>",
    f'"><svg onload="{SCRIPT}">',
    f"javascript:{SCRIPT}",
    "{{7*7}} {% raw %} {{ self.__init__ }} ${7*7}",
    "$$ x | y | z\n---\n***\n| a | b |\n|---|---|\n]]> &amp; &lt; \\u003c",
    "a null \x00 byte, \x1b[31m, a bell \x07",
    "right \u202eto left\u202c, \u05e9\u05dc\u05d5\u05dd, \u2067isolated",
    "separators \u2028 and \u2029, \ufeff, zero\u200bwidth",
    "a lone \ud800 surrogate and another \udc00",
]


def texts_of(file: Path) -> tuple[list[str], list[str]]:
    """(all elements of the file in their order, what its scripts hold), as a parser that runs nothing sees it."""

    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.tags: list[str] = []
            self.attributes: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.tags.append(tag)
            self.attributes += [name for name, _ in attrs]

    reader = Reader()
    reader.feed(file.read_text(encoding="utf-8"))
    return reader.tags, reader.attributes


def hostile_run(stored: Any) -> Any:
    n = len(HOSTILE)
    stored.add("</script>task", [1] * n, [0] * n).add("choices", [1] * n, [0] * n)
    for model, slug in enumerate(stored.slugs):
        for one, text in zip(stored.answers[slug, "</script>task"], HOSTILE, strict=True):
            one |= {"text": f"{text} {model}", "extracted": text, "target": text, "fault": text}
        for one, text in zip(stored.answers[slug, "choices"], HOSTILE, strict=True):
            choices = [{"text": said, "logprob": -1.0 - model, "tokens": 1, "is_greedy": False} for said in (text, "b")]
            one |= {"text": None, "choices": choices, "extracted": text, "target": text, "item_id": f"{text}"}
    return stored


@pytest.fixture
def page(stored_run: Callable[..., Any], make_page: Callable[..., Path]) -> Path:
    questions = {"</script>task": dict(enumerate(HOSTILE)), "choices": {text: text for text in HOSTILE}}
    prompts = {"</script>task": {number: (f"{text}\nAnswer:",) for number, text in enumerate(HOSTILE)}}
    return make_page(hostile_run(stored_run()), Asked(questions=questions, prompts=prompts, missing=HOSTILE[:3]))  # type: ignore[arg-type]


def test_the_page_is_well_formed(page: Path, stored_run: Callable[..., Any], make_page: Callable[..., Path]):
    tags, attributes = texts_of(page)
    clean = make_page(stored_run("clean").add("task", [1] * 3, [0] * 3), Asked(missing=["a", "b", "c"]))
    assert tags.count("script") == texts_of(clean)[0].count("script") + 1, "the prompts' block, and no other"
    assert not {name for name in attributes if name.startswith("on")}
    assert {"svg", "iframe", "link", "object", "base"}.isdisjoint(tags)
    assert "\x00" not in page.read_text(encoding="utf-8")


def test_no_script_of_an_answer_runs(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items")
    opened.page.keyboard.press("p")
    for number in range(2 * len(HOSTILE)):
        opened.page.locator(f'#row-{number}[aria-selected="true"]').wait_for()
        opened.page.wait_for_timeout(30)
        opened.page.keyboard.press("j")
    opened.page.locator("#search").fill("<script>")
    opened.page.locator("#count", has_text="4 of 22").wait_for()
    opened.page.keyboard.press("Escape")
    assert opened.page.evaluate("window.stolen") is None
    assert (opened.dialogs, opened.network, opened.errors) == ([], [], [])
    assert opened.page.locator("#detail img, #detail svg, #detail script, #list img").count() == 0


def test_the_policy_keeps_an_injected_script_from_running(page: Path, open_page: Callable[..., Any]):
    """The second wall: were there a hole in the first, nothing would run or leave all the same."""
    opened = open_page(page)
    opened.page.evaluate(
        """() => {
            const made = document.createElement("div");
            made.innerHTML = "<img src='https://example.org/a.png' onerror='window.stolen = 1'>";
            document.body.append(made);
            const script = document.createElement("script");
            script.textContent = "window.stolen = 2";
            document.body.append(script);
        }"""
    )
    opened.page.wait_for_timeout(100)
    assert opened.page.evaluate("window.stolen") is None
    refused = [one for one in opened.errors if "Content Security Policy" in one]
    assert len(refused) >= 2, opened.errors
    assert opened.page.evaluate("fetch('https://example.org/').then(() => 'left', () => 'kept')") == "kept"


def test_texts_arrive_whole(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items")
    for number, text in enumerate(HOSTILE):
        opened.page.evaluate(f"location.hash = 'items?item=' + encodeURIComponent('</script>task/{number}')")
        opened.detail(f"</script>task/{number}")
        expected = text if "lone" not in text else text.replace("\ud800", "U+D800").replace("\udc00", "U+DC00")
        for code in (0, 7, 0x1B, 0x202E, 0x202C, 0x2067, 0x2028, 0x2029, 0xFEFF, 0x200B):
            expected = expected.replace(chr(code), f"U+{code:04X}")
        shown = opened.page.locator("#detail .pair .model-text").all_inner_texts()
        assert [" ".join(one.split()) for one in shown] == [" ".join(f"{expected} {model}".split()) for model in (0, 1)]


def test_directions_do_not_reach_beyond_their_text(page: Path, open_page: Callable[..., Any]):
    opened = open_page(page, "#items")
    opened.page.evaluate("location.hash = 'items?item=' + encodeURIComponent('</script>task/8')")
    opened.detail("</script>task/8")
    styles = opened.page.evaluate(
        "[...document.querySelectorAll('#detail .model-text, #detail bdi')]"
        ".map((one) => getComputedStyle(one).unicodeBidi)"
    )
    assert styles and set(styles) <= {"plaintext", "isolate"}
