"""A card's figures with their words, and how a page shows them."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from evalcard.card.environment import card_environment
from evalcard.card.figures import Figure, figures_of
from evalcard.card.pngdata import data_digest
from evalcard.compare.divergence import NUM_BINS
from evalcard.gate.judge import judge, with_verdict
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.results.compared import FidelityRecord
from evalcard.results.records import RowRecord

SLUG = "toy-1b-w8a8"
FIDELITY = FidelityRecord(
    row="arc", model=SLUG, unit="choices", items=200, kl_mean=0.0123, kl_median=0.004, kl_p90=0.03, kl_p99=0.14,
    kl_max=0.2, kl_bins=[200] + [0] * (NUM_BINS - 1), top_agreement=0.98,
)  # fmt: skip


def figures(make_case: Any, *fidelity: FidelityRecord, limit: float | None = None) -> list[Figure]:
    run, comparison = make_case()
    if limit is not None:
        comparison = with_verdict(comparison, judge(comparison, GateSpec(every=Bounds(min_recovery=limit)), run))
    return figures_of(run, comparison.model_copy(update={"fidelity": list(fidelity)}), SLUG)


def test_every_figure_is_light_and_dark_of_the_same_data(make_case):
    found = figures(make_case, FIDELITY)
    assert [one.name for one in found] == ["recovery", "scores", "flips", "kl"]
    for one in found:
        assert one.light != one.dark and data_digest(one.light) == data_digest(one.dark) is not None
        assert one.files == {f"figures/{one.name}.png": one.light, f"figures/{one.name}-dark.png": one.dark}
    assert len({data_digest(one.light) for one in found}) == 4


def test_the_words_tell_what_is_drawn_and_what_is_not(make_case):
    alts = {one.name: one.alt for one in figures(make_case, FIDELITY, limit=97.5)}
    assert alts["recovery"] == (
        "Recovery of toy-1b w8a8 against its baseline (100 %), with 95 % intervals: arc 96.67 % (91.15 to 101.75), "
        "limit of the gate 97.5 %; facts 100.00 % (90.22 to 110.84), limit of the gate 97.5 %; average of knowledge "
        "98.00 % (93.39 to 102.79); sums 105.00 % (83.53 to 134.79), limit of the gate 97.5 %. No recovery is "
        "defined for riddles, overall average."
    )
    assert "arc 72.50 after 75.00; facts 50.00 after 50.00;" in alts["scores"]
    assert alts["flips"].endswith(
        "by category: knowledge 12 lost and 7 gained; maths 1 lost and 2 gained; riddles 2 lost and 1 gained."
    )
    assert "over choices in nats: arc median 0.0040, 90 % below 0.030, 99 % below 0.14, mean 0.012." in alts["kl"]


def test_without_fidelity_there_is_no_such_figure(make_case):
    assert [one.name for one in figures(make_case)] == ["recovery", "scores", "flips"]


def test_a_run_that_stopped_early_has_no_figures(sequential_case):
    assert figures_of(*sequential_case, SLUG) == []


def test_of_many_rows_the_words_tell_the_worst_and_how_many_more(make_case):
    run, _ = make_case()
    rows = [RowRecord(name=f"arc_{n:02}", tasks=["arc"], rule="task") for n in range(40)]
    run, comparison = make_case(tasks=run.tasks[:1], rows=rows)
    alts = {one.name: one.alt for one in figures_of(run, comparison, SLUG)}
    assert "; and 33 more. Of 41 rows 24 are drawn: the averages, and the tasks with the lowest" in alts["recovery"]
    assert "; and 32 more. Of 40 rows 24 are drawn: the tasks that lost most." in alts["scores"]
    assert all(len(alt) < 1000 for alt in alts.values())


class Images(HTMLParser):
    """Pictures that a page shows, as (address, words), and everything that is not one."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.images: list[tuple[str | None, str | None]] = []
        self.sources: list[str | None] = []
        self.others: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        facts = dict(attrs)
        if tag == "img":
            self.images.append((facts.get("src"), facts.get("alt")))
        elif tag == "source":
            self.sources.append(facts.get("srcset"))
        else:
            self.others.add(tag)


HOSTILE = 'a](x) "><script>alert(1)</script> ![b](c) `d` **e** _f_ $$x$$ & &amp; \\'


def shown(style: str, alt: str = HOSTILE) -> Images:
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark", {"html": True})
    module = card_environment().get_template("figures.md.j2").module
    text = module.figures([Figure("kl", alt, b"", b"")], "models/x/", style)
    assert "$$" not in text
    return Images(markdown.render(text))


@pytest.mark.parametrize("style", ["plain", "picture", "hub"])
def test_whatever_the_words_hold_they_stay_words(style):
    page = shown(style)
    assert page.images[0] == ("models/x/figures/kl.png", HOSTILE)
    assert page.others <= {"p", "picture"}


def test_each_style_shows_what_it_says():
    assert len(shown("plain", "A").images) == 1 and shown("plain").sources == []
    assert shown("picture", "A").sources == ["models/x/figures/kl-dark.png"] and len(shown("picture").images) == 1
    assert [src for src, _ in shown("hub", "A").images] == ["models/x/figures/kl.png", "models/x/figures/kl-dark.png"]


def test_every_figure_is_a_paragraph_of_its_own(make_case):
    module = card_environment().get_template("figures.md.j2").module
    text = module.figures(figures(make_case))
    assert len(re.findall(r"(?m)^!\[[^\n]+\]\(figures/\w+\.png\)$", text)) == 3
    assert [part for part in text.split("\n\n") if part.strip()] == [one for one in text.split("\n") if one.strip()]
