"""Judges by name; none of them loads anything heavy by itself."""

import subprocess
import sys

import pytest

from evalcard.errors import UserError
from evalcard.tasks.judges.registry import JUDGES, parse_judge


@pytest.mark.parametrize("name", [name for name in JUDGES if name != "regex="])
def test_known_names(name: str):
    assert parse_judge(f" {name} ").name == name


def test_a_pattern_keeps_its_spaces():
    assert parse_judge("regex=Total: ").name == "regex=Total: "


def test_an_unknown_name():
    with pytest.raises(UserError, match="'bleu'.*math, number, choice, exact, contains and regex=PATTERN"):
        parse_judge("bleu")


def test_a_pattern_that_is_none():
    with pytest.raises(UserError, match=r"regex=\(5 is no regular expression: .*unterminated"):
        parse_judge("regex=(5")
    with pytest.raises(UserError, match="names no pattern"):
        parse_judge("regex=")


def test_judging_plain_answers_starts_nothing_heavy():
    code = (
        "import sys; from evalcard.tasks.judges.registry import parse_judge, JUDGES;"
        "from evalcard.tasks.judges.judge import Answer;"
        "[parse_judge(name).judge([Answer('5', ('5',))]) for name in JUDGES if name != 'regex='];"
        "print(' '.join({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"math_verify", "sympy", "torch", "lm_eval", "pandas", "numpy"}
