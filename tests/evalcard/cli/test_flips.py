"""How one flipped item is shown in 80 columns."""

from typing import Any

import pytest

from evalcard.cli.flips import excerpt, flip_lines, shortened
from evalcard.compare.flips import Flip, Reply
from evalcard.results.records import Sample, ScoredChoice, Verdict


def reply(extracted: str | None = "7", **changes: Any) -> Reply:
    facts = {"schema": 1, "key": "k", "task": "t", "task_version": "1", "item_id": 3, "item_hash": "h", "repeat": 0,
             "prompt_hash": "p", "prompt_tokens": 1, "finish": "stop", "output_tokens": 0, **changes}  # fmt: skip
    verdict = Verdict(item_id=3, repeat=0, extracted=extracted, target="7", outcome="wrong", scores=[])
    return Reply(Sample.model_validate(facts), verdict)


def flip(baseline: Reply, compressed: Reply, **changes: Any) -> Flip:
    facts = {"row": "r", "task": "t", "item_id": 3, "repeat": 0, "direction": "lost", "question": None, "gold": "7"}
    return Flip(**(facts | changes), baseline=baseline, compressed=compressed)


def scored(extracted: str, *logprobs: float | None) -> Reply:
    texts = [" circle", " square", " a cube " + "of many sides " * 9]
    choices = [
        ScoredChoice(text=text, logprob=logprob, tokens=1, is_greedy=False)
        for text, logprob in zip(texts, logprobs, strict=True)
    ]
    return reply(extracted, choices=choices)


def test_the_lines_around_the_answer_are_those_that_matter():
    text = "\n".join(f"line {number}" for number in range(20))
    shown = ["[9 lines before]", "line 9", "line 10", "line 11", "line 12", "line 13", "[6 lines after]"]
    assert excerpt(text, "line 12") == shown
    assert excerpt(text, None) == ["[16 lines before]", "line 16", "line 17", "line 18", "line 19"]
    assert excerpt(text, "not in it") == excerpt(text, None)
    assert excerpt(text, "line 12", is_full=True) == text.split("\n")


def test_the_last_mention_counts():
    assert excerpt("7\n7\nno\nno\nno\n7\nend\nend\nend", "7")[-2:] == ["end", "[2 lines after]"]


def test_a_long_text_loses_its_middle_and_says_how_much():
    assert shortened("a" * 50 + "b" * 900 + "c" * 50, 100) == "a" * 50 + " [... 900 characters ...] " + "c" * 50
    assert shortened("short", 5) == "short"


def test_choices_stand_beside_both_models_log_probabilities():
    lines = list(flip_lines(flip(scored("circle", -1.25, -2.5, -3), scored("square", -2, -1.5, None)), False))
    assert lines[3:5] == ["     -1.250*     -2.000   circle", "     -2.500      -1.500*  square"]
    assert lines[5].startswith("     -3.000           -   a cube of many sides")
    assert lines[6].startswith(" " * 26) and lines[6].strip()
    assert max(map(len, lines)) <= 80


def test_the_pick_is_what_the_metric_picked_and_not_always_the_likeliest():
    lines = list(flip_lines(flip(scored("square", -1, -2, -3), scored("nothing known", -3, -2, -1)), False))
    assert [line.count("*") for line in lines[3:6]] == [0, 1, 1]
    assert lines[4].startswith("     -2.000*")


def test_everything_fits_80_columns():
    long = "word " * 400
    one = reply(long[:500], text=long + "\n" + "x" * 300, output_tokens=256, finish="length")
    two = reply(None, text="", finish="error", fault="layer 12, mlp.down_proj: output not finite")
    found = flip(one, two, question=long + "\n\ttab", gold=long, task="a_task_of_the_group", row="a_group")
    for is_full in (False, True):
        lines = list(flip_lines(found, is_full, "w8a8"))
        assert max(map(len, lines)) <= 80
        assert any("failed: layer 12" in line for line in lines)
        assert lines[0] == "LOST  a_group: a_task_of_the_group, item 3, w8a8"
    assert any("characters ..." in line for line in flip_lines(found, False))
    assert not any("characters ..." in line for line in flip_lines(found, True))


def test_a_repeat_is_named_only_where_there_are_several():
    one, two = reply(text="a"), reply(text="b")
    assert next(flip_lines(flip(one, two), False)) == "LOST  r: t, item 3"
    assert next(flip_lines(flip(one, two, repeat=2, repeats=4), False)) == "LOST  r: t, item 3, repeat 2"


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_reply_is_said_and_not_quoted(text: str | None):
    lines = list(flip_lines(flip(reply(None, text=text), reply(text="7")), False))
    assert "  baseline   no answer found (wrong); ended by itself" in lines
    assert [line for line in lines if line.startswith("    |")] == ["    | 7"]
