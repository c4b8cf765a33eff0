"""Real golds against themselves, and against each other's places. Needs a folder with the data sets."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from evalcard.tasks.judges.judge import Answer, Judge
from evalcard.tasks.judges.mathematics import MathJudge
from evalcard.tasks.judges.number import NumberJudge

DATA = os.environ.get("EVALCARD_TEST_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="EVALCARD_TEST_DATA names no data root")
FILES = {
    "math500": "HuggingFaceH4/MATH-500/test.jsonl",
    "aime24": "HuggingFaceH4/aime_2024/train.jsonl",
    "gsm8k": "openai/gsm8k/main/test.jsonl",
}
SIZES = {"math500": 500, "aime24": 30, "gsm8k": 1319}


def rows(name: str) -> list[dict[str, Any]]:
    lines = (Path(DATA or "") / FILES[name]).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def golds(name: str) -> list[str]:
    answers = [row["answer"] for row in rows(name)]
    return [answer.rpartition("####")[2].strip() for answer in answers] if name == "gsm8k" else answers


def missed(judge: Judge, texts: list[str], right: list[str]) -> list[tuple[str, str | None]]:
    judged = judge.judge([Answer(text, (gold,)) for text, gold in zip(texts, right, strict=True)])
    return [(gold, one.extracted) for gold, one in zip(right, judged, strict=True) if not one.is_right]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "wrapped",
    [
        "{}",
        r"The answer is \boxed{{{}}}.",
        "So the answer is ${}$.",
        "So the answer is {}.",
        "**Final Answer:** ${}$\n",
    ],
)
def test_every_gold_meets_itself(name: str, wrapped: str):
    right = golds(name)
    assert len(right) == SIZES[name]
    assert missed(MathJudge(), [wrapped.format(gold) for gold in right], right) == []
    assert [MathJudge().check_gold(gold) for gold in right] == [None] * len(right)


@pytest.mark.parametrize("judge", [NumberJudge(), MathJudge()], ids=["number", "math"])
def test_worked_solutions_of_gsm8k_as_replies_and_as_golds(judge: Judge):
    right, solutions = golds("gsm8k"), [row["answer"] for row in rows("gsm8k")]
    assert missed(judge, solutions, right) == []
    assert missed(judge, right, solutions) == []
    assert missed(judge, solutions, solutions) == []


@pytest.mark.parametrize("name", ["math500", "aime24"])
def test_worked_solutions_as_replies(name: str):
    assert missed(MathJudge(), [row["solution"] for row in rows(name)], golds(name)) == []


@pytest.mark.parametrize("name", FILES)
def test_answers_in_other_places_are_wrong(name: str):
    """Under 5 % on average over 20 shuffles; all of them are judged at once, each pair a single time."""
    right, generator = golds(name), random.Random(0)
    answers = []
    for _ in range(20):
        shuffled = generator.sample(right, len(right))
        answers += [Answer(rf"\boxed{{{text}}}", (gold,)) for text, gold in zip(shuffled, right, strict=True)]
    judged = MathJudge().judge(answers)
    assert sum(judgement.is_right for judgement in judged) / len(judged) < 0.05
