"""What task files say where their documents are not here: read from the files alone, name by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalcard.results.records import RowRecord
from evalcard.spec import RunSpec
from evalcard.tasks.data.roots import MissingData, join_missing
from evalcard.tasks.describe import Described, TaskFacts, facts_of
from evalcard.tasks.files.catalog import Catalog, TaskFile
from evalcard.tasks.files.select import Selected, select
from evalcard.tasks.notes import gather
from evalcard.tasks.overview import PASSED_ON, config_of, leaves_of, settings_of
from evalcard.tasks.prepare import prepare_tasks
from evalcard.tasks.prompts.decoding import decoding_of, in_words, repeats_of, with_flags
from evalcard.tasks.prompts.shots import shots_wanted
from evalcard.tasks.scoring import category_of

_WAYS = {"multiple_choice": "choices", "loglikelihood": "right answers", "loglikelihood_rolling": "whole texts"}


def outline(spec: RunSpec) -> Described:
    """The tasks of ``spec``: built where their documents are here, else as their files define them."""
    rows: list[RowRecord] = []
    facts: dict[str, TaskFacts] = {}
    notes: list[str] = []
    missing: dict[str, MissingData] = {}
    for name in spec.tasks:
        one = spec.model_copy(update={"tasks": (name,)})
        try:
            tasks, found, said = prepare_tasks(one)
            facts |= {task.name: facts_of(task, one) for task in tasks}
        except MissingData as error:
            missing[name], said, found = error, [], []
            for selected in select([name]):
                found += _outlined(selected, spec, facts, said)
        rows += found
        notes += said
    why = str(join_missing(list(missing.values()), list(missing))) if missing else None
    return Described(tuple({row.name: row for row in rows}.values()), tuple(facts.values()), tuple(gather(notes)),
                     missing=why)  # fmt: skip


def _outlined(one: Selected, spec: RunSpec, facts: dict[str, TaskFacts], notes: list[str]) -> list[RowRecord]:
    """The rows of a name; its tasks are added to ``facts``."""
    given = _stated_by(one.group)
    rows = []
    for name, rule, leaves in _rows(one.file, one.catalog, given):
        for config in leaves:
            if str(config["task"]) not in facts:
                facts[str(config["task"])] = _facts(config, one.source, spec, notes)
        rows.append(RowRecord(name=name, tasks=[str(config["task"]) for config in leaves], rule=rule))
    return rows


def _stated_by(group: TaskFile | None) -> dict[str, Any]:
    """What a group's file states for its tasks; nothing where there is no group."""
    stated = config_of(Path(group.path)) if group is not None and group.path else {}
    return {key: value for key, value in stated.items() if key in PASSED_ON}


def _rows(file: TaskFile, catalog: Catalog, given: Mapping[str, Any]) -> list[tuple[str, Any, list[dict[str, Any]]]]:
    """(name, rule, configs of its leaf tasks): a group with a rule of its own is one row, any other lists its tasks."""
    leaves = [one for one in leaves_of(file, catalog, given, frozenset()) if isinstance(one.get("task"), str)]
    rules = config_of(Path(file.path)).get("aggregate_metric_list") if file.kind == "group" and file.path else None
    if rules:
        by_size = rules[0].get("weight_by_size", True) if isinstance(rules, list) else True
        return [(file.name, "size" if by_size else "mean", leaves)]
    return [(str(config["task"]), "task", [config]) for config in leaves]


def _facts(config: Mapping[str, Any], source: str, spec: RunSpec, notes: list[str]) -> TaskFacts:
    name, kind, settings = str(config["task"]), config.get("output_type", "generate_until"), settings_of(config)
    decoding, repeats, judge = None, 1, None
    if kind == "generate_until":
        stated = config.get("generation_kwargs") or {"until": [config.get("fewshot_delimiter", "\n\n")]}
        decoding = decoding_of(name, with_flags(dict(stated), spec), None, None, spec.seed)
        repeats, _ = repeats_of(name, int(config.get("repeats") or 1), decoding, spec)
        judge = settings.get("judge")
    shots, note = shots_wanted(config.get("num_fewshot"), spec.num_fewshot)
    notes += [f"{name}: {note}"] if note else []
    metrics, filters = _names(config, "metric_list", "metric"), _names(config, "filter_list", "name")
    return TaskFacts(
        name=name,
        source=source,
        version=str((config.get("metadata") or {}).get("version", 0)),
        documents=None,
        dataset=config.get("dataset_path"),
        subset=config.get("dataset_name"),
        split=config.get("test_split") or config.get("validation_split"),
        place=None,
        num_fewshot=shots,
        answers=in_words(decoding) if decoding else f"{_WAYS.get(kind, kind)} scored by log-probability",
        max_tokens=decoding.max_tokens if decoding else None,
        stop_strings=decoding.until if decoding else (),
        repeats=repeats,
        metric=(metrics or ["its own"])[0],
        filter=judge or (filters or ["none"])[0],
        other_filters=() if judge else tuple(filters[1:]),
        judge=judge,
        higher_is_better=True,
        category=str(settings.get("category") or category_of(name)),
        chance=settings.get("chance", 0.0 if decoding else None),
    )


def _names(config: Mapping[str, Any], key: str, field: str) -> list[str]:
    return [str(one[field]) for one in config.get(key) or [] if isinstance(one, dict) and field in one]
