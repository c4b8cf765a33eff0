"""One task of lm_eval: its documents, prompts, filters and metrics.

Only this module, its parts (requests.py, shots.py, measures.py) and build.py know the harness's inside. Nothing here
loads torch or transformers.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lm_eval.api.task import Task

from evalcard.errors import UserError
from evalcard.results.records import ItemId
from evalcard.tasks.contexts import blamed_on, compiled_templates, seeded
from evalcard.tasks.files.select import Source
from evalcard.tasks.judges.judge import Judge
from evalcard.tasks.measures import Measures
from evalcard.tasks.prompts.requests import Chat, Fits, Prompt, requests_of
from evalcard.tasks.prompts.shots import Shots, refuse_few_documents, shots_wanted, standing_in


class HarnessTask(Measures):
    """One leaf task of the harness, its documents read; the rest of evalcard sees only this."""

    def __init__(self, task: Task, source: Source, random_state: Any):
        self.task = task
        self.source: Source = source
        self.name: str = name_of(task)
        self._random_state = random_state
        self._fewshot_seed: int | None = None
        self._own_fewshot: int | None = None
        self.mended_shots: list[ItemId] = []
        """Items of the last ``prompts`` that would have been shown their own answer among their shots."""
        self.preferred: tuple[str | None, str | None] = (None, None)
        """(metric, filter) that the group asks for in whose row this task is pooled."""
        self.judge: Judge | None = None
        """Compares answers with golds instead of the task's filters and metrics; set by build.py, or by a rescoring."""

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
    def settings(self) -> dict[str, Any]:
        """What a task file says to evalcard alone, under ``metadata: evalcard:``: category, chance, judge, id_field,
        note."""
        stated = self.metadata.get("evalcard") or {}
        return stated if isinstance(stated, dict) else {}

    @functools.cached_property
    def item_ids(self) -> list[ItemId]:
        """Names of the documents in the task's order: the values of ``id_field``, else their positions."""
        field = self.settings.get("id_field")
        return [doc[field] for doc in self.docs] if field else list(range(len(self.docs)))

    @functools.cached_property
    def _positions(self) -> dict[ItemId, int]:
        return {item_id: position for position, item_id in enumerate(self.item_ids)}

    def position(self, item_id: ItemId) -> int:
        """Where the document of that name stands. KeyError where there is none."""
        return self._positions[item_id]

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

    def choices(self, position: int) -> list[str]:
        """The answers a multiple-choice document offers. Raises UserError where ``doc_to_choice`` fails."""
        with compiled_templates(), blamed_on(self._item(position), "has no choices (doc_to_choice)"):
            return list(self.task.doc_to_choice(self.docs[position]))

    def target(self, position: int) -> Any:
        """The right answer as the task states it: text, an index of ``choices``, or a list.

        Raises UserError where ``doc_to_target`` fails.
        """
        with compiled_templates(), blamed_on(self._item(position), "has no right answer (doc_to_target)"):
            return self.task.doc_to_target(self.docs[position])

    def golds(self, position: int) -> list[str]:
        """The right answers as texts, for a judge; an index stands for one of the document's choices."""
        target = self.target(position)
        choices = self.choices(position) if getattr(self.task.config, "doc_to_choice", None) is not None else []
        return [
            choices[one] if type(one) is int and 0 <= one < len(choices) else str(one)
            for one in (target if isinstance(target, (list, tuple)) else [target])
        ]

    def set_fewshot(self, asked: int | None, seed: int) -> str | None:
        """Apply ``--num-fewshot`` (shots.shots_wanted); the text says what became of it, None where nothing changed.

        ``seed`` is the draws'. The task's own number is read once, so a second call starts from it, too.
        """
        if self._fewshot_seed is None:
            self._own_fewshot = self.task.config.num_fewshot
        wanted, note = shots_wanted(self._own_fewshot, asked)
        self.task.set_config(key="num_fewshot", value=wanted)
        self._fewshot_seed = seed
        return note and f"{self.name}: {note}"

    def prompts(self, positions: Sequence[int], chat: Chat, fits: Fits | None = None) -> list[Prompt]:
        """Prompts of the documents at ``positions``, which ascend. ``set_fewshot`` comes first.

        Shots are drawn document by document from one generator, seeded anew for each call, as the harness does; so
        every document up to the last one asked for has its prompt built, and an item's prompt depends on its position
        and never on which others are asked for. With ``fits``, whole worked examples are left out of a prompt that
        does not fit, the first ones first, until it does or none is left.
        """
        assert self._fewshot_seed is not None, f"{self.name}: prompts before set_fewshot"
        assert list(positions) == sorted(set(positions)), f"{self.name}: positions must ascend"
        wanted, last = set(positions), max(positions, default=-1)
        with seeded(self._random_state), compiled_templates(), standing_in(self.task, self._fewshot_seed) as shots:
            built = [self._prompt(position, chat, shots) for position in range(last + 1)]
            found = [prompt for prompt in built if prompt.position in wanted]
            if fits is not None and shots is not None:
                self._shorten(found, chat, shots, fits)
        self.mended_shots = [self.item_ids[one] for one in shots.mended if one in wanted] if shots else []
        return found

    def _shorten(self, prompts: list[Prompt], chat: Chat, shots: Shots, fits: Fits) -> None:
        """Build those that do not fit once more with one worked example less, and again."""
        over = list(range(len(prompts)))
        for keep in range(self.num_fewshot - 1, -1, -1):
            over = [one for one, does_fit in zip(over, fits([prompts[i] for i in over]), strict=True) if not does_fit]
            if not over:
                return
            for one in over:
                prompts[one] = replace(self._prompt(prompts[one].position, chat, shots, keep), shots=keep)

    def _prompt(self, position: int, chat: Chat, shots: Shots | None, keep: int | None = None) -> Prompt:
        doc, item_id = self.docs[position], self.item_ids[position]
        if shots is not None:
            shots.begin(position, doc, keep)
        with blamed_on(self._item(position)):
            try:
                kind, arguments = requests_of(self.task, self.name, position, doc, self.num_fewshot, chat)
            except (AssertionError, ValueError):
                refuse_few_documents(self.task, self.name, self.num_fewshot)
                raise
        return Prompt(position, item_id, kind, arguments)


def name_of(task: Task) -> str:
    """The task's name; its own ``task_name`` draws a random one first, whether it is needed or not."""
    return task.config.task
