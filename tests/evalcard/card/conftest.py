"""A small made-up run: two categories, a task on a subset, a guessing baseline, and one or two compressed models."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from evalcard.compare.comparison import compare_answers
from evalcard.compare.pairing import Answered
from evalcard.results.compared import Comparison, DifferenceRecord, RecoveryRecord
from evalcard.results.records import ModelRecord, RowRecord, RunRecord, SequentialRecord, TaskRecord


def make_task(name: str, n: int, **facts: Any) -> TaskRecord:
    return TaskRecord.model_validate(
        {"name": name, "source": "evalcard", "version": "1.0", "metric": "acc", "filter": "none",
         "category": "knowledge", "chance": 0.25, "higher_is_better": True, "num_fewshot": 0, "repeats": 1,
         "decoding": "scored", "chat_template": False, "items_total": n, "items_selected": n, "selection": "all",
         **facts}
    )  # fmt: skip


def make_model(slug: str, scheme: str | None, **facts: Any) -> ModelRecord:
    return ModelRecord.model_validate(
        {"slug": slug, "role": "compressed" if scheme else "baseline", "name": "acme/toy-1b", "hub_id": "acme/toy-1b",
         "revision": "0123abc", "scheme": scheme, "weights_digest": slug, "tokenizer_digest": "t",
         "template_digest": None, "numerics": "float32; torch 2.13.0+cpu; cpu avx512; rows exact",
         "num_parameters": 1_100_000_000, **facts}
    )  # fmt: skip


MODELS = [
    make_model("toy-1b", None, bits_per_weight=16.0, weight_bytes=2_200_000_000),
    make_model("toy-1b-w8a8", "w8a8", scheme_title="int8 weights per channel, int8 activations per token (dynamic)",
               bits_per_weight=8.125, weight_bytes=1_300_000_000),
    make_model("toy-1b-w4a16", "w4a16", scheme_title="int4 weights in groups of 128, activations unquantized",
               bits_per_weight=4.15625, weight_bytes=900_000_000),
]  # fmt: skip
TASKS = [
    make_task("arc", 200, dataset="allenai/ai2_arc", dataset_config="ARC-Challenge", dataset_split="test"),
    make_task("facts", 120),
    make_task("sums", 40, category="maths", chance=0.0, metric="exact_match", filter="strict-match", num_fewshot=5,
              decoding="greedy, at most 64 tokens", items_total=500, selection="first 40"),
    make_task("riddles", 50, category="riddles"),
]  # fmt: skip
RIGHT = {"arc": 150, "facts": 60, "sums": 20, "riddles": 12}
FLIPS = {"arc": (9, 4), "facts": (3, 3), "sums": (1, 2), "riddles": (2, 1)}
"""(lost, gained); the second compressed model loses one more on each task."""


def answers_of(task: TaskRecord, lost: int, gained: int) -> dict[tuple[int | str, int], Answered]:
    right = RIGHT[task.name]
    values = [0] * lost + [1] * (right - lost) + [1] * gained + [0] * (task.items_selected - right - gained)
    return {
        (item, 0): Answered(value, "correct" if value else "wrong", "stop", f"i{item}", f"p{item}")  # type: ignore[arg-type]
        for item, value in enumerate(values)
    }


@pytest.fixture
def make_case() -> Callable[..., tuple[RunRecord, Comparison]]:
    """A run and its comparison with ``num_compressed`` models; ``changes`` goes to the run's record."""

    def make(num_compressed: int = 1, **changes: Any) -> tuple[RunRecord, Comparison]:
        facts = {
            "schema": 1, "name": "arc-0a1b2c3d", "created": "2026-11-30T10:00:00+00:00",
            "finished": "2026-11-30T10:40:00+00:00", "asked": {},
            "resolved": {"backend": "evalcard", "dtype": "float32", "device": "auto", "base_model": None},
            "models": MODELS[: 1 + num_compressed], "tasks": TASKS,
            "rows": [RowRecord(name=task.name, tasks=[task.name], rule="task") for task in TASKS], "progress": [],
            "versions": {"evalcard": "0.1.0", "torch": "2.13.0"}, "hardware": {"cpu": "Toy CPU", "memory_gib": 16},
            "seed": 1234, "git": {"commit": "feedface", "dirty": False},
            "command": ["/home/someone/venv/bin/evalcard", "run", "--baseline", "acme/toy-1b", "--compressed",
                        "acme/toy-1b:w8a8", "--tasks", "arc,facts,sums,riddles", "--data-root", "/mnt/secret/data"],
            **changes,
        }  # fmt: skip
        run = RunRecord.model_validate(facts)
        answers = {
            model.slug: {
                task.name: answers_of(task, *((0, 0) if i == 0 else (FLIPS[task.name][0] + i - 1, FLIPS[task.name][1])))
                for task in run.tasks
            }
            for i, model in enumerate(run.models)
        }
        return run, compare_answers(run, answers)

    return make


REASONING = [
    make_task("aime24", 30, category="Maths", chance=0.0, metric="exact_match", filter="math", judge="math", repeats=32,
              decoding="sampled, temperature 0.6, top-p 0.95, seed 1234", chat_template=True),
    make_task("gsm8k", 200, category="Maths", chance=0.0, metric="exact_match", filter="strict-match", num_fewshot=5,
              decoding="greedy", items_total=1319, selection="seeded"),
]  # fmt: skip


RIGHT_OF_32 = [32] * 6 + [28] * 4 + [24] * 6 + [12] * 4 + [4] * 4 + [0] * 6
"""Right answers of each of 30 items; 512 of 960, which is 0.533."""


def sampled_answers(lost: int) -> dict[tuple[int | str, int], Answered]:
    """30 items by 32 samples; the easier items lose ``lost`` answers each; what is not right ends in several ways."""
    endings = ["wrong", "wrong", "no_answer", "truncated"]
    answers: dict[tuple[int | str, int], Answered] = {}
    for item, right in enumerate(RIGHT_OF_32):
        for repeat in range(32):
            outcome = "correct" if repeat < right - lost * (right > 8) else endings[repeat % 4]
            finish = "length" if outcome == "truncated" else "stop"
            value = Fraction(outcome == "correct")
            answers[item, repeat] = Answered(value, outcome, finish, f"i{item}", f"p{item}")  # type: ignore[arg-type]
    return answers


def strict_and_flexible(right: int, more: int) -> dict[tuple[int | str, int], Answered]:
    """200 items: ``right`` by the strict filter, ``more`` by the flexible one only."""
    answers: dict[tuple[int | str, int], Answered] = {}
    for item in range(200):
        outcome = "correct" if item < right else "no_answer" if item < right + more else "wrong"
        others = {("exact_match", "flexible-extract"): Fraction(item < right + more)}
        answers[item, 0] = Answered(Fraction(item < right), outcome, "stop", f"i{item}", f"p{item}", others)  # type: ignore[arg-type]
    return answers


@pytest.fixture
def reasoning_case(make_case: Callable[..., tuple[RunRecord, Comparison]]) -> tuple[RunRecord, Comparison]:
    """Repeated and judged answers, a seeded subset, two filters, and answers that ended in every way but an error."""
    rows = [RowRecord(name=task.name, tasks=[task.name], rule="task") for task in REASONING]
    run = make_case(1)[0].model_copy(update={"tasks": REASONING, "rows": rows, "name": "aime24-0a1b2c3d"})
    answers = {
        "toy-1b": {"aime24": sampled_answers(0), "gsm8k": strict_and_flexible(120, 20)},
        "toy-1b-w8a8": {"aime24": sampled_answers(2), "gsm8k": strict_and_flexible(118, 24)},
    }
    return run, compare_answers(run, answers)


@pytest.fixture
def sequential_case(make_case: Callable[..., tuple[RunRecord, Comparison]]) -> tuple[RunRecord, Comparison]:
    """arc and sums stopped as soon as they were decided, facts went through to its end: nothing that supposes a fixed
    number of items is there."""
    ends = {
        "arc": {"limit": 90.0, "items": 1172, "used": 200, "decision": "PASS", "low": 90.4, "high": 103.25},
        "facts": {"limit": 90.0, "items": 120, "used": 120, "decision": "PASS", "low": 100.0, "high": 100.0},
        "sums": {"limit": 90.0, "items": 500, "used": 40, "decision": None, "low": 71.5, "high": None},
    }
    tests = [SequentialRecord(row=name, confidence=0.95, **facts) for name, facts in ends.items()]
    run, _ = make_case()
    totals = {"arc": 1172, "facts": 120, "sums": 500}
    tasks = [task.model_copy(update={"items_total": totals[task.name]}) for task in run.tasks[:3]]
    run, comparison = make_case(tasks=tasks, rows=run.rows[:3])
    rows = []
    for row, test in zip(comparison.tasks, tests, strict=True):
        (score,) = row.compressed
        assert score.recovery is not None and score.difference is not None
        ended = {
            "recovery": RecoveryRecord(value=score.recovery.value, low=test.low, high=test.high),
            "difference": DifferenceRecord(value=score.difference.value),
            "paired": None, "mcnemar_p": None, "sequential": test,
        }  # fmt: skip
        rows.append(row.model_copy(update={"compressed": [score.model_copy(update=ended)]}))
    changes = {"tasks": rows, "averages": [], "overall": None, "health": []}
    tasks = [task.model_copy(update={"items_selected": task.items_total, "selection": "all"}) for task in tasks]
    return run.model_copy(update={"sequential": tests, "tasks": tasks}), comparison.model_copy(update=changes)
