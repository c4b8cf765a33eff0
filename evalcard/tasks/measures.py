"""A harness task's metrics and filters, and its own grading of answers."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask, Task

from evalcard.results.records import ItemId
from evalcard.tasks.contexts import blamed_on, compiled_templates, seeded


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    is_mean: bool
    """Whether the task's score is the plain mean of the items' values."""
    higher_is_better: bool


class Measures:
    """The measuring half of a HarnessTask, which provides what is declared here."""

    task: Task
    name: str
    _random_state: Any

    @property
    def docs(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    @property
    def item_ids(self) -> list[ItemId]:
        raise NotImplementedError

    def _item(self, position: int) -> str:
        """For messages."""
        return f"{self.name}, item {self.item_ids[position]},"

    @property
    def is_multiple_choice(self) -> bool:
        return self.task.OUTPUT_TYPE == "multiple_choice"

    @property
    def is_generated(self) -> bool:
        """Whether the model writes its answers; else their log-probabilities are compared."""
        return self.task.OUTPUT_TYPE == "generate_until"

    @property
    def is_rolling(self) -> bool:
        """Whether whole texts are scored."""
        return self.task.OUTPUT_TYPE == "loglikelihood_rolling"

    @property
    def has_own_grading(self) -> bool:
        """Whether a function of the task's own grades its answers."""
        return getattr(self.task.config, "process_results", None) is not None or (
            type(self.task).process_results is not ConfigurableTask.process_results
        )

    @property
    def metrics(self) -> list[Metric]:
        """The task's metrics in its own order."""
        aggregation, higher = self.task.aggregation(), self.task.higher_is_better()
        return [Metric(name, aggregation[name] is mean, bool(higher.get(name, True))) for name in aggregation]

    @property
    def unknown_metrics(self) -> list[str]:
        """Metrics of generated answers that neither the harness nor the evaluate library has a function for."""
        if self.has_own_grading or self.task.OUTPUT_TYPE != "generate_until":
            return []
        return [name for name, function in self.task._metric_fn_list.items() if function is None]

    @property
    def filters(self) -> list[str]:
        """Filters that can work on a single answer, in the task's own order."""
        return [ensemble.name for ensemble in self._usable_filters()]

    @property
    def skipped_filters(self) -> list[str]:
        """Filters that need several answers at once (maj@k); every repeat is graded by itself."""
        usable = self.filters
        return [ensemble.name for ensemble in self.task._filters if ensemble.name not in usable]

    def _usable_filters(self) -> list[Any]:
        return [e for e in self.task._filters if all(getattr(part, "k", 1) == 1 for part in self._parts(e))]

    def _parts(self, ensemble: Any) -> list[Any]:
        with blamed_on(self.name, f"has a filter {ensemble.name!r} that does not work"):
            return [part() for part in ensemble.filters]

    def fallbacks(self, filter_name: str) -> set[Any]:
        """What a filter returns where it finds nothing."""
        (ensemble,) = (e for e in self.task._filters if e.name == filter_name)
        fallbacks = (getattr(part, "fallback", None) for part in self._parts(ensemble))
        return {value for value in fallbacks if isinstance(value, str)}

    def grade(self, answers: Sequence[tuple[int, list[Any]]]) -> list[dict[str, tuple[Any, dict[str, Any]]]]:
        """Filter and score answers, each by itself.

        answers: (position, one response for each request of the item): text, (logprob, is_greedy), or a
        log-probability. Returns for each answer: filter -> (filtered response of the first request, metric -> value).
        Raises UserError where a filter or ``process_results`` fails.
        """
        groups = [self._instances(position, responses) for position, responses in answers]
        flat = [instance for group in groups for instance in group]
        graded: list[dict[str, tuple[Any, dict[str, Any]]]] = [{} for _ in groups]
        with seeded(self._random_state), compiled_templates():
            for ensemble in self._usable_filters() if flat else []:
                with blamed_on(self.name, f"has a filter {ensemble.name!r} that fails"):
                    ensemble.apply(flat)
                for (position, _), group, result in zip(answers, groups, graded, strict=True):
                    filtered = [instance.filtered_resps[ensemble.name] for instance in group]
                    result[ensemble.name] = (filtered[0], self._values(position, group[0].doc, filtered))
        return graded

    def _values(self, position: int, doc: dict[str, Any], filtered: list[Any]) -> dict[str, Any]:
        with blamed_on(self._item(position), "cannot be graded (process_results)"):
            values = self.task.process_results(copy.deepcopy(doc), filtered)
            if not isinstance(values, dict):
                raise TypeError(f"expected a dict of metric and value, got {values!r}")
            return values

    def _instances(self, position: int, responses: list[Any]) -> list[Instance]:
        doc = self.docs[position]
        kind = "loglikelihood" if self.is_multiple_choice else self.task.OUTPUT_TYPE
        return [
            Instance(kind, doc, (), index, metadata=(self.name, position, 1), resps=[response])
            for index, response in enumerate(responses)
        ]
