"""Every regular expression of the judges can match (field case 53): one that never does loses answers in silence."""

import importlib
import re

import pytest

from evalcard.tasks.judges.letters import mention_patterns, statement_patterns, strike_patterns

MODULES = [
    "closing", "extraction", "latex", "letters", "number", "numerals", "statement", "surroundings", "thinking",
    "wording", "words",
]  # fmt: skip
EXAMPLES = {
    "closing._BOLD": ["**18**", "**Step 2**:"],
    "closing._SENTENCE_END": ["a. B"],
    "closing._PARENTHESES": ["(2 blue)"],
    "closing._PREPOSITION": ["from ", "in the ", "out of ", "for all these $", "3 to "],
    "closing._PURPOSE": ["hours to clean "],
    "closing._OF_TOTAL": ["a total of ", "a cost of $"],
    "closing._MONEY_AFTER": [" dollars", "\u20ac"],
    "extraction._SPAN": [r"$$x$$", r"\[ x \]", r"\( x \)", "$x$", "$ x $"],
    "extraction._BETWEEN": [", ", " and ", ", or x = "],
    "extraction._ANSWER_MARK": ["#### 5"],
    "extraction._WORD_AHEAD": ["of"],
    "extraction._COMMAND_TEXT": [r"\text{ cm}", r"\begin{pmatrix}"],
    "extraction._POWER": ["^2", "^{2}"],
    "extraction._HAS_SIGN": ["5", "\\"],
    "extraction._SENTENCE": [r"\text{The answer is 460}"],
    "extraction._TEXT_AHEAD": [r"\text{The answer is } 16", r"\text{Area equals: }x"],
    "extraction._PROOF_END": [r"\blacksquare", r"\square.", "\u220e"],
    "extraction._DECIMALS": [r"\frac{5}{3} or 1.67", r"5/3 (approximately 1.67)", r"\sqrt{51}, about 7.1 cm"],
    "extraction._LABEL": ["The area is 5", "Solutions: x = 1", "Area = 5"],
    "extraction._SUM": ["2,000 + 500 = 2,500"],
    "extraction._REASON": ["a because b", "a, so b", "a (b"],
    "latex._SCRIPTS": ["\u00b2", "\u2082"],
    "latex._ONE_EQUATION": [r"\begin{aligned} x &= 4 \end{aligned}", r"\begin{align*}x &= 4\\\end{align*}"],
    "latex._DECIMAL_COMMA": ["0{,}5"],
    "latex._ROOT": ["\u221a2", "\u221b4", "\u221a(x+1)", "\u221a{x}"],
    "latex._SPACING": [r"\,", r"\quad", r"\left", r"\right", "~", r"\displaystyle"],
    "latex._THOUSANDS": [r"10,\!080", "1{,}234", r"1\,234", r"1\ 234"],
    "latex._CURRENCY": ["$", r"\$", "\u20ac"],
    "latex._DEGREE": [r"90^\circ", r"90^{\circ}", r"90\degree"],
    "latex._PERCENT": ["28%", r"28\%", "28 percent", "28 pct", r"28\text{ percent}"],
    "latex._ROOT_OF_PARENTHESES": [r"\sqrt(2)", "3*sqrt(13)"],
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
    "letters._JOINED_BOXES": [r"\boxed{A} and \boxed{B}", r"\boxed{A}$, $\boxed{B}"],
    "letters._TAG": ["<answer>", "</Answer>"],
    "letters._QUOTED": ["'B'", "<B>"],
    "letters._BESIDE_CJK": ["\u9009B", "B\u5bf9"],
    "letters._SIGN": ["Wait, B", "let me recheck", "(A)? No - B", "I made an error"],
    "letters._CONCLUSION": ["so B", "x\n\nThe answer"],
    "number._MARKED": ["#### 5"],
    "number._HEADING": ["1. Count"],
    "numerals._THOUSANDS": [r"10,\!080", "1{,}234", "2\u202f500"],
    "numerals._SPACED_THOUSANDS": ["70 000", "1 234 567"],
    "numerals._KILO": ["70k", "1.5K"],
    "numerals._DECIMAL_COMMA": ["0,5", "0{,}25"],
    "numerals._CURRENCY_WORD": ["Rs. 18", "Rs18", "USD18"],
    "numerals._FRACTION_SIGN": ["\u00bd"],
    "numerals._LATEX_FRACTION": [r"\frac{1}{2}", r"\dfrac{1}{2}"],
    "numerals._NUMBER": ["5", "-5", "$1,234.5", "1 1/2", "2/3", "1e3", r"2 \times 10^{3}"],
    "statement._BRACES": [r"\boxed{", r"\fbox {", "{", "}", r"\{"],
    "statement._BARE_BOX": [r"\boxed 5"],
    "statement._BOX_AT_END": [r"it is \boxed"],
    "statement._JOIN": ["$ and $", ", ", r"\) or \("],
    "statement._QUESTION": ["Question: x", "\nQ: x", "Problem 2. x", "**Question 3:**"],
    "statement._ANSWER": ["answer is", "Answer:", "**Answer:**", "answer to it is", "answers are", "answer = "],
    "statement._SENTENCE_END": ["a. B", "a."],
    "surroundings._STARTS": ["= ", "$", r"\(", "is "],
    "surroundings._ENDS": ["$", " eggs", r"\)"],
    "surroundings._OPERATOR_BEFORE": ["-", r"2\cdot ", r"x +", "2^"],
    "surroundings._OPERATOR_AFTER": ["/4", "^2", r"\times 4", "- 1"],
    "surroundings._DASH": [" - "],
    "surroundings._NUMBER": ["18", r"\frac{1}{2}"],
    "thinking._TAG": ["<think>", "< think>", "</Reasoning>", "\u25c1think\u25b7", "</seed:think>", "[/THINK]"],
    "thinking._BLANK": [" \n"],
    "thinking._GLUED_ANALYSIS": ["analysisWe"],
    "thinking._FINAL_WORD": ["assistantfinal"],
    "thinking._FINAL_CHANNEL": ["<|channel|>final<|message|>", "<|channel|>final <|constrain|>json<|message|>"],
    "wording._DENIED": [
        "is not 18",
        "isn't $18",
        r"cannot be \boxed{4}",
        "don't think it is 18",
        "false that it is 18",
    ],
    "wording._NEGATIVE": ["negative 18", "negative $18"],
    "wording._MINUS": ["is minus 18", "= - 18", "minus 18"],
    "wording._SCALED": ["2.5 million", "70 thousand"],
    "wording._COURTESY": ["x.\nLet me know if 2", "x. I hope that helps!"],
    "words._UNSPACED_SIGN": ["\u6771", "\uc11c"],
    "words._ARTICLE": ["the x", "a x"],
    "words._TEXT_COMMAND": [r"\text{France}"],
    "words._MARKED": ["#### France"],
}
STATEMENTS = {
    "answer is": ["The answer is B", "\u7b54\u6848\u662f B", "Answer: B", "correct option is (B)", "answer (B)"],
    "nothing else": ["b", "(B).", "option B"],
    "start": ["b. 4", "(B) 4"],
    "start of a line": ["B\nIt floats"],
    "start of a reason": ["B because it floats", "B - it floats"],
    "choose": ["I would pick B", "go with option B", "lean towards B", "\u9009 B"],
    "is correct": ["B is correct", "(B) is the best answer", "B) Paris is correct"],
    "so it is": ["Thus B.", "It should be B."],
}
STRIKES = {
    "supposed": ["If it had asked for less, it would be B", "B would need x", "B would be it if x were 2"],
    "label": ["A. Rome", "x\nA) Rome"],
    "denied": ["not B", "isn't option B", "B is wrong", "A) Rome is incorrect", "doubt that B", "ruled out B"],
    "together": ["A or B", "A, B", "(A) and (B)", "A/B", "A\n\nB"],
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
    assert strike_patterns(4).keys() == STRIKES.keys()


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


@pytest.mark.parametrize("name", STRIKES)
def test_pattern_strikes(name: str):
    for example in STRIKES[name]:
        assert strike_patterns(4)[name].search(example), (name, example)
