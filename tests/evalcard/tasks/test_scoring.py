"""By what a task is judged: its metric and filter, or its judge; category and chance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evalcard.tasks.build import build
from evalcard.tasks.files.select import select
from evalcard.tasks.harness import HarnessTask
from evalcard.tasks.judges.judge import Answer, Judgement
from evalcard.tasks.scoring import category_of, judge_of, scoring_of


@dataclass
class Judge:
    name: str = "number"

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        raise AssertionError("nothing is judged here")

    def check_gold(self, gold: str) -> str | None:
        return None


@pytest.fixture
def task(toys: Any, tmp_path: Path) -> Callable[..., HarnessTask]:
    """A toy task, its file changed by replacements."""

    def make(name: str, *changes: tuple[str, str]) -> HarnessTask:
        text = Path(toys.path(name)).read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        (made,) = build(select([str(path)]), (toys.data_root,)).tasks
        return made

    return make


def test_multiple_choice(task: Callable[..., HarnessTask]):
    found = scoring_of(task("toy_shapes"), range(9))
    assert (found.metric, found.filter, found.chance, found.category) == ("acc", "none", 0.25, "Other")
    assert found.higher_is_better and found.is_mean and found.notes == ()


def test_a_mean_is_preferred_to_what_has_no_value_for_an_item(task: Callable[..., HarnessTask]):
    made = task(
        "toy_texts", ("loglikelihood_rolling", "loglikelihood"), ("doc_to_text: ''", "doc_to_text: 'Text:'"),
        ("- metric: word_perplexity\n- metric: bits_per_byte", "- metric: perplexity\n- metric: acc"),
    )  # fmt: skip
    found = scoring_of(made, range(4))
    assert found.metric == "acc" and found.is_mean and "judged by acc" in found.notes[0]
    whole = scoring_of(task("toy_texts"), range(4))
    assert not whole.is_mean and whole.metric == "word_perplexity" and "no mean over items" in whole.notes[0]


def test_filters_over_several_answers_are_left_out(task: Callable[..., HarnessTask]):
    maj = "filter_list:\n- name: maj@8\n  filter:\n  - {function: take_first_k, k: 8}\n  - function: majority_vote\n"
    made = task("toy_sums", ("filter_list:\n", maj + "  - function: take_first\n"))
    found = scoring_of(made, range(3))
    assert found.filter == "strict" and "maj@8 need several answers" in found.notes[0]


def test_the_group_says_by_what_it_pools(task: Callable[..., HarnessTask]):
    made = task("toy_sums")
    made.preferred = ("exact_match", "last")
    assert scoring_of(made, range(3)).filter == "last"
    made.preferred = ("no_such_metric", None)
    assert (scoring_of(made, range(3)).metric, scoring_of(made, range(3)).filter) == ("exact_match", "strict")


def test_the_files_word_on_category_and_chance(task: Callable[..., HarnessTask]):
    made = task("toy_shapes", ("metadata:\n", "metadata:\n  evalcard: {category: Shapes, chance: 0.5}\n"))
    found = scoring_of(made, range(9))
    assert (found.category, found.chance) == ("Shapes", 0.5)


@pytest.mark.parametrize(
    ("name", "category"),
    [("mmlu_law", "Knowledge"), ("gsm8k", "Maths"), ("demo_maths", "Maths"), ("demo_words", "Maths"),
     ("demo_knowledge", "Knowledge"), ("aime24", "Maths"), ("team::hellaswag", "Commonsense"), ("zzz", "Other")],
)  # fmt: skip
def test_categories(name: str, category: str):
    assert category_of(name) == category


class TestJudge:
    def test_stands_in_for_filters(self, task: Callable[..., HarnessTask]):
        made = task("toy_sums")
        assert judge_of(made) is None
        made.judge = Judge()
        found = scoring_of(made, range(3))
        assert judge_of(made) is made.judge
        assert (found.metric, found.filter, found.is_mean, found.higher_is_better) == (
            "exact_match", "number", True, True)  # fmt: skip
        assert found.chance == 0.0

    @pytest.mark.parametrize("change", [("aggregation: mean", "aggregation: perplexity"),
                                        ("higher_is_better: true", "higher_is_better: false")])  # fmt: skip
    def test_a_metric_that_is_no_share_of_right_answers_lends_no_name(
        self, task: Callable[..., HarnessTask], change: tuple[str, str]
    ):
        ignored = "  regexes_to_ignore:\n  - '(?s).*#### '\n"
        made = task("toy_sums", change, ("metric: exact_match", "metric: bleu"), (ignored, ""))
        assert made.metrics[0].name == "bleu"
        made.judge = Judge()
        found = scoring_of(made, range(3))
        assert (found.metric, found.is_mean, found.higher_is_better) == ("exact_match", True, True)

    def test_scored_tasks_have_no_text_to_read(self, task: Callable[..., HarnessTask]):
        made = task("toy_shapes")
        made.judge = Judge()
        assert judge_of(made) is None and scoring_of(made, range(9)).filter == "none"
