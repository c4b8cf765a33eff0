"""Every regular expression of the judges can match (field case 53): one that never does loses answers in silence."""

import importlib
import re

import pytest

from evalcard.tasks.judges.letters import mention_patterns, statement_patterns

MODULES = ["extraction", "latex", "letters", "number", "statement", "thinking", "words"]
EXAMPLES = {
    "extraction._SPAN": [r"$$x$$", r"\[ x \]", r"\( x \)", "$x$", "$ x $"],
    "extraction._BETWEEN": [", ", " and ", ", or x = "],
    "extraction._ANSWER_MARK": ["#### 5"],
    "extraction._WORD_AHEAD": ["of"],
    "extraction._COMMAND_TEXT": [r"\text{ cm}", r"\begin{pmatrix}"],
    "extraction._POWER": ["^2", "^{2}"],
    "extraction._HAS_SIGN": ["5", "\\"],
    "extraction._SENTENCE": [r"\text{The answer is 460}"],
    "latex._SCRIPTS": ["\u00b2", "\u2082"],
    "latex._ROOT": ["\u221a2", "\u221a(x+1)", "\u221a{x}"],
    "latex._SPACING": [r"\,", r"\quad", r"\left", r"\right", "~", r"\displaystyle"],
    "latex._THOUSANDS": [r"10,\!080", "1{,}234", r"1\,234", r"1\ 234"],
    "latex._CURRENCY": ["$", r"\$", "\u20ac"],
    "latex._DEGREE": [r"90^\circ", r"90^{\circ}", r"90\degree"],
    "latex._PERCENT": ["28%", r"28\%", "28 percent", "28 pct", r"28\text{ percent}"],
    "latex._ROOT_OF_PARENTHESES": [r"\sqrt(2)"],
    "latex._MIXED": ["11 5/6", "-1 1/2"],
    "latex._POWER_OF_TEN": ["2e3", "1.5E-4"],
    "latex._UNIT": [r"5\text{ cm}", r"864 \mbox{ inches}^2"],
    "latex._PLAIN_UNIT": ["5 cm^2", "60 miles per hour", "60 km/h"],
    "latex._TEXT_OF_NUMBER": [r"\text{5.4 cents}"],
    "latex._ABOUT": [r"\approx 5", "= 5"],
    "latex._SPACED_THOUSANDS": ["1 000", "12 345 678"],
    "latex._GAP": ["3 4"],
    "latex._BOLD_NUMBER": [r"\textbf{(073)}"],
    "latex._NAMED_THOUSANDS": ["x = 58,500"],
    "latex._NAME": ["x = "],
    "latex._TEXT": [r"\text{east}", r"\operatorname{rank}"],
    "latex._INTEGER": ["12", "-1,234"],
    "latex._DECIMAL": ["1.5", ".5", "1,234.5"],
    "latex._CLOCK": ["12:00", "1:02:03"],
    "latex._IN_BASE": ["204_5", "52_{8}"],
    "latex._WORD": ["ellipse", "New York"],
    "letters._DECORATION": [r"\text{", "**", r"\("],
    "letters._BOX": [r"\boxed{", r"\fbox"],
    "number._THOUSANDS": [r"10,\!080", "1{,}234", "2\u202f500"],
    "number._LATEX_FRACTION": [r"\frac{1}{2}", r"\dfrac{1}{2}"],
    "number._NUMBER": ["5", "-5", "$1,234.5", "1 1/2", "2/3", "1e3", r"2 \times 10^{3}"],
    "number._MARKED": ["#### 5"],
    "number._HEADING": ["1. Count"],
    "statement._BRACES": [r"\boxed{", r"\fbox {", "{", "}", r"\{"],
    "statement._BARE_BOX": [r"\boxed 5"],
    "statement._BOX_AT_END": [r"it is \boxed"],
    "statement._JOIN": ["$ and $", ", ", r"\) or \("],
    "statement._QUESTION": ["Question: x", "\nQ: x", "Problem 2. x", "**Question 3:**"],
    "statement._ANSWER": ["answer is", "Answer:", "**Answer:**", "answer to it is", "answers are", "answer = "],
    "statement._SENTENCE_END": ["a. B", "a."],
    "thinking._TAG": ["<think>", "</seed:think>", "[/THINK]"],
    "thinking._BLANK": [" \n"],
    "thinking._GLUED_ANALYSIS": ["analysisWe"],
    "thinking._FINAL_WORD": ["assistantfinal"],
    "thinking._FINAL_CHANNEL": ["<|channel|>final<|message|>", "<|channel|>final <|constrain|>json<|message|>"],
    "words._ARTICLE": ["the x", "a x"],
    "words._TEXT_COMMAND": [r"\text{France}"],
    "words._MARKED": ["#### France"],
}
STATEMENTS = {
    "answer is": ["The answer is B", "Answer: B", "correct option is (B)", "answer (B)"],
    "nothing else": ["b", "(B).", "option B"],
    "start": ["b. 4", "(B) 4"],
    "start of a line": ["B\nIt floats"],
    "start of a reason": ["B because it floats", "B - it floats"],
    "choose": ["I would pick B", "go with option B"],
    "is correct": ["B is correct", "(B) is the best answer"],
}
MENTIONS = {"marked": ["**B**", "(B)", "**(B)**"], "alone": ["only B fits"]}


def compiled() -> dict[str, re.Pattern[str]]:
    return {
        f"{name}.{variable}": value
        for name in MODULES
        for variable, value in vars(importlib.import_module(f"evalcard.tasks.judges.{name}")).items()
        if isinstance(value, re.Pattern)
    }


def test_every_pattern_has_examples():
    assert compiled().keys() == EXAMPLES.keys()
    assert statement_patterns(4).keys() == STATEMENTS.keys()
    assert mention_patterns(4).keys() == MENTIONS.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_pattern_matches(name: str):
    for example in EXAMPLES[name]:
        assert compiled()[name].search(example), (name, example)


@pytest.mark.parametrize("name", [*STATEMENTS, *MENTIONS])
def test_pattern_finds_its_letter(name: str):
    pattern = {**statement_patterns(4), **mention_patterns(4)}[name]
    for example in {**STATEMENTS, **MENTIONS}[name]:
        found = pattern.search(example)
        assert found and found["letter"].upper() == "B", (name, example)
