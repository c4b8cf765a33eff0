"""Verdicts by the task's own filters and metrics; equal to the harness's evaluator."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.results.records import SCHEMA, Sample, ScoredChoice
from evalcard.tasks.build import build
from evalcard.tasks.files import select
from evalcard.tasks.grade import category_of, grade, scoring_of
from evalcard.tasks.harness import HarnessTask


def sample(item_id: int, finish: str = "stop", repeat: int = 0, **answer: Any) -> Sample:
    fixed = {"key": "k", "task": "t", "task_version": "1", "item_hash": "h", "prompt_hash": "p", "prompt_tokens": 1}
    return Sample(schema=SCHEMA, item_id=item_id, repeat=repeat, finish=finish, output_tokens=0, **fixed, **answer)


def scored(item_id: int, *logprobs: float | None, finish: str = "stop") -> Sample:
    best = max((one for one in logprobs if one is not None), default=0.0)
    choices = [ScoredChoice(text="x", logprob=one, tokens=1, is_greedy=one == best) for one in logprobs]
    return sample(item_id, finish, choices=choices)


@pytest.fixture
def task(toys: Any) -> Callable[..., HarnessTask]:
    def make(name: str, text: str | None = None, folder: Path | None = None) -> HarnessTask:
        path = toys.path(name)
        if text is not None and folder is not None:
            path = str(folder / f"{name}.yaml")
            Path(path).write_text(text)
        (made,) = build(select([path]), (toys.data_root,)).tasks
        return made

    return make


def verdicts(task: HarnessTask, *samples: Sample) -> list[Any]:
    return grade(task, scoring_of(task, range(len(task.docs))), samples)


class TestMultipleChoice:
    def test_outcomes(self, task: Callable[..., HarnessTask]):
        likeliest_b = (-3.0, -1.0, -4.0, -5.0)
        right, wrong = verdicts(task("toy_shapes"), scored(1, *likeliest_b), scored(2, *likeliest_b))
        assert (right.extracted, right.target, right.outcome) == ("B", "B", "correct")
        assert (wrong.extracted, wrong.target, wrong.outcome) == ("B", "C", "wrong")
        assert [(s.metric, s.filter, s.value) for s in right.scores + wrong.scores] == [
            ("acc", "none", 1.0), ("acc", "none", 0.0)]  # fmt: skip

    def test_scoring(self, task: Callable[..., HarnessTask]):
        found = scoring_of(task("toy_shapes"), range(9))
        assert (found.metric, found.filter, found.chance, found.category) == ("acc", "none", 0.25, "Other")
        assert found.higher_is_better and found.is_mean and found.notes == ()

    def test_logits_that_were_not_finite(self, task: Callable[..., HarnessTask]):
        fine, broken = verdicts(
            task("toy_shapes"), scored(0, -1.0, -2.0, -3.0, -4.0), scored(1, -1.0, None, -2.0, -3.0, finish="error")
        )
        assert (fine.outcome, broken.outcome, broken.extracted, broken.scores) == ("correct", "error", None, [])
        assert broken.target == "B"

    def test_length_normalised_choice(self, task: Callable[..., HarnessTask], toys: Any, tmp_path: Path):
        text = Path(toys.path("toy_shapes")).read_text().replace("metric: acc", "metric: acc_norm")
        text = text.replace("doc_to_choice:\n- A\n- B\n- C\n- D\n", "doc_to_choice: ['a', 'bbbb', 'c', 'd']\n")
        (verdict,) = verdicts(task("toy_shapes", text, tmp_path), scored(1, -1.5, -2.0, -3.0, -3.0))
        assert (verdict.extracted, verdict.outcome) == ("bbbb", "correct")


class TestGenerated:
    @pytest.mark.parametrize(
        ("text", "finish", "extracted", "outcome"),
        [
            (" 40 + 43 = 83\n#### 83", "stop", "83", "correct"),
            (" 40 + 43 = 82\n#### 82", "stop", "82", "wrong"),
            (" 83", "stop", None, "no_answer"),
            ("", "stop", None, "no_answer"),
            (" 83", "length", None, "truncated"),
            (" #### 1", "length", "1", "truncated"),
            (" #### 83", "length", "83", "correct"),
            ("", "error", None, "error"),
        ],
    )
    def test_outcomes(
        self, task: Callable[..., HarnessTask], text: str, finish: str, extracted: str | None, outcome: str
    ):
        (verdict,) = verdicts(task("toy_sums"), sample(0, finish, text=text))
        assert (verdict.extracted, verdict.outcome) == (extracted, outcome)
        assert verdict.target.endswith("#### 83")

    def test_every_filter_scores(self, task: Callable[..., HarnessTask]):
        (verdict,) = verdicts(task("toy_sums"), sample(0, text="it is 83"))
        assert {(s.filter, s.value) for s in verdict.scores} == {("strict", 0.0), ("last", 1.0)}

    def test_repeats_are_graded_by_themselves(self, task: Callable[..., HarnessTask]):
        samples = [sample(0, repeat=r, text=f"#### {83 + r % 2}") for r in range(4)]
        assert [v.outcome for v in verdicts(task("toy_sums"), *samples)] == ["correct", "wrong"] * 2
        assert [v.repeat for v in verdicts(task("toy_sums"), *samples)] == [0, 1, 2, 3]

    def test_filters_over_several_answers_are_left_out(
        self, task: Callable[..., HarnessTask], toys: Any, tmp_path: Path
    ):
        text = Path(toys.path("toy_sums")).read_text().replace(
            "filter_list:\n",
            "filter_list:\n- name: maj@8\n  filter:\n  - {function: take_first_k, k: 8}\n  - function: majority_vote\n"
            "  - function: take_first\n",
        )  # fmt: skip
        made = task("toy_sums", text, tmp_path)
        found = scoring_of(made, range(3))
        assert found.filter == "strict" and "maj@8 need several answers" in found.notes[0]
        assert verdicts(made, sample(0, text="#### 83"))[0].outcome == "correct"

    def test_no_samples(self, task: Callable[..., HarnessTask]):
        assert verdicts(task("toy_sums")) == []


class TestWholeTexts:
    def test_no_mean_no_value(self, task: Callable[..., HarnessTask]):
        made = task("toy_texts")
        found = scoring_of(made, range(4))
        assert not found.is_mean and "no mean over items" in found.notes[0] and found.metric == "word_perplexity"
        (verdict,) = verdicts(made, scored(0, -3.0, -2.5))
        assert verdict.outcome == "no_answer" and {s.value for s in verdict.scores} == {None}


class TestScoring:
    def test_a_mean_behind_a_perplexity(self, task: Callable[..., HarnessTask], toys: Any, tmp_path: Path):
        text = Path(toys.path("toy_texts")).read_text().replace("loglikelihood_rolling", "loglikelihood")
        text = text.replace("- metric: word_perplexity\n- metric: bits_per_byte", "- metric: perplexity\n- metric: acc")
        text = text.replace("doc_to_text: ''", "doc_to_text: 'Text:'")
        made = task("toy_texts", text, tmp_path)
        found = scoring_of(made, range(4))
        assert found.metric == "acc" and "judged by acc" in found.notes[0]
        right, wrong = verdicts(made, scored(0, -3.0), sample(1, choices=[
            ScoredChoice(text="x", logprob=-1.0, tokens=3, is_greedy=False)]))  # fmt: skip
        assert (right.outcome, wrong.outcome) == ("correct", "wrong")
        assert [s.value for s in right.scores if s.metric == "perplexity"] == [None]

    def test_the_group_says_by_what_it_pools(self, task: Callable[..., HarnessTask]):
        made = task("toy_sums")
        made.preferred = ("exact_match", "last")
        assert scoring_of(made, range(3)).filter == "last"
        made.preferred = ("no_such_metric", None)
        assert (scoring_of(made, range(3)).metric, scoring_of(made, range(3)).filter) == ("exact_match", "strict")

    def test_the_files_word_on_category_and_chance(self, task: Callable[..., HarnessTask], toys: Any, tmp_path: Path):
        text = Path(toys.path("toy_shapes")).read_text()
        text = text.replace("metadata:\n", "metadata:\n  evalcard: {category: Shapes, chance: 0.5}\n")
        found = scoring_of(task("toy_shapes", text, tmp_path), range(9))
        assert (found.category, found.chance) == ("Shapes", 0.5)

    @pytest.mark.parametrize(
        ("name", "category"),
        [("mmlu_law", "Knowledge"), ("gsm8k", "Maths"), ("demo_maths", "Maths"), ("demo_words", "Maths"),
         ("demo_knowledge", "Knowledge"), ("aime24", "Maths"), ("team::hellaswag", "Commonsense"), ("zzz", "Other")],
    )  # fmt: skip
    def test_categories(self, name: str, category: str):
        assert category_of(name) == category


def test_scores_equal_the_harness(toys: Any, task: Callable[..., HarnessTask]):
    """One model, both evaluators: the same mean of the same metrics."""
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class Model(LM):
        def loglikelihood(self, requests: list[Any]) -> list[Any]:
            return [(-float((13 * len(one.args[0]) + 7 * ord(one.args[1][-1])) % 11), False) for one in requests]

        def loglikelihood_rolling(self, requests: list[Any]) -> list[Any]:
            raise AssertionError

        def generate_until(self, requests: list[Any]) -> list[Any]:
            return [f" #### {83 + i * (i % 3)}" for i, _ in enumerate(requests)]

    manager = TaskManager(include_defaults=False, include_path=str(toys.harness_folder))
    theirs: Any = lm_eval.simple_evaluate(
        model=Model(), tasks=["toy_shapes", "toy_sums"], task_manager=manager, bootstrap_iters=0
    )
    shapes, sums = task("toy_shapes"), task("toy_sums")
    shapes.set_fewshot(None, 1234)
    from evalcard.tasks.harness import Chat

    model = Model()
    answers = []
    for prompt in shapes.prompts(9, Chat()):
        pairs = model.loglikelihood([type("R", (), {"args": one}) for one in prompt.arguments])
        answers.append(scored(prompt.item_id, *(pair[0] for pair in pairs)))
    found = verdicts(shapes, *answers)
    mean = sum(v.scores[0].value for v in found) / len(found)
    assert mean == theirs["results"]["toy_shapes"]["acc,none"] and 0 < mean < 1
    found = verdicts(sums, *(sample(i, text=text) for i, text in enumerate(model.generate_until([0] * 12))))
    for name in ("strict", "last"):
        values = [s.value for v in found for s in v.scores if s.filter == name]
        assert sum(values) / 12 == theirs["results"]["toy_sums"][f"exact_match,{name}"] > 0


def test_grading_needs_no_torch(toys: Any):
    code = (
        "import sys; from pathlib import Path; from evalcard.spec import make_spec;"
        "from evalcard.tasks.prepare import prepare_tasks; from evalcard.tasks.grade import grade;"
        f"task, root = {toys.path('toy_all')!r}, {str(toys.data_root)!r};"
        "spec = make_spec({'baseline': 'a/b', 'tasks': [task], 'data_root': root});"
        "tasks, rows, notes = prepare_tasks(spec); grade(tasks[-1].task, tasks[-1].scoring, []);"
        "print(len(tasks), {n.partition('.')[0] for n in sys.modules} & {'torch', 'transformers', 'triton'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "3 set()", done.stderr
