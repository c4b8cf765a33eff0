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
     "{% for i in range(90000) %}{{ 'x' * 10000 }}{% endfor %}",
     "{% set t %}{% for i in range(90000) %}" + "x" * 1000 + "{% endfor %}{% endset %}",
     "{% macro m() %}{% for i in range(90000) %}" + "x" * 1000 + "{% endfor %}{% endmacro %}{{ m() | length }}",
     "{% set ns = namespace(a=['x']) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
     "{% set ns = namespace(a=1) %}{% for i in range(60) %}{% set ns.a = {'a': ns.a, 'b': ns.a} %}{% endfor %}",
     "{% set t = 'x' * 99999 %}{{ t | replace('', t) }}", "{% set t = 'x' * 99999 %}{{ t.replace('x', t) }}",
     "{{ range(99999) | join('x' * 9999) }}", "{{ ('x' * 9999).join('y' * 9999) }}", "{{ '%*d' % (10 ** 9, 1) }}",
     "{{ '{:>{w}}'.format(1, w=10 ** 9) }}", "{{ ('{0}' * 9999).format('x' * 9999) }}",
     "{{ ('x\n' * 9999) | indent(9999) }}", "{{ range(9999) | list | tojson(indent=9999) }}",
     "{{ ([['x']] * 9999) | sum(start=[]) }}"],
)  # fmt: skip
def test_sizes(template: str):
    with pytest.raises(jinja2.TemplateError, match="grows beyond"):
        render(template, {})


@pytest.mark.parametrize(
    "template",
    ["{% for i in range(99999) %}{% set x = 'x' * 9999 %}{% endfor %}", "{% set t = 'x' * 40000000 %}" * 9,
     "{% set t = 'x' * 40000000 %}" + "{% set u = t[1:] %}" * 9,
     "{% set t = 'x' * 40000000 %}" + "{{ t | upper }}" * 9],
)  # fmt: skip
def test_all_that_is_made(template: str):
    with pytest.raises(jinja2.TemplateError, match="come to more than 200,000,000|grows beyond"):
        render(template, {})


@pytest.mark.parametrize(
    "template",
    ["{% for c in cs %}{{ loop.index }}/{{ loop.length }}{{ ', ' if not loop.last }}{{ loop.revindex }}{% endfor %}",
     "{% for k, v in d.items() %}{{ k ~ '=' ~ v }};{% else %}none{% endfor %}",
     "{% for x in [] %}{% else %}0{% endfor %}",
     "{% for x in cs if x != 'b' recursive %}{{ x }}{{ loop.depth }}{% endfor %}", "{{ cs|batch(2, '-')|list }}",
     "{{ '%05d'|format(7) }}{{ 'a'|center(9) }}{{ cs|tojson }}{{ 'a\nb'|indent(2) }}{{ '{:,}'.format(123456789) }}",
     "{{ 'a: {0}, {n:,}'.format(70000000, n=90000000) }} {{ '%s of 20261130'|format('x') }}{{ '%.2f' % 2.5 }}",
     "{{ cs|map('upper')|join(', ') }}{{ [1, 2]|sum }}{{ cs|join }}{{ 'abc'|replace('b', '') }}{{ (1, cs)[1:] }}",
     "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(cs[0]) }}{% set t %}a{{ cs }}{% endset %}{{ t }}{{ {'a': [cs[1]]} }}",
     "{{ 2 ** 10 }}{{ 'ab' * 3 }}{{ 7 % 4 }}{{ cs + ['d'] }}{% for x in nothing %}{% endfor %}"],
)  # fmt: skip
def test_texts_within_the_bounds_equal_the_harness(template: str):
    doc = {"cs": ["a", "b", "c"], "d": {"k": 1}, "nothing": []}
    assert render(template, doc) == lm_eval.utils.apply_template(template, doc)
