"""One task of lm_eval: its documents, prompts, filters and metrics.

Only this module and build.py know the harness's inside. Nothing here loads torch or transformers.
"""

import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask, Task

from evalcard.errors import UserError
from evalcard.tasks.contexts import blamed_on, compiled_templates, seeded
from evalcard.tasks.files import Source

RequestKind = Literal["score", "rolling", "generate"]

_REQUEST_KINDS: dict[str, RequestKind] = {
    "loglikelihood": "score",
    "loglikelihood_rolling": "rolling",
    "generate_until": "generate",
}


@dataclass(frozen=True, slots=True)
class Chat:
    """How prompts become chat turns; ``render(messages, add_generation_prompt)`` is None for plain text."""

    render: Any = None
    as_multiturn: bool = False
    system: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """All requests of one document as text: (context, continuation), (context, generation kwargs) or (text,)."""

    item_id: int
    kind: RequestKind
    arguments: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    is_mean: bool
    """Whether the task's score is the plain mean of the items' values."""
    higher_is_better: bool


class HarnessTask:
    """One leaf task of the harness, its documents read; the rest of evalcard sees only this."""

    def __init__(self, task: Task, source: Source, random_state: Any):
        self.task = task
        self.source: Source = source
        self.name: str = name_of(task)
        self._random_state = random_state
        self._fewshot_seed: int | None = None
        self.preferred: tuple[str | None, str | None] = (None, None)
        """(metric, filter) that the group asks for in whose row this task is pooled."""

    @functools.cached_property
    def docs(self) -> list[dict[str, Any]]:
        """Every document, in the task's own order."""
        return list(self.task.eval_docs)

    @property
    def version(self) -> str:
        return str(self.task.VERSION)

    @property
    def metadata(self) -> dict[str, Any]:
        return self.task.config.metadata or {}

    @property
    def hub_source(self) -> dict[str, str | None]:
        """``dataset``, ``dataset_config`` and ``dataset_split`` on the Hub; empty for documents of our own."""
        config = self.task.config
        if config.dataset_path is None or config.dataset_path.startswith("evalcard/"):
            return {}
        split = config.test_split or config.validation_split
        return {"dataset": config.dataset_path, "dataset_config": config.dataset_name, "dataset_split": split}

    @property
    def num_fewshot(self) -> int:
        return int(self.task.config.num_fewshot or 0)

    @property
    def repeats(self) -> int:
        """Raises UserError for what is no whole number of 1 or more."""
        stated = self.task.config.repeats
        if stated is None:
            return 1
        if not isinstance(stated, int) or isinstance(stated, bool) or stated < 1:
            raise UserError(f"task {self.name}: 'repeats' must be a whole number of 1 or more, not {stated!r}.")
        return stated

    @property
    def gen_prefix(self) -> str | None:
        return self.task.config.gen_prefix

    @property
    def generation(self) -> dict[str, Any]:
        """The task's own generation arguments; empty for scored tasks."""
        return dict(self.task.config.generation_kwargs or {})

    @property
    def is_multiple_choice(self) -> bool:
        return self.task.OUTPUT_TYPE == "multiple_choice"

    @property
    def is_rolling(self) -> bool:
        """Whether whole texts are scored."""
        return self.task.OUTPUT_TYPE == "loglikelihood_rolling"

    def choices(self, item_id: int) -> list[str]:
        """The answers a multiple-choice document offers. Raises UserError where ``doc_to_choice`` fails."""
        with compiled_templates(), blamed_on(f"{self.name}, item {item_id},", "has no choices (doc_to_choice)"):
            return list(self.task.doc_to_choice(self.docs[item_id]))

    def target(self, item_id: int) -> Any:
        """The right answer as the task states it: text, an index of ``choices``, or a list.

        Raises UserError where ``doc_to_target`` fails.
        """
        with compiled_templates(), blamed_on(f"{self.name}, item {item_id},", "has no right answer (doc_to_target)"):
            return self.task.doc_to_target(self.docs[item_id])

    @property
    def has_own_grading(self) -> bool:
        """Whether a function of the task's own grades its answers."""
        return getattr(self.task.config, "process_results", None) is not None or (
            type(self.task).process_results is not ConfigurableTask.process_results
        )

    def set_fewshot(self, asked: int | None, seed: int) -> str | None:
        """Apply ``--num-fewshot`` by the harness's rules; the text says what became of it, None if nothing changed."""
        own = self.task.config.num_fewshot
        note = None
        if asked is not None and own == 0 and asked != 0:
            note = f"{self.name}: zero-shot by its own definition, --num-fewshot {asked} is not applied"
        elif asked is not None:
            note = f"{self.name}: {asked} shots instead of its own {own}" if own not in (None, asked) else None
            self.task.set_config(key="num_fewshot", value=asked)
        elif own is None:
            self.task.set_config(key="num_fewshot", value=0)
        self._fewshot_seed = seed
        return note

    def prompts(self, count: int, chat: Chat) -> list[Prompt]:
        """Prompts of the first ``count`` documents.

        Shots are drawn document by document from one generator, seeded anew for each call, as the harness does; so an
        item's prompt depends on its position and never on how many items are asked for. ``set_fewshot`` comes first.
        """
        assert self._fewshot_seed is not None, f"{self.name}: prompts before set_fewshot"
        self.task.set_fewshot_seed(seed=self._fewshot_seed)
        found = []
        with seeded(self._random_state), compiled_templates(), blamed_on(self.name):
            for item_id, doc in enumerate(self.docs[:count]):
                try:
                    found.append(self._prompt(item_id, doc, chat))
                except (AssertionError, ValueError):
                    self._refuse_few_shots()
                    raise
        return found

    def _refuse_few_shots(self) -> None:
        """Raise UserError where there are fewer documents than shots; the item's own is no shot of it."""
        sampler = getattr(self.task, "sampler", None)
        pool = len(getattr(sampler, "fewshot_indices", None) or getattr(sampler, "df", None) or ())
        if self.num_fewshot > 0 and pool <= self.num_fewshot:
            raise UserError(
                f"task {self.name}: {self.num_fewshot} shots were asked for, but it has {pool} documents to take them "
                "from (the item itself is never one of its shots). Ask for fewer with --num-fewshot."
            )

    def _prompt(self, item_id: int, doc: dict[str, Any], chat: Chat) -> Prompt:
        is_chat = chat.render is not None
        context = self.task.fewshot_context(
            doc,
            num_fewshot=self.num_fewshot,
            system_instruction=chat.system,
            apply_chat_template=is_chat,
            fewshot_as_multiturn=chat.as_multiturn,
            chat_template=chat.render,
            gen_prefix=self.task.doc_to_prefix(doc),
        )
        made = self.task.construct_requests(
            doc=doc,
            ctx=context,
            metadata=(self.name, item_id, 1),
            apply_chat_template=is_chat,
            chat_template=chat.render,
        )
        instances = made if isinstance(made, list) else [made]
        kinds = {instance.request_type for instance in instances}
        if len(kinds) != 1:
            raise UserError(f"task {self.name} mixes {' and '.join(sorted(kinds))} in one item; that is not supported.")
        return Prompt(item_id, _REQUEST_KINDS[kinds.pop()], tuple(tuple(one.args) for one in instances))

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

    def extracts(self, filter_name: str) -> bool:
        """Whether the filter looks for an answer in the text at all."""
        (ensemble,) = (e for e in self.task._filters if e.name == filter_name)
        return any(hasattr(part, "fallback") for part in self._parts(ensemble))

    def grade(self, answers: Sequence[tuple[int, list[Any]]]) -> list[dict[str, tuple[Any, dict[str, Any]]]]:
        """Filter and score answers, each by itself.

        answers: (item_id, one response for each request of the item): text, (logprob, is_greedy), or a log-probability.
        Returns for each answer: filter -> (filtered response of the first request, metric -> value).
        Raises UserError where a filter or ``process_results`` fails.
        """
        groups = [self._instances(item_id, responses) for item_id, responses in answers]
        flat = [instance for group in groups for instance in group]
        graded: list[dict[str, tuple[Any, dict[str, Any]]]] = [{} for _ in groups]
        with seeded(self._random_state), compiled_templates():
            for ensemble in self._usable_filters() if flat else []:
                with blamed_on(self.name, f"has a filter {ensemble.name!r} that fails"):
                    ensemble.apply(flat)
                for (item_id, _), group, result in zip(answers, groups, graded, strict=True):
                    filtered = [instance.filtered_resps[ensemble.name] for instance in group]
                    result[ensemble.name] = (filtered[0], self._values(item_id, group[0].doc, filtered))
        return graded

    def _values(self, item_id: int, doc: dict[str, Any], filtered: list[Any]) -> dict[str, Any]:
        with blamed_on(f"{self.name}, item {item_id},", "cannot be graded (process_results)"):
            values = self.task.process_results(copy.deepcopy(doc), filtered)
            if not isinstance(values, dict):
                raise TypeError(f"expected a dict of metric and value, got {values!r}")
            return values

    def _instances(self, item_id: int, responses: list[Any]) -> list[Instance]:
        doc = self.docs[item_id]
        kind = "loglikelihood" if self.is_multiple_choice else self.task.OUTPUT_TYPE
        return [
            Instance(kind, doc, (), index, metadata=(self.name, item_id, 1), resps=[response])
            for index, response in enumerate(responses)
        ]


def name_of(task: Task) -> str:
    """The task's name; its own ``task_name`` draws a random one first, whether it is needed or not."""
    return task.config.task
