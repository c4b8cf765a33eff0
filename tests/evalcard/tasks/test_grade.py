"""Verdicts by the task's own filters and metrics; equal to the harness's evaluator."""

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcard.results.records import SCHEMA, Sample, ScoredChoice
from evalcard.tasks.build import build
from evalcard.tasks.data.roots import data_roots
from evalcard.tasks.files.select import select
from evalcard.tasks.grade import cut_at_stops, grade
from evalcard.tasks.harness import HarnessTask
from evalcard.tasks.judges.judge import Answer, Judgement
from evalcard.tasks.scoring import scoring_of


def sample(item_id: int | str, finish: str = "stop", repeat: int = 0, **answer: Any) -> Sample:
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
        assert verdicts(made, sample(0, text="#### 83"))[0].outcome == "correct"

    def test_no_samples(self, task: Callable[..., HarnessTask]):
        assert verdicts(task("toy_sums")) == []


class TestWholeTexts:
    def test_no_mean_no_value(self, task: Callable[..., HarnessTask]):
        made = task("toy_texts")
        (verdict,) = verdicts(made, scored(0, -3.0, -2.5))
        assert verdict.outcome == "no_answer" and {s.value for s in verdict.scores} == {None}


def test_a_mean_behind_a_perplexity(task: Callable[..., HarnessTask], toys: Any, tmp_path: Path):
    text = Path(toys.path("toy_texts")).read_text().replace("loglikelihood_rolling", "loglikelihood")
    text = text.replace("- metric: word_perplexity\n- metric: bits_per_byte", "- metric: perplexity\n- metric: acc")
    text = text.replace("doc_to_text: ''", "doc_to_text: 'Text:'")
    right, wrong = verdicts(
        task("toy_texts", text, tmp_path),
        scored(0, -3.0),
        sample(1, choices=[ScoredChoice(text="x", logprob=-1.0, tokens=3, is_greedy=False)]),
    )
    assert (right.outcome, wrong.outcome) == ("correct", "wrong")
    assert [s.value for s in right.scores if s.metric == "perplexity"] == [None]


class TestStopStrings:
    @pytest.mark.parametrize(
        ("until", "text", "kept"),
        [
            ("Q:", "A: 5 apples. Q: next", "A: 5 apples. "),
            ("Q:", "Quick check: 5", "Quick check: 5"),
            (["."], "Let us think. The answer is (B).", "Let us think"),
            (["</s>", "\n\n", ""], "one\n\ntwo</s>", "one"),
            ([], "all. of it", "all. of it"),
            (None, "all. of it", "all. of it"),
            (["x"], "x", ""),
        ],
    )
    def test_cut(self, until: Any, text: str, kept: str):
        assert cut_at_stops(text, until) == kept

    def test_an_invented_next_question_is_not_read(self, task: Callable[..., HarnessTask]):
        """Models run on after the answer; neither the first #### nor the last number may come from there."""
        text = " so 83.\n#### 83\n\nQuestion: new\nAnswer: 2 * 21 = 42\n#### 42"
        (verdict,) = verdicts(task("toy_sums"), sample(0, text=text))
        assert (verdict.extracted, verdict.outcome) == ("83", "correct")
        assert {(s.filter, s.value) for s in verdict.scores} == {("strict", 1.0), ("last", 1.0)}

    def test_a_scalar_is_one_string(self, task: Callable[..., HarnessTask], toys: Any, tmp_path: Path):
        text = Path(toys.path("toy_sums")).read_text().replace("until:\n  - 'Question:'\n", "until: 'Q:'\n")
        made = task("toy_sums", text, tmp_path)
        assert made.generation["until"] in ("Q:", ["Q:"])
        found = verdicts(made, sample(0, text="Quite so: #### 83 Q: #### 1"), sample(1, text="Q: #### 85"))
        assert [(v.extracted, v.outcome) for v in found] == [("83", "correct"), (None, "no_answer")]


class TestThinking:
    @pytest.mark.parametrize(
        ("text", "finish", "extracted", "outcome"),
        [
            ("<think>#### 12</think>\n#### 83", "stop", "83", "correct"),
            ("maybe #### 12</think> #### 83", "stop", "83", "correct"),
            ("<think>it is #### 83", "length", None, "truncated"),
            ("<think>it is #### 83", "stop", None, "no_answer"),
            ("<think>it is #### 83</think>", "stop", None, "no_answer"),
        ],
    )
    def test_only_what_follows_is_graded(
        self, task: Callable[..., HarnessTask], text: str, finish: str, extracted: str | None, outcome: str
    ):
        (verdict,) = verdicts(task("toy_sums"), sample(0, finish, text=text))
        assert (verdict.extracted, verdict.outcome) == (extracted, outcome)
        assert {s.value for s in verdict.scores} == {1.0 if outcome == "correct" else 0.0}

    def test_a_block_that_the_prompt_opened(self, task: Callable[..., HarnessTask]):
        made = task("toy_sums")
        scoring = scoring_of(made, range(12))
        unended, ended = (
            grade(made, scoring, [sample(0, text=text)], opens_thinking=True)[0]
            for text in ("it is #### 83", "it is 12</think> #### 83")
        )
        assert (unended.outcome, unended.extracted, ended.outcome) == ("no_answer", None, "correct")
        (plain,) = grade(made, scoring, [sample(0, text="it is #### 83")])
        assert plain.outcome == "correct"

    def test_an_empty_text_that_would_be_right_earns_nothing(
        self, task: Callable[..., HarnessTask], toys: Any, tmp_path: Path
    ):
        config = yaml.safe_load(Path(toys.path("toy_sums")).read_text()) | {"doc_to_target": ""}
        del config["filter_list"]
        made = task("toy_sums", yaml.safe_dump(config), tmp_path)
        empty, thought = verdicts(made, sample(0, text=""), sample(0, "length", text="<think>hm"))
        assert (empty.outcome, empty.scores[0].value) == ("correct", 1.0)
        assert (thought.outcome, thought.scores[0].value, thought.extracted) == ("truncated", 0.0, None)

    def test_white_space_is_kept_where_nothing_was_thought(
        self, task: Callable[..., HarnessTask], toys: Any, tmp_path: Path
    ):
        """The harness compares ' 83' with '83' as it stands; so do we, or scores would differ from its own."""
        config = yaml.safe_load(Path(toys.path("toy_sums")).read_text())
        del config["filter_list"], config["metric_list"][0]["regexes_to_ignore"]
        made = task("toy_sums", yaml.safe_dump(config), tmp_path)
        gold = made.golds(0)[0]
        spaced, exact = verdicts(made, sample(0, text=f" {gold}"), sample(0, text=gold))
        assert (spaced.outcome, exact.outcome) == ("wrong", "correct")


@dataclass
class LastWord:
    """A judge that finds the last word right where it is a gold."""

    name: str = "last-word"
    asked: list[list[Answer]] = field(default_factory=list)

    def judge(self, answers: Sequence[Answer]) -> list[Judgement]:
        self.asked.append(list(answers))
        words = [answer.text.split() for answer in answers]
        return [
            Judgement(found[-1] if found else None, bool(found) and found[-1] in one.golds)
            for found, one in zip(words, answers, strict=True)
        ]

    def check_gold(self, gold: str) -> str | None:
        return None


class TestJudged:
    @pytest.fixture
    def judged(self, task: Callable[..., HarnessTask], toys: Any, tmp_path: Path) -> HarnessTask:
        target = "doc_to_target: '{{[answer.split()[-1], \"none\"]}}'"
        text = Path(toys.path("toy_sums")).read_text().replace("doc_to_target: '{{answer}}'", target)
        made = task("toy_sums", text, tmp_path)
        made.judge = LastWord()
        return made

    def test_one_call_and_five_outcomes(self, judged: HarnessTask):
        samples = [
            sample(0, text="it is 83"),
            sample(0, text="it is 84", repeat=1),
            sample(1, text=""),
            sample(2, "length", text="it is"),
            sample(3, "error", text=""),
            sample(4, "length", text="<think>91"),
            sample(5, text="none\nQuestion: 7"),
        ]
        found = verdicts(judged, *samples)
        assert [v.outcome for v in found] == [
            "correct", "wrong", "no_answer", "truncated", "error", "truncated", "correct"]  # fmt: skip
        assert [v.extracted for v in found] == ["83", "84", None, "is", None, None, "none"]
        assert [[s.value for s in v.scores] for v in found] == [[1.0], [0.0], [0.0], [0.0], [], [0.0], [1.0]]
        assert {(s.metric, s.filter) for v in found for s in v.scores} == {("exact_match", "last-word")}
        ((asked,),) = [judged.judge.asked]
        assert [one.text for one in asked] == ["it is 83", "it is 84", "", "it is", "none\n"]
        assert asked[0].golds == ("83", "none") and found[0].target == "83 | none"

    def test_outcomes_sum_to_the_samples(self, judged: HarnessTask):
        texts = ["83", "", "x y", "<think>", "none"]
        samples = [
            sample(item, finish, text=texts[(item + i) % 5], repeat=i)
            for item in range(12)
            for i, finish in enumerate(("stop", "length", "error", "stop_string"))
        ]
        found = verdicts(judged, *samples)
        assert [(v.item_id, v.repeat) for v in found] == [(s.item_id, s.repeat) for s in samples]
        counts = Counter(v.outcome for v in found)
        assert set(counts) == {"correct", "wrong", "no_answer", "truncated", "error"} and counts.total() == 48

    def test_no_answers_ask_for_no_judge(self, judged: HarnessTask):
        assert [v.outcome for v in verdicts(judged, sample(0, "error", text=""))] == ["error"]
        assert [v.outcome for v in verdicts(judged, sample(0, text="<think>"))] == ["no_answer"]

    def test_without_choices_their_number_is_not_known(self, judged: HarnessTask):
        verdicts(judged, sample(0, text="x"))
        assert judged.judge.asked[-1][0].num_choices is None

    @pytest.mark.parametrize("has_letters", [True, False])
    def test_choices_of_a_generated_answer(
        self, task: Callable[..., HarnessTask], toys: Any, tmp_path: Path, has_letters: bool
    ):
        """By doc_to_choice, or where a prompt lists the document's choices itself, by these."""
        config = yaml.safe_load(Path(toys.path("toy_shapes")).read_text()) | {"output_type": "generate_until"}
        config["metric_list"][0]["metric"] = "exact_match"
        if not has_letters:
            config["doc_to_target"] = "{{'ABCD'[answer]}}"
            del config["doc_to_choice"]
        made = task("toy_shapes", yaml.safe_dump(config), tmp_path)
        made.judge = LastWord()
        found = verdicts(made, sample(1, text="I say B"), sample(2, text="I say B"))
        assert [(v.extracted, v.target, v.outcome) for v in found] == [("B", "B", "correct"), ("B", "C", "wrong")]
        assert [one.num_choices for one in made.judge.asked[0]] == [4, 4]

    def test_a_long_answer_is_shown_in_part(self, judged: HarnessTask):
        (verdict,) = verdicts(judged, sample(0, text="9" * 9000))
        assert verdict.extracted == "9" * 500 and verdict.outcome == "wrong"


def test_items_go_by_their_own_names(task: Callable[..., HarnessTask], toys: Any, tmp_path: Path):
    text = Path(toys.path("toy_sums")).read_text()
    text = text.replace("metadata:\n", "metadata:\n  evalcard: {id_field: question}\n")
    made = task("toy_sums", text, tmp_path)
    name = made.docs[3]["question"]
    (verdict,) = grade(made, scoring_of(made, range(12)), [sample(name, text="#### 89")])
    assert (verdict.item_id, verdict.outcome) == (name, "correct")
    with pytest.raises(KeyError):
        grade(made, scoring_of(made, range(12)), [sample("no such item", text="#### 89")])


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
    for prompt in shapes.prompts(range(9), Chat()):
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


FORMS = {
    "demo_words": "so\n#### {}", "demo_maths": "so \\boxed{{{}}}", "gsm8k": "{}", "aime24": "so \\boxed{{{}}}",
    "math500": "so \\boxed{{{}}}",
}  # fmt: skip
"""How an answer is given that each task can read; GSM8K's golds are worked solutions."""
DATA = os.environ.get("EVALCARD_TEST_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="EVALCARD_TEST_DATA names no folder with the data sets")


def shares_right(name: str, shuffles: int) -> tuple[float, float]:
    """Share of right answers when golds are answered to their own items, and on average to each other's."""
    (made,) = build(select([name]), (Path(DATA or "."), *data_roots(None))).tasks
    scoring = scoring_of(made, range(len(made.docs)))
    golds = [made.golds(position)[0] for position in range(len(made.docs))]

    def share(answers: list[str]) -> float:
        found = grade(made, scoring, [sample(i, text=FORMS[name].format(one)) for i, one in enumerate(answers)])
        return sum(one.outcome == "correct" for one in found) / len(found)

    generator = random.Random(20)
    return share(golds), sum(share(generator.sample(golds, len(golds))) for _ in range(shuffles)) / shuffles


class TestGolds:
    @pytest.mark.parametrize("name", ["demo_words", "demo_maths"])
    def test_of_the_demo(self, name: str):
        own, others = shares_right(name, shuffles=20)
        assert own == 1 and others < 0.05

    @needs_data
    @pytest.mark.parametrize(("name", "shuffles"), [("gsm8k", 20), ("aime24", 20), ("math500", 4)])
    def test_of_benchmarks(self, name: str, shuffles: int):
        own, others = shares_right(name, shuffles)
        assert own == 1 and others < 0.05

    def test_of_four_choices(self):
        (made,) = build(select(["demo_knowledge"]), data_roots(None)).tasks
        scoring = scoring_of(made, range(len(made.docs)))
        golds = [made.target(position) for position in range(len(made.docs))]

        def share(answers: list[int]) -> float:
            samples = [scored(i, *(0.0 if j == one else -5.0 for j in range(4))) for i, one in enumerate(answers)]
            return sum(one.outcome == "correct" for one in grade(made, scoring, samples)) / len(golds)

        generator = random.Random(20)
        others = [share(generator.sample(golds, len(golds))) for _ in range(20)]
        assert share(golds) == 1 and abs(sum(others) / 20 - 0.25) < 0.05
