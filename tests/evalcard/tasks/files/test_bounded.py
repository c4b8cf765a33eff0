"""A template ends: its loops, calls and sizes are bounded, and what is within the bounds is unchanged."""

import jinja2
import lm_eval.utils
import pytest

from evalcard.tasks.files import bounded
from evalcard.tasks.files.templates import render

_LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}x"


@pytest.mark.parametrize(
    "template",
    [_LOOPS, "{% for a in 'x' * 9999 %}{% for b in 'x' * 9999 %}{% endfor %}{% endfor %}",
     "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
     "{% for a in [1] recursive %}{% if loop.depth < 9 %}{{ loop(['x'] * 99) }}{% endif %}{% endfor %}"],
)  # fmt: skip
def test_rounds_of_loops_and_calls(template: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounded, "MAX_STEPS", 20_000)
    with pytest.raises(jinja2.TemplateError, match="more than 20,000 rounds"):
        render(template, {})


def test_seconds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounded, "MAX_SECONDS", 0.0)
    with pytest.raises(jinja2.TemplateError, match="takes more than 0 s"):
        render(_LOOPS, {})


@pytest.mark.parametrize(
    "template",
    ["{{ 'x' * 10 ** 10 }}", "{{ 10 ** 10 * 'x' }}", "{{ [1] * 10 ** 10 }}", "{{ 9 ** (9 ** 9) }}",
     "{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
     "{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
     "{{ '%9999999999d' % 1 }}", "{{ '{:>9999999999}'.format(1) }}", "{{ '%9999999999d'|format(1) }}",
     "{{ 'x'|center(9999999999) }}", "{{ 'x'.ljust(9999999999) }}", "{{ [1]|batch(9999999999, 0)|list }}",
     "{% for i in range(90000) %}{{ 'x' * 10000 }}{% endfor %}"],
)  # fmt: skip
def test_sizes(template: str):
    with pytest.raises(jinja2.TemplateError, match="grows beyond"):
        render(template, {})


@pytest.mark.parametrize(
    "template",
    ["{% for c in cs %}{{ loop.index }}/{{ loop.length }}{{ ', ' if not loop.last }}{{ loop.revindex }}{% endfor %}",
     "{% for k, v in d.items() %}{{ k ~ '=' ~ v }};{% else %}none{% endfor %}",
     "{% for x in [] %}{% else %}0{% endfor %}",
     "{% for x in cs if x != 'b' recursive %}{{ x }}{{ loop.depth }}{% endfor %}", "{{ cs|batch(2, '-')|list }}",
     "{{ '%05d'|format(7) }}{{ 'a'|center(9) }}{{ cs|tojson }}{{ 'a\nb'|indent(2) }}{{ '{:,}'.format(123456789) }}",
     "{{ 2 ** 10 }}{{ 'ab' * 3 }}{{ 7 % 4 }}{{ cs + ['d'] }}{% for x in nothing %}{% endfor %}"],
)  # fmt: skip
def test_texts_within_the_bounds_equal_the_harness(template: str):
    doc = {"cs": ["a", "b", "c"], "d": {"k": 1}, "nothing": []}
    assert render(template, doc) == lm_eval.utils.apply_template(template, doc)
