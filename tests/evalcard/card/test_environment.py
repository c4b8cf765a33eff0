"""Templates of the user's own: what they may do, and how their faults are said."""

import re

import pytest
from jinja2 import UndefinedError

from evalcard.card.environment import OWN, card_environment, render
from evalcard.card.options import CardOptions
from evalcard.card.render import write_cards
from evalcard.card.view import card_view
from evalcard.errors import UserError
from evalcard.results.store import RunFolder

TEN_LINES = """---
{{ front -}}
---
# {{ card.model.title | cell }}: {% for line in card.headlines %}{{ line.recovery }} {% endfor %}

{% for table in card.tables %}
{% for row in table.rows %}
* {{ row.task | code }} {{ row.baseline }} -> {{ row.compressed }}
{% endfor %}
{% endfor %}
Written with {{ card.settings.backend }}.
"""
OVERRIDES = """{% extends "card.md.j2" %}
{% block headline %}
Ours: {{ card.headlines | length }} categories. {{ super() }}
{% endblock %}
{% block creation %}{% endblock %}
"""


def rendered(case, tmp_path, template: str, name: str = "mine.j2") -> str:
    with RunFolder.open(tmp_path, "run") as folder:
        top, *_ = write_cards(folder, *case, CardOptions(template=template, template_name=name))
    return top.read_text(encoding="utf-8")


def test_ten_lines_are_a_card(make_case, tmp_path):
    text = rendered(make_case(), tmp_path, TEN_LINES)
    assert "# toy-1b w8a8: 98.00 % 105.00 % – " in text
    assert re.search(r"^\* `arc` 75\.00 ± 3\.\d\d -> 72\.50 ± 3\.\d\d$", text, re.MULTILINE)
    assert text.endswith("Written with evalcard.\n")
    assert text.startswith("---\nbase_model: acme/toy-1b\n") and "evalcard:begin" not in text


@pytest.mark.parametrize("name", ["mine.j2", "card.md.j2"])
def test_blocks_of_ours_can_be_overridden(make_case, tmp_path, name):
    """Also by a file that is called as ours is."""
    text = rendered(make_case(), tmp_path, OVERRIDES, name)
    assert "Ours: 3 categories.  \n" in text or "Ours: 3 categories." in text
    for part in ("Measured on the same prompts", "## Accuracy", "<!-- evalcard:begin -->", "<!-- evalcard:end -->"):
        assert text.count(part) == 1, part


def test_every_block_stands_alone(make_case):
    """Each sees the names and macros it needs, when all around it is left out."""
    view = card_view(*make_case(), "toy-1b-w8a8", CardOptions(notes="mine"))
    source, _, _ = card_environment().loader.get_source(card_environment(), "card.md.j2")
    names = re.findall(r"{% block (\w+) %}", source)
    assert {"front", "title", "body", "overview", "accuracy", "figures", "use", "notes", "reproduce"} <= {*names}
    for name in names:
        others = [one for one in names if one not in (name, "body")]
        empty = "".join(f"{{% block {one} %}}{{% endblock %}}" for one in others)
        own = card_environment({"mine.j2": '{% extends "card.md.j2" %}' + empty})
        text = render(own, f"{OWN}mine.j2", {"card": view, "front": "a: 1\n", "figures": [], "folder": ""})
        assert text.count("evalcard:begin") == 1


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("one\ntwo {{ card.colour }}\n", r"mine\.j2, line 2: a CardView has no 'colour'; it has baseline, model, "),
        ("{{ card.headline }}", r"a CardView has no 'headline' \(did you mean headlines"),
        ("{{ nobody }}", r"mine\.j2, line 1: 'nobody' is undefined"),
        (
            "a\n{{ [card.model]|map(attribute='titel')|list }}",
            r"mine\.j2, line 2: a \w+ has no 'titel' \(did you mean title",
        ),
        ("{{ [nobody] }}", r"mine\.j2, line 1: 'nobody' is undefined"),
        ("{{ {'a': nobody} }}", r"mine\.j2, line 1: 'nobody' is undefined"),
        (
            '{% extends "card.md.j2" %}\n{% block title %}\n\n{{ card.model.size }}{% endblock %}',
            r"mine\.j2, line 4: .*size",
        ),
        ("a\nb\n{% if x %}\nc", r"mine\.j2, line \d: Unexpected end of template"),
        ("{{ 1 / 0 }}", r"mine\.j2, line 1: ZeroDivisionError"),
        ("{{ card | nofilter }}", r"mine\.j2, line 1: .*nofilter"),
        ('{% include "not-there.j2" %}', r"mine\.j2, line 1: .*not-there\.j2"),
        (
            '\n{% include "card.md" %}',
            r"mine\.j2, line 2: it asks for 'card\.md' \(did you mean card\.md\.j2\?\), which is not there.* "
            r"card\.md\.j2, deployment\.md\.j2, .*usage\.md\.j2\. What",
        ),
        ('{% extends "mine.j2" %}', r"mine\.j2, line 1: it asks for 'mine\.j2'.* can extend.* neither itself nor"),
        ('\n\n{% extends "own/mine.j2" %}', r"mine\.j2, line 3: it asks for 'own/mine\.j2', .* neither itself nor"),
        ('{% import "own/mine.j2" as again %}', r"mine\.j2, line 1: it asks for 'own/mine\.j2', which is not there"),
        ('{% include "own/" ~ "mine.j2" %}', r"mine\.j2, line 1: it asks for 'own/mine\.j2', which is not there"),
        (
            'a\n{% include ["a", "figure.md.j2"] %}',
            r"line 2: it asks for 'a' or 'figure\.md\.j2' \(did you mean figures",
        ),
        (
            '{% extends "card.md.j2" %}\n{% block hedline %}hi{% endblock %}',
            r"mine\.j2, line 2: card\.md\.j2 has no block 'hedline' \(did you mean headline\?\); it has accuracy, ",
        ),
        ("\n{{ ''.__class__.__mro__ }}", r"mine\.j2, line 2: .*unsafe"),
        (
            "<!-- evalcard:begin -->",
            r"the template mine\.j2 makes a card with <!-- evalcard:begin --> 1 and <!-- evalcard:end --> 0 times",
        ),
    ],
)
def test_a_fault_names_template_and_line(make_case, tmp_path, template, said):
    with pytest.raises(UserError, match=said):
        rendered(make_case(), tmp_path, template)


_NESTED = "{% for a in range(99999) %}{% for b in range(99999) %}"
_ENDS = "{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (f"\n{_NESTED}{_ENDS}", r"mine\.j2, line 2: it makes more than 200,000 rounds of loops and calls"),
        (f"{_NESTED}a long line of text, said again and again{_ENDS}", "grows beyond 4,000,000 characters"),
        ("{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}", r"mine\.j2, line 1: it calls itself"),
        ("{{ 'x' * 10 ** 9 }}", r"mine\.j2, line 1: a value in it grows beyond"),
        ("{{ 9 ** (9 ** 9) }}", r"mine\.j2, line 1: a value in it grows beyond"),
        ('{{ (5).to_bytes(1000000000, "big") }}', r"mine\.j2, line 1: a value in it grows beyond"),
        ('{{ true.to_bytes(length=1000000000, byteorder="big") }}', r"mine\.j2, line 1: a value in it grows beyond"),
        ("{{ 'x' | center(9999999) }}", r"mine\.j2, line 1: a value in it grows beyond"),
        (
            "{% for _ in range(99999) %}{% set x = 'x' * 99999 %}{% endfor %}",
            "come to more than 100,000,000 characters",
        ),
        (
            "{% for _ in range(99999) %}{{ card.overview | string | wordcount }}{% endfor %}",
            "it (takes|makes) more than",
        ),
        ("{{ lipsum() }}", "lipsum"),
    ],
)
def test_a_template_ends(make_case, tmp_path, template, said):
    with pytest.raises(UserError, match=said) as caught:
        rendered(make_case(), tmp_path, template)
    assert "docs/cards.md" in str(caught.value) and "--template" in str(caught.value)


def test_ours_is_far_within_the_bounds(make_case, tmp_path, monkeypatch):
    """So that a user's template may extend it for a run of many tasks."""
    from evalcard.card import environment

    monkeypatch.setattr(environment, "MAX_STEPS", 3_000)
    monkeypatch.setattr(environment, "MAX_SIZE", 50_000)
    monkeypatch.setattr(environment, "MAX_MADE", 300_000)
    assert rendered(make_case(), tmp_path, '{% extends "card.md.j2" %}').count("## Accuracy") == 1


def test_a_fault_leaves_what_was_there(make_case, tmp_path):
    before = rendered(make_case(), tmp_path, TEN_LINES)
    with pytest.raises(UserError):
        rendered(make_case(), tmp_path, "{{ nobody }}")
    assert (tmp_path / "run" / "README.md").read_text(encoding="utf-8") == before


def test_a_fault_of_ours_is_no_mistake_of_the_users():
    with pytest.raises(UndefinedError):
        render(card_environment(), "card.md.j2", {})
    with pytest.raises(UndefinedError):
        render(card_environment({"mine.j2": "{{ fine }}"}), "card.md.j2", {"fine": 1})
    assert render(card_environment({"mine.j2": "{{ fine }}"}), f"{OWN}mine.j2", {"fine": "a\x00b"}) == "a\ufffdb\n"
