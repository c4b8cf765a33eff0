"""Thinking is taken off before an answer is judged (field case 56)."""

import time

import pytest

from evalcard.tasks.judges.judge import Answer
from evalcard.tasks.judges.registry import parse_judge
from evalcard.tasks.judges.thinking import opens_thinking, without_thinking

PAIRS = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<seed:think>", "</seed:think>"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<think >", "</think >"),
    ("< think>", "</ think>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|thinking|>", "<|/thinking|>"),
    ("<unused94>", "<unused95>"),
]


@pytest.mark.parametrize(
    ("judge", "text", "gold", "is_right"),
    [
        ("number", "<think>maybe 12</think>\nThe answer is 15", "15", True),
        ("number", "<think>maybe 12</think>\nThe answer is 15", "12", False),
        ("number", "maybe 12</think> 15", "15", True),
        ("exact", "<think>USA</think>\nFrance", "France", True),
    ],
)
def test_case_56_the_thinking_is_not_graded(judge: str, text: str, gold: str, is_right: bool):
    kept = without_thinking(text)
    assert kept is not None
    assert parse_judge(judge).judge([Answer(kept, (gold,))])[0].is_right is is_right


def test_case_56_thinking_that_never_ends_leaves_no_answer():
    assert without_thinking("<think>it is 15 ...") is None


@pytest.mark.parametrize(("opening", "closing"), PAIRS)
class TestEveryPairOfTags:
    def test_open_and_closed(self, opening: str, closing: str):
        assert without_thinking(f" {opening}\nit is 3\n{closing}\n\nIt is 4.\n") == "It is 4."

    def test_only_closed(self, opening: str, closing: str):
        assert without_thinking(f"it is 3{closing}It is 4.") == "It is 4."
        assert without_thinking(f"it is 3{closing}It is 4.", opened=True) == "It is 4."

    def test_never_closed(self, opening: str, closing: str):
        assert without_thinking(f"{opening}it is 3") is None
        assert without_thinking(f"Let me see.\n{opening}it is 3") is None

    def test_opened_again_by_the_model(self, opening: str, closing: str):
        assert without_thinking(f"{opening}\nit is 3{closing}4", opened=True) == "4"

    def test_several_blocks(self, opening: str, closing: str):
        text = f"{opening}1{closing}\n{opening}2{closing}First.\n{opening}3{closing}\nSecond."
        kept = without_thinking(text)
        assert kept is not None and kept.split() == ["First.", "Second."]

    def test_a_prompt_that_ends_inside(self, opening: str, closing: str):
        assert opens_thinking(f"user: why?\nassistant: {opening}\n")
        assert opens_thinking(f"why?\n{opening}\nOkay, ")
        assert not opens_thinking(f"why?\n{opening}\n\n{closing}\n\n")

    def test_a_prompt_that_speaks_of_tags(self, opening: str, closing: str):
        assert not opens_thinking(f"Think between {opening} and {closing}, then answer.\nWhy?")
        assert not opens_thinking(f"What does {opening} mean in a template?\nassistant:")


def test_an_open_prompt_and_no_end_is_no_answer():
    assert without_thinking("it is 15, surely", opened=True) is None
    assert without_thinking("it is 15, surely") == "it is 15, surely"


@pytest.mark.parametrize(
    "answer",
    [
        "Write `<think>` first and `</think>` last. 5",
        "The <think> tag opens a block. 5",
        'A model says "<think>" and goes on. 5',
        "It ended with </think> just now. 5",
    ],
)
def test_a_quoted_tag_swallows_nothing(answer: str):
    assert without_thinking(f"<think>hm</think>{answer}") == answer


def test_a_quoted_tag_in_a_reply_without_thinking():
    assert without_thinking("The <think> tag opens a block. 5") == "The <think> tag opens a block. 5"
    assert without_thinking("Close with `</think>`: 5") == "Close with `</think>`: 5"


def test_another_kind_of_tag_does_not_end_a_block():
    assert without_thinking("<think>in XML </thinking> ends it</think>8") == "8"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<think>3</thinking>4", "4"),
        ("<reasoning>3</think>\n4", "4"),
        ("<think>3[/THINK]4", None),
        ("<think>3</thinking>4\n<think>5</think>6", "6"),
    ],
)
def test_another_name_in_the_same_brackets_ends_a_block_that_its_own_never_ends(text: str, kept: str | None):
    assert without_thinking(text) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("analysisWe need 3+1.assistantfinal4", "4"),
        ("analysisWe need 3+1.assistantcommentary hm assistantfinalThe answer is 4.", "The answer is 4."),
        ("analysisWe need 3+1.assistantfinal", ""),
        ("analysisWe need 3+1", None),
        ("analysis of the sum gives 4", "analysis of the sum gives 4"),
        ("The assistantfinal word is 4", "The assistantfinal word is 4"),
        ("<|channel|>analysis<|message|>3+1<|end|><|start|>assistant<|channel|>final<|message|>4", "4"),
        ("<|channel|>analysis<|message|>3+1", None),
    ],
)
def test_channels_of_gpt_oss(text: str, kept: str | None):
    assert without_thinking(text) == kept


@pytest.mark.parametrize(
    "piece", ["<think>", "x <think> ", "</think>", "<think></think>", "`<think>`", "[THINK]", "analysis", " ", "\n"]
)
def test_long_text_is_read_in_one_pass(piece: str):
    text = piece * (200_000 // len(piece))
    start = time.process_time()
    without_thinking(text), without_thinking(text, opened=True), opens_thinking(text)
    assert time.process_time() - start < 3
