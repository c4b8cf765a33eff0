"""As many items as MMLU has: the list stays small, and the page is packed."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.card.report.asked import Asked
from evalcard.card.report.pool import PACK_FROM

ITEMS = 14_042
MOST_ROWS = 40
"""A list of 800 pixels shows 16 rows, and some are kept ready at either end."""


@pytest.fixture
def page(stored_run: Callable[..., Any], make_page: Callable[..., Path]) -> Path:
    scores = [
        [int(item % 3 > 0) for item in range(ITEMS)],
        [int(item % 3 > 0 and item % 50 > 0) for item in range(ITEMS)],
    ]
    stored = stored_run().add("mmlu", *scores)
    for model, slug in enumerate(stored.slugs):
        for item, one in enumerate(stored.answers[slug, "mmlu"]):
            logprobs = [-((item * 7919 + model + number * 104729) % 9973) / 997 for number in range(4)]
            choices = [{"text": f" {letter}", "logprob": value, "tokens": 1, "is_greedy": False}
                       for letter, value in zip("ABCD", logprobs, strict=True)]  # fmt: skip
            one |= {"text": None, "choices": choices, "output_tokens": 0}
    words = [f"word{number * 7919 % 5003}" for number in range(5003)]
    questions = {item: " ".join(words[(item * 31 + k * k) % 5003] for k in range(70)) + f" number {item}?"
                 for item in range(ITEMS)}  # fmt: skip
    shared = "Worked example.\n" * 40
    prompts = {item: (shared, f"{question}\nAnswer:") for item, question in questions.items()}
    return make_page(stored, Asked(questions={"mmlu": questions}, prompts={"mmlu": prompts}))  # type: ignore[dict-item]


def test_14042_items_stay_responsive(page: Path, open_page: Callable[..., Any], record_property: Callable[..., None]):
    start = time.perf_counter()
    opened = open_page(page, "#items")
    times = {"first list": time.perf_counter() - start}
    rows = opened.page.locator("#list .row")
    assert 0 < rows.count() <= MOST_ROWS

    def measured(name: str, script: str) -> Any:
        """Seconds that the page's own thread takes."""
        seconds, result = opened.page.evaluate(
            f"(() => {{ const t = performance.now(); const r = (() => {{ {script} }})(); "
            "return [(performance.now() - t) / 1000, r]; })()"
        )
        times[name] = seconds
        return result

    outcome = (
        "const s = document.getElementById('filter-outcome'); s.value = '{}'; s.dispatchEvent(new Event('change'));"
    )
    measured("filter", outcome.format("lost"))
    assert (
        opened.page.locator("#count").inner_text()
        == f"{sum(i % 50 == 0 and i % 3 > 0 for i in range(ITEMS))} of {ITEMS} items"
    )
    assert 0 < rows.count() <= MOST_ROWS
    measured("all again", outcome.format("all"))
    measured(
        "far scroll", "const l = document.getElementById('list'); l.scrollTop = l.scrollHeight; return l.offsetHeight;"
    )
    opened.page.locator(f'#list [aria-posinset="{ITEMS}"]').wait_for()
    assert 0 < rows.count() <= MOST_ROWS
    start = time.perf_counter()
    opened.page.locator("#search").fill("number 13999?")
    opened.page.locator("#count", has_text=f"1 of {ITEMS}").wait_for()
    times["search"] = time.perf_counter() - start
    assert opened.rows() == ["mmlu/13999"]
    opened.detail("mmlu/13999")
    assert opened.page.locator("#detail").inner_text().count("number 13999?") == 1
    size = page.stat().st_size
    for name, seconds in times.items():
        record_property(name, round(seconds, 4))
    print({name: f"{1000 * seconds:.0f} ms" for name, seconds in times.items()}, f"{size / 1e6:.2f} MB")
    assert (opened.errors, opened.network) == ([], [])
    assert PACK_FROM < size < 20_000_000
