"""A made-up run from scores alone: each task gets its baseline's and its compressed models' scores by item."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from evalcard.compare.comparison import compare_run
from evalcard.results.compared import Comparison
from evalcard.results.records import ItemScore, ModelRecord, RowRecord, RunRecord, Sample, TaskRecord, Verdict
from evalcard.results.stored import StoredModel


@dataclass
class Case:
    """Tables that tests change before they compare; scores are by slug, task, then item or (item, repeat)."""

    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    rows: list[RowRecord] = field(default_factory=list)
    slugs: list[str] = field(default_factory=lambda: ["base", "small"])
    digests: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, dict[str, list[Verdict]]] = field(default_factory=dict)
    samples: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)

    def add(self, name: str, *scores: Sequence[Any], row: bool = True, **facts: Any) -> "Case":
        """One task; ``scores`` holds a list an item list for each slug, a nested list for several repeats."""
        n = max(map(len, scores))
        repeats = len(scores[0][0]) if isinstance(scores[0][0], (list, tuple)) else 1
        self.tasks[name] = TaskRecord.model_validate(
            {"name": name, "source": "file", "version": "1", "metric": "acc", "filter": "none", "category": "general",
             "chance": 0.0, "higher_is_better": True, "num_fewshot": 0, "repeats": repeats, "decoding": "greedy",
             "chat_template": False, "items_total": n, "items_selected": n, "selection": "all", **facts}
        )  # fmt: skip
        if row:
            self.rows.append(RowRecord(name=name, tasks=[name], rule="task"))
        for slug, values in zip(self.slugs, scores, strict=True):
            for item, value in enumerate(values):
                each = value if isinstance(value, (list, tuple)) else [value]
                for repeat, one in enumerate(each):
                    self.answer(slug, name, item, repeat, one)
        return self

    def answer(self, slug: str, name: str, item: int, repeat: int, value: float | None, **changes: Any) -> None:
        """One graded answer; ``changes`` goes to the sample, but ``outcome`` to the verdict."""
        task = self.tasks[name]
        outcome = changes.pop("outcome", "correct" if value else "wrong")
        scores = [ItemScore(metric=task.metric, filter=task.filter, value=None if value is None else float(value))]
        verdict = Verdict(item_id=item, repeat=repeat, extracted="x", target="x", outcome=outcome, scores=scores)
        facts = {"schema": 1, "key": f"{slug}{name}{item}.{repeat}", "task": name, "task_version": "1", "item_id": item,
                 "item_hash": f"item{item}", "repeat": repeat, "prompt_hash": f"prompt{item}", "prompt_tokens": 1,
                 "text": "x", "finish": "stop", "output_tokens": 1, **changes}  # fmt: skip
        self.verdicts.setdefault(slug, {}).setdefault(name, []).append(verdict)
        self.samples.setdefault(slug, {}).setdefault(name, []).append(Sample.model_validate(facts))

    def run(self) -> RunRecord:
        models = [
            ModelRecord(slug=slug, role="compressed" if i else "baseline", name=slug, hub_id=None, revision=None,
                        scheme="w8a8" if i else None, weights_digest=self.digests.get(slug, slug),
                        tokenizer_digest="t", template_digest=None, numerics="n")
            for i, slug in enumerate(self.slugs)
        ]  # fmt: skip
        return RunRecord(schema=1, name="made-up", created="2026-01-01T00:00:00+00:00", finished=None, asked={},
                         resolved={}, models=models, tasks=list(self.tasks.values()), rows=self.rows, progress=[],
                         versions={}, hardware={}, seed=1, command=[], git=None)  # fmt: skip

    def compare(self) -> Comparison:
        return compare_run(self.run(), self.verdicts, self.samples)


def flipped(n: int, right: int, lost: int, gained: int) -> tuple[list[int], list[int]]:
    """Scores of a baseline and a compressed model with these counts, by item."""
    baseline = [1] * right + [0] * (n - right)
    return baseline, [0] * lost + [1] * (right - lost) + [1] * gained + [0] * (n - right - gained)


@pytest.fixture
def case() -> Case:
    return Case()


@pytest.fixture
def flips() -> Any:
    return flipped


def findings(comparison: Comparison) -> Mapping[str, str]:
    return {f"{finding.severity}: {finding.where}": finding.finding for finding in comparison.health}


@pytest.fixture
def told() -> Any:
    """Findings by ``severity: where``."""
    return findings


@pytest.fixture
def stored(case: Case) -> Callable[[], tuple[StoredModel, StoredModel]]:
    """The made-up run's two models as they are stored."""

    def make() -> tuple[StoredModel, StoredModel]:
        run = case.run()
        one, other = (
            StoredModel(
                origin=f"run of {model.slug}", model=model, rows=tuple(run.rows),
                tasks={task.name: task for task in run.tasks},
                samples={name: tuple(given) for name, given in case.samples[model.slug].items()},
                verdicts={name: tuple(given) for name, given in case.verdicts[model.slug].items()},
                prompts="ids", seed=run.seed, created=run.created,
            )
            for model in run.models
        )  # fmt: skip
        return one, other

    return make
