"""Shots from a file of one's own: never the item, never its question again (case 65)."""

from collections import Counter
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.own.sampler import OtherQuestions


def docs(*prompts: str) -> list[dict[str, Any]]:
    return [{"id": number, "prompt": prompt} for number, prompt in enumerate(prompts)]


@pytest.mark.parametrize("seed", range(20))
def test_neither_the_item_nor_its_question(seed: int):
    rows = docs("a", "b", "a", "c", "a", "d")
    sampler = OtherQuestions(rows, rnd=seed)
    for row in rows:
        drawn = sampler.sample(3, eval_doc=row)
        assert len(drawn) == 3 and len({one["id"] for one in drawn}) == 3
        assert row["prompt"] not in {one["prompt"] for one in drawn}


def test_case_65_three_documents_two_shots():
    rows = docs("a", "b", "c")
    for row in rows:
        drawn = OtherQuestions(rows, rnd=1234).sample(2, eval_doc=row)
        assert {one["prompt"] for one in drawn} == {"a", "b", "c"} - {row["prompt"]}
    with pytest.raises(UserError, match="3 shots were asked for, but the data file has 2 rows"):
        OtherQuestions(rows, rnd=1234).sample(3, eval_doc=rows[0])


def test_every_other_row_is_drawn_as_often():
    rows = docs("a", "a", "b", "c", "d")
    sampler = OtherQuestions(rows, rnd=7)
    counts = Counter(tuple(one["prompt"] for one in sampler.sample(2, eval_doc=rows[0])) for _ in range(3000))
    assert len(counts) == 6  # ordered pairs of b, c, d
    assert all(400 < count < 600 for count in counts.values())  # 500 each; five standard deviations are 102


def test_the_same_seed_draws_the_same():
    rows = docs(*"abcdefgh")
    first, second = (OtherQuestions(rows, rnd=3) for _ in range(2))
    assert [first.sample(3, eval_doc=row) for row in rows] == [second.sample(3, eval_doc=row) for row in rows]
    assert len(first.sample(8)) == 8, "without an item every row may be drawn"
