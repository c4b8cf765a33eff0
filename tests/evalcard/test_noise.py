"""Asked again in another order: what is counted, and that nothing of it is kept."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends.backend import ChoiceAnswer, ItemAnswer
from evalcard.evaluate import evaluate
from evalcard.noise import check_noise
from evalcard.progress import Silent
from evalcard.results.records import NoiseRecord
from evalcard.results.store import RunFolder
from evalcard.tasks.prepare import prepare


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.open(tmp_path, "run") as made:
        yield made


class Moody:
    """Says what ``first`` says, and from the second call on what ``second`` says."""

    def __init__(self, first: Callable, second: Callable) -> None:
        self.rules, self.backend = [first, second], None

    def __call__(self, item: Any) -> Any:
        return self.rules[min(self.backend.calls - 1, 1)](item)


@pytest.fixture
def checked(toy_spec: Callable, fake_backend: Callable, folder: RunFolder) -> Callable[..., Any]:
    """Evaluate, then check: (noise records, backend)."""

    def check(first: Callable, second: Callable, count: int | None = 4, keep: Any = None, **changes: Any) -> Any:
        spec = toy_spec("toy_mc", "toy_sums", noise_check=count, **changes)
        prepared = prepare(spec)
        rule = Moody(first, second)
        backend = rule.backend = fake_backend(answer_of=rule)
        run = evaluate(spec, spec.baseline, "m", prepared, backend, folder)
        samples = {task: [s for s in given if keep is None or keep(s)] for task, given in run.samples.items()}
        tokenizer = prepared.tokenizer(spec, spec.baseline)
        return check_noise(spec, prepared, tokenizer, backend, samples, run.verdicts, Silent()), backend

    return check


def say(text: str, finish: str = "stop") -> Callable[[Any], Any]:
    """Sums are answered with a text; of choices the first is the likeliest."""

    def answer(item: Any) -> Any:
        if item.task == "toy_sums":
            return ItemAnswer(finish, text=text, token_ids=(5,), output_tokens=1)
        return ItemAnswer("stop", choices=tuple(ChoiceAnswer(-1.0 - i, 1, i == 0) for i in range(4)))

    return answer


def records(**counts: tuple[int, int, int]) -> list[NoiseRecord]:
    return [NoiseRecord(task=t, answers=n, differing=d, flipped=f) for t, (n, d, f) in counts.items()]


RIGHT = "#### 83"
"""The first item's sum, 40 + 43."""


def test_equal_answers(checked: Callable, folder: RunFolder):
    found, backend = checked(say(RIGHT), say(RIGHT))
    assert found == records(toy_colours=(4, 0, 0), toy_shapes=(4, 0, 0), toy_sums=(4, 0, 0))
    assert backend.calls == 2 and len(backend.asked) == 26 + 12


def test_the_first_items_are_asked_in_reversed_order(checked: Callable):
    _, backend = checked(say(RIGHT), say(RIGHT), count=2)
    given = backend.asked[26:][::-1]  # the fake answers from the end
    assert [(item.task, item.item_id) for item in given] == [
        ("toy_sums", 1), ("toy_sums", 0), ("toy_shapes", 1), ("toy_shapes", 0), ("toy_colours", 1), ("toy_colours", 0),
    ]  # fmt: skip


def test_a_changed_text_with_the_same_score_is_a_difference_and_no_flip(checked: Callable):
    found, _ = checked(say(RIGHT), say("So it is 83.\n" + RIGHT))
    assert found[2] == records(toy_sums=(4, 4, 0))[0]


def test_a_changed_score_is_a_flip(checked: Callable):
    """Only the first of the four items has this sum."""
    found, _ = checked(say(RIGHT), say("#### 7"))
    assert found[2] == records(toy_sums=(4, 4, 1))[0]


def test_an_answer_that_fails_the_second_time_scores_nothing(checked: Callable):
    found, _ = checked(say(RIGHT), say("", finish="error"))
    assert found[2] == records(toy_sums=(4, 4, 1))[0]


def test_choices_differ_by_their_log_probabilities(checked: Callable):
    """A last digit is a difference; another likeliest choice is a flip where one of the two is right."""

    def nudged(item: Any) -> Any:
        answer = say(RIGHT)(item)
        if item.task == "toy_sums":
            return answer
        shift = (1e-6, 0, 0, 0) if item.task == "toy_shapes" else (-9.0, 0, 0, 0)
        choices = [ChoiceAnswer(c.logprob + s, 1, False) for c, s in zip(answer.choices, shift, strict=True)]
        return ItemAnswer("stop", choices=tuple(choices))

    found, _ = checked(say(RIGHT), nudged)
    # Right answers go A, B, C, D; A is preferred at first and B afterwards, so the first two items flip.
    assert found == records(toy_colours=(4, 4, 2), toy_shapes=(4, 4, 0), toy_sums=(4, 0, 0))


def test_more_than_there_is(checked: Callable):
    found, _ = checked(say(RIGHT), say(RIGHT), count=1000)
    assert [one.answers for one in found] == [5, 9, 12]


def test_repeats_are_asked_once(checked: Callable):
    found, backend = checked(say(RIGHT), say(RIGHT), repeats=3, temperature=0.5)
    assert {one.task: one.answers for one in found}["toy_sums"] == 4
    assert {item.repeat for item in backend.asked[-12:]} == {0}


def test_a_run_that_stopped_early_asks_what_it_answered(checked: Callable):
    found, _ = checked(say(RIGHT), say(RIGHT), keep=lambda sample: sample.task == "toy_sums" and sample.item_id > 9)
    assert found == records(toy_sums=(2, 0, 0))


def test_no_check_asks_nothing(checked: Callable):
    found, backend = checked(say(RIGHT), say(RIGHT), count=None)
    assert found == [] and backend.calls == 1


def test_nothing_is_stored(checked: Callable, folder: RunFolder):
    checked(say(RIGHT), say("#### 7"))
    stored = folder.journal("m", "toy_sums").read().values()
    assert {sample.text for sample in stored} == {RIGHT}
    assert len(list((folder.path / "samples" / "m").glob("toy_sums*"))) == 1


def test_another_model_is_refused(checked: Callable, toy_spec: Callable, fake_backend: Callable, folder: RunFolder):
    """Noise between two models would be no noise."""
    spec = toy_spec("toy_sums", noise_check=2)
    prepared = prepare(spec)
    run = evaluate(spec, spec.baseline, "m", prepared, fake_backend(answer_of=say(RIGHT)), folder)
    other = fake_backend(answer_of=say(RIGHT), weights="w1")
    with pytest.raises(AssertionError, match="asked something else"):
        tokenizer = prepared.tokenizer(spec, spec.baseline)
        check_noise(spec, prepared, tokenizer, other, run.samples, run.verdicts, Silent())
