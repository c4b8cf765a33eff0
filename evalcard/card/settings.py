"""How it was measured, from the run's record: nothing here is written by hand, and no path of the machine is in it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evalcard.card.escape import join_words
from evalcard.card.labels import model_labels
from evalcard.card.paths import measuring_command, portable_command, without_paths
from evalcard.card.sources import SourcesView, sources_view
from evalcard.card.tables import shots, tasks_of, total_of
from evalcard.results.compared import ComparedRow
from evalcard.results.records import ModelRecord, RunRecord, TaskRecord

OWN_JUDGE = "task's own"
_EXACT = "rows exact"
"""In the engine's numerics; it says "rows inexact" where an answer may depend on what else was asked with it."""
_EVERY = {1: "baseline", 2: "both models"}
"""How all models of a run are called, by their number."""
_SOURCES = {"evalcard": "evalcard", "lm_eval": "lm-evaluation-harness", "file": "own task file"}


@dataclass(frozen=True, slots=True)
class RowSettings:
    """One row of the tables as it was run; tasks of a group that differ are all named."""

    task: str
    source: str
    version: str
    shots: str
    decoding: str
    chat_template: str
    judge: str
    """What compared answers with right answers: a judge, or the task's own filters and metrics."""
    selection: str


@dataclass(frozen=True, slots=True)
class Rescoring:
    """How the answers were graded again after the run."""

    command: str
    judges: tuple[tuple[str, str], ...]
    """(row or task, judge)."""
    changed: tuple[tuple[str, int], ...]
    """(task, items graded by documents that had changed)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The run as a whole."""

    run: str
    created: str
    """Day, UTC."""
    backend: str
    numerics: tuple[tuple[str, str], ...]
    """(who, numerics): one entry where all models agree; models of one role and equal numerics share one."""
    is_exact: bool
    """Whether equal numerics promise equal answers: those of evalcard's own engine do, unless they say otherwise."""
    facts: tuple[tuple[str, str], ...]
    """(label, value) of what was set away from the default and touches answers."""
    seed: int
    versions: tuple[tuple[str, str], ...]
    hardware: tuple[tuple[str, str], ...]
    commit: str | None
    is_dirty: bool
    command: str
    rescored: Rescoring | None
    """None where the run's own command gives these verdicts."""
    sources: SourcesView | None = None
    """Of stored results that were put beside each other; None for a run that asked its models itself."""


_TOLD = {
    "dtype": "dtype",
    "device": "device",
    "system": "system prompt",
    "chat_template_args": "chat template arguments",
    "fewshot_as_multiturn": "few-shot examples as turns",
    "drop_shots": "examples left out where a prompt would not fit",
    "max_model_len": "longest sequence in tokens",
    "max_new_tokens": "most new tokens",
}


def settings_of(run: RunRecord, models: Sequence[ModelRecord]) -> Settings:
    """Everything a reader needs to measure the same again."""
    git = run.git or {}
    return Settings(
        run=run.name,
        created=run.created[:10],
        backend=str(run.resolved.get("backend", "evalcard")),
        numerics=() if run.sources else _numerics(models),
        is_exact=_is_exact(run, models),
        facts=tuple(_facts(run)),
        seed=run.seed,
        versions=tuple((name, without_paths(version)) for name, version in run.versions.items()),
        hardware=tuple(_hardware(name, value) for name, value in run.hardware.items()),
        commit=str(git["commit"]) if git.get("commit") else None,
        is_dirty=bool(git.get("dirty")),
        command=portable_command(measuring_command(run.command), _hub_ids(run)),
        rescored=_rescoring(run),
        sources=sources_view(run),
    )


def row_settings(run: RunRecord, row: ComparedRow) -> RowSettings:
    tasks = tasks_of(run, row)
    return RowSettings(
        task=row.task,
        source=_each(_SOURCES[task.source] for task in tasks),
        version=_each(task.version for task in tasks),
        shots=shots(tasks),
        decoding=_each(without_paths(task.decoding) for task in tasks),
        chat_template=_each(_chat_template(task) for task in tasks),
        judge=_each(task.judge or OWN_JUDGE for task in tasks),
        selection=_selected(run, row, tasks),
    )


def _rescoring(run: RunRecord) -> Rescoring | None:
    if run.rescored is None:
        return None
    changed = tuple((task, len(items)) for task, items in run.rescored.changed_items.items())
    return Rescoring(portable_command(run.rescored.command, ()), tuple(run.rescored.judges.items()), changed)


def _chat_template(task: TaskRecord) -> str:
    dated = f", dated {task.template_date}" if task.template_date else ""
    return f"yes{dated}" if task.chat_template else "no"


def _selected(run: RunRecord, row: ComparedRow, tasks: Sequence[TaskRecord]) -> str:
    """The selection, and what was used of it where the row was to stop early: its tasks then count used items only."""
    total = total_of(run, row)
    test = next((test for test in run.sequential if test.row == row.task), None)
    if test is None:
        return _selection(tasks, sum(task.items_selected for task in tasks), total)
    used = f"{test.used} of {test.items} (in random order, until the gate was decided)"
    return used if test.items == total else f"{used}; the set: {_selection(tasks, test.items, total)}"


def _selection(tasks: Sequence[TaskRecord], selected: int, total: int) -> str:
    if selected == total:
        return f"all {total}"
    how = _each(task.selection for task in tasks if task.items_selected < task.items_total) or "seeded"
    # The first items are counted task by task; a seeded choice is spread over all of them.
    is_each = len(tasks) > 1 and how.startswith("first")
    return f"{selected} of {total} ({how}{' of each task' if is_each else ''})"


def _each(values: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(values))


def _numerics(models: Sequence[ModelRecord]) -> tuple[tuple[str, str], ...]:
    told = [(model.role, without_paths(model.numerics)) for model in models if model.numerics]
    if len(told) == len(models) and len({numerics for _, numerics in told}) == 1:
        return ((_EVERY.get(len(models), "all models"), told[0][1]),)
    return tuple((_who(models, told, one), one[1]) for one in dict.fromkeys(told))


def _is_exact(run: RunRecord, models: Sequence[ModelRecord]) -> bool:
    told = [model.numerics for model in models]
    is_own = run.resolved.get("backend", "evalcard") == "evalcard" and not run.sources
    return is_own and bool(told) and all(one and _EXACT in one.split("; ") for one in told)


def _who(models: Sequence[ModelRecord], told: Sequence[tuple[str, str]], wanted: tuple[str, str]) -> str:
    """The role, with the names of the models meant where that is not all of it."""
    role = wanted[0]
    if len({one for one in told if one[0] == role}) == 1:
        return role
    labels = model_labels(models)
    named = [labels[model.slug] for model in models
             if model.numerics and (model.role, without_paths(model.numerics)) == wanted]  # fmt: skip
    return f"{role} {join_words(named)}"


def _facts(run: RunRecord) -> list[tuple[str, str]]:
    values = [(label, run.resolved.get(key)) for key, label in _TOLD.items()]
    return [(label, _said(value)) for label, value in values if value not in (None, "", "auto", False, {})]


def _hardware(name: str, value: str | int) -> tuple[str, str]:
    """``memory_gib: 16`` reads as memory, 16 GiB."""
    if name.endswith("_gib"):
        return name.removesuffix("_gib"), f"{value} GiB"
    return name.replace("_", " "), without_paths(str(value))


def _said(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={without_paths(str(one))}" for name, one in value.items())
    return "yes" if value is True else without_paths(str(value))


def _hub_ids(run: RunRecord) -> set[str]:
    """Names with a slash that are no folders."""
    ids = {model.hub_id for model in run.models if model.hub_id}
    base_model = run.resolved.get("base_model")
    return ids | {str(base_model)} if base_model else ids
