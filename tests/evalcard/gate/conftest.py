"""Comparisons to judge: written by hand from exact scores, and made by compare from scores item by item."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

from evalcard.compare.comparison import compare_run
from evalcard.results.compared import (
    ComparedRow,
    Comparison,
    CompressedScore,
    DifferenceRecord,
    Finding,
    RecoveryRecord,
    ScoreRecord,
)
from evalcard.results.records import ItemScore, RunRecord, Sample, Verdict

Scores = Sequence[float]


def exact_row(task: str, baseline: Fraction, category: str = "general", **compressed: Fraction | None) -> ComparedRow:
    """A row without its items: everything exact, then rounded once; None stands for an undefined recovery."""
    scores = [
        CompressedScore(
            model=slug, scheme=None, score=float(score or 0), stderr=None, lost=None, gained=None, mcnemar_p=None,
            recovery=None if score is None else RecoveryRecord(value=float(100 * score / baseline)),
            difference=DifferenceRecord(value=float((score or 0) - baseline)),
            reason="the baseline scores 0" if score is None else None,
        )
        for slug, score in compressed.items()
    ]  # fmt: skip
    return ComparedRow(task=task, metric="acc", n=500, baseline=ScoreRecord(score=float(baseline), stderr=None),
                       compressed=scores, chance=0.0, category=category, tasks=[task])  # fmt: skip


def of_rows(*rows: ComparedRow, health: Sequence[Finding] = (), **changes: Any) -> Comparison:
    facts = {"schema": 1, "run": "r", "tasks": list(rows), "averages": [], "health": list(health), "verdict": None}
    return Comparison.model_validate(facts | changes)


def counted(n: int, right: int, lost: int, gained: int) -> tuple[Scores, Scores]:
    """Scores of a baseline and a compressed model with these counts, by item."""
    return [1] * right + [0] * (n - right), [0] * lost + [1] * (right - lost) + [1] * gained + [0] * (
        n - right - gained
    )


def run_record(tasks: Mapping[str, Mapping[str, Any]], slugs: Sequence[str], **changes: Any) -> RunRecord:
    """A run over these tasks, each a row, with what differs from the usual."""
    usual = {"source": "file", "version": "1", "metric": "acc", "filter": "none", "category": "general", "chance": 0.0,
             "higher_is_better": True, "num_fewshot": 0, "repeats": 1, "decoding": "greedy", "chat_template": False,
             "selection": "all", "items_total": 1, "items_selected": 1}  # fmt: skip
    models = [
        {"slug": slug, "role": "compressed" if place else "baseline", "name": f"org/{slug}", "hub_id": None,
         "revision": None, "scheme": None, "weights_digest": slug, "tokenizer_digest": "t", "template_digest": None,
         "numerics": "n"}
        for place, slug in enumerate(slugs)
    ]  # fmt: skip
    facts = {"schema": 1, "name": "made-up", "created": "2026-01-01T00:00:00+00:00", "finished": "2026-01-02",
             "asked": {}, "resolved": {}, "models": models, "progress": [], "versions": {}, "hardware": {}, "seed": 1,
             "tasks": [{"name": name, **usual, **facts} for name, facts in tasks.items()],
             "rows": [{"name": name, "tasks": [name], "rule": "task"} for name in tasks],
             "command": [], "git": None}  # fmt: skip
    return RunRecord.model_validate(facts | changes)


def compared(
    rows: Mapping[str, Sequence[Scores]],
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    slugs: Sequence[str] = (),
    cut: int = 0,
) -> tuple[RunRecord, Comparison]:
    """A run as compare sees it; ``rows`` holds the baseline's scores by item, then each compressed model's.

    The last ``cut`` answers of everyone hit the token limit.
    """
    names = ["base", *(slugs or ["small"])]
    sizes = {task: {"items_total": len(scores[0]), "items_selected": len(scores[0])} for task, scores in rows.items()}
    run = run_record({task: size | dict((facts or {}).get(task, {})) for task, size in sizes.items()}, names)
    verdicts: dict[str, dict[str, list[Verdict]]] = {slug: {} for slug in names}
    samples: dict[str, dict[str, list[Sample]]] = {slug: {} for slug in names}
    for task, each in rows.items():
        for slug, scores in zip(names, each, strict=True):
            verdicts[slug][task] = [_verdict(item, float(score)) for item, score in enumerate(scores)]
            samples[slug][task] = [_sample(slug, task, item, item >= len(scores) - cut) for item in range(len(scores))]
    return run, compare_run(run, verdicts, samples)


def _verdict(item: int, score: float) -> Verdict:
    scores = [ItemScore(metric="acc", filter="none", value=score)]
    return Verdict(item_id=item, repeat=0, extracted="x", target="x", outcome="correct" if score else "wrong",
                   scores=scores)  # fmt: skip


def _sample(slug: str, task: str, item: int, is_cut: bool) -> Sample:
    facts = {"schema": 1, "key": f"{slug}{task}{item}", "task": task, "task_version": "1", "item_id": item,
             "item_hash": f"item{item}", "repeat": 0, "prompt_hash": f"prompt{item}", "prompt_tokens": 1, "text": "x",
             "finish": "length" if is_cut else "stop", "output_tokens": 1}  # fmt: skip
    return Sample.model_validate(facts)


@pytest.fixture(scope="session")
def row() -> Callable[..., ComparedRow]:
    return exact_row


@pytest.fixture(scope="session")
def comparison() -> Callable[..., Comparison]:
    return of_rows


@pytest.fixture(scope="session")
def counts() -> Callable[..., tuple[Scores, Scores]]:
    return counted


@pytest.fixture(scope="session")
def compare() -> Callable[..., tuple[RunRecord, Comparison]]:
    return compared


@pytest.fixture(scope="session")
def record() -> Callable[..., RunRecord]:
    return run_record


@pytest.fixture(scope="session")
def finding() -> Callable[..., Finding]:
    def make(severity: str, model: str | None = None, row: str | None = None, **changes: Any) -> Finding:
        facts = {"finding": "Something is odd.", "severity": severity, "where": "here", "advice": "Look."}
        return Finding.model_validate(facts | {"model": model, "row": row} | changes)

    return make
