"""Rows become questions with right answers, or a fault that names its line."""

from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.data.readers import Row
from evalcard.tasks.own.columns import Table, read_table


def table_of(*rows: dict[str, Any]) -> Table:
    return read_table([Row(f"line {number}", row) for number, row in enumerate(rows, start=1)], "a.jsonl")


def test_what_is_read():
    table = table_of(
        {" Prompt": "p", "TARGET": ["x", 5, "x"], "Id": 7, "system": "s", "more": 1},
        {" Prompt": "q\ud800", "TARGET": True, "Id": "b", "other": 2},
    )
    first, second = table.questions
    assert (first.place, first.text, first.golds, first.id, first.system) == ("line 1", "p", ("x", "5"), 7, "s")
    assert (second.text, second.golds, second.id, second.system) == ("q\ufffd", ("true",), "b", None)
    assert (table.is_prompt, table.ignored, table.mended) == (True, ("more", "other"), ("line 2",))
    assert first.choices is None and first.right == () and not table.counted_from_one


class TestRightChoice:
    @pytest.mark.parametrize(
        ("choices", "answer", "right"),
        [
            (["x", "y"], 0, 0), (["x", "y"], "1", 1), (["x", "y"], "b", 1), (["x", "y"], "B ", 1),
            (["x", "y"], "y", 1),
            (["A", "B"], "B", 1), (["0", "1"], 1, 1), (["3", "4", "5"], "5", 2), ([1, 2], "2", 1),
            (["yes", "no"], "no", 1),
        ],
    )  # fmt: skip
    def test_an_answer_is_found(self, choices: list[Any], answer: Any, right: int):
        row = {"question": "?", "choices": choices, "answer": answer}
        assert table_of(row).questions[0].right == (right,)

    @pytest.mark.parametrize(
        ("choices", "answer", "message"),
        [
            (["B", "A"], "A", r"'A' may mean 'A' \(its text\) or 'B' \(its letter\)"),
            (["1", "2", "3"], 1, r"'1' may mean '1' \(its text\) or '2' \(its index, counted from 0\)"),
            (["x", "x"], "x", "may mean"),
            (["x", "y"], "C", "is none of its 2 choices. Give a letter .A to B., an index .0 to 1."),
            (["x", "y"], 2, "is none of its 2 choices"),
            (["x", "y"], -1, "is none of its 2 choices"),
            (["x"], "A", "it has 1 choices; give 2 to 26"),
            (["x"] * 27, "A", "it has 27 choices"),
            (["x", " "], "A", "one of its choices is empty"),
            ("x, y", "A", "choices must be a list such as"),
            (["x", ["y"]], "A", "choices: it holds .* where one text or number belongs"),
        ],
    )
    def test_an_answer_that_is_not_clear_is_refused(self, choices: Any, answer: Any, message: str):
        good = {"question": "?", "choices": ["x", "y"], "answer": "x"}
        row = {"question": "?", "choices": choices, "answer": answer}
        with pytest.raises(UserError, match=f"a.jsonl, line 2: .*{message}"):
            table_of(good, row)


class TestFaults:
    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([{"question": "q", "anwser": "x"}],
             "no column 'answer' or 'target'; it has 'question', 'anwser'. Rename 'anwser' to 'answer'"),
            ([{"questoin": "q", "answer": "x"}],
             "no column 'question' or 'prompt'; .* Rename 'questoin' to 'question'"),
            ([{"text": "q", "label": "x"}], "no column 'question' or 'prompt'; it has 'text', 'label'. A row needs"),
            ([{}], "no column 'question' or 'prompt'; it has none"),
            ([{"question": "q", "prompt": "p", "answer": "x"}], "both a column 'question' and a column 'prompt'"),
            ([{"question": "q", "answer": "x", "target": "x"}], "both a column 'answer' and a column 'target'"),
            ([{"question": "q", "answer": "x"}, {"question": "q"}], "line 2: it has no 'answer'"),
            ([{"question": "q", "answer": "x"}, {"question": "q", "answer": None}], "line 2: it has no 'answer'"),
            ([{"question": "q", "answer": "x"}, {"question": "q", "answer": ""}], "line 2: it has no 'answer'"),
            ([{"question": "q", "answer": "x"}, {"answer": "x"}], "line 2: it has no 'question'"),
            ([{"question": " ", "answer": "x"}], "line 1: its 'question' is empty"),
            ([{"question": "q", "answer": " "}], "line 1: its answer is empty"),
            ([{"question": "q", "answer": []}], "line 1: its answer is an empty list"),
            ([{"question": "q", "answer": ["x", ""]}], "line 1: its answer is empty"),
            ([{"question": ["q"], "answer": "x"}], "line 1: question: it holds .* where one text or number belongs"),
            ([{"question": "q", "answer": {"a": 1}}], "line 1: answer: it holds"),
            ([{"question": "q", "answer": float("nan")}], "line 1: answer: nan is no number"),
            ([{"question": "q", "answer": "x", "id": 1}, {"question": "q", "answer": "x", "id": "1"}],
             "the id '1' stands in line 1 and in line 2"),
            ([{"question": "q", "answer": "x", "id": 1}, {"question": "q", "answer": "x"}], "line 2: it has no 'id'"),
            ([{"question": "q", "choices": ["x", "y"], "answer": "x"}, {"question": "q", "answer": "x"}],
             "line 2: it has no 'choices'"),
            ([{"question": "q", "choices": ["x", "y", "x "], "answer": "y"}], "line 1: the choice 'x' stands twice"),
        ],
    )  # fmt: skip
    def test_rows(self, rows: list[dict[str, Any]], message: str):
        with pytest.raises(UserError, match=f"a.jsonl.*{message}"):
            table_of(*rows)
