"""One log of inspect_ai: its samples -> a task record and graded answers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalcard.results.imported.answers import (
    Answer,
    as_number,
    name_and_hub_id,
    sampling_words,
    selection_words,
)
from evalcard.results.imported.directions import known_direction, unknown_direction
from evalcard.results.imported.files import damaged
from evalcard.results.imported.inspect_sample import Reading, as_answer, read_sample
from evalcard.results.records import DEFAULT_CATEGORY, TaskRecord
from evalcard.results.stored import LeftOut

_MEANS = ("accuracy", "mean")


def import_task(
    name: str, header: Mapping[str, Any], samples: Iterable[tuple[str, dict[str, Any]]], where: str
) -> tuple[TaskRecord | LeftOut, list[Answer]]:
    """(record, or why there is none, and answers by item and epoch). Raises UserError for damaged samples."""
    readings = [read_sample(sample, place) for place, sample in samples]
    if not readings:
        raise damaged(where, "it holds no samples")
    addresses = [(one.item_id, one.epoch) for one in readings]
    if len(set(addresses)) < len(addresses):
        raise damaged(where, "it holds two samples of the same id and epoch")
    scorer = _scorer(header, readings)
    if scorer is None:
        return LeftOut("none of its scorers gives a number for a single sample"), []
    metric = _metric(header, scorer)
    readings.sort(key=lambda one: (isinstance(one.item_id, str), one.item_id, one.epoch))
    better = _direction(metric, scorer, readings)
    if better is None:
        return LeftOut(unknown_direction(f"{metric} of {scorer}")), []
    record = _record(name, header, (metric, scorer), better, readings)
    has_answers = any(one.has_answer(scorer) for one in readings)
    return record, [as_answer(one, record, metric, has_answers) for one in readings]


def _scorer(header: Mapping[str, Any], readings: Sequence[Reading]) -> str | None:
    """The headline's, else the first of the results, else of the samples, that gives numbers."""
    results = header.get("results")
    headline = results.get("headline") if isinstance(results, dict) else None
    names = [headline.get("score") or headline.get("scorer")] if isinstance(headline, dict) else []
    names += [score.get("name") for score in _scores(header)]
    names += [name for one in readings for name in one.values]
    return next((n for n in names if n and any(one.values.get(n) is not None for one in readings)), None)


def _metric(header: Mapping[str, Any], scorer: str) -> str:
    """The scorer's own name for the mean over items, by what was asked and never by how the answers came out."""
    figures = [one.get("metrics") for one in _scores(header) if one.get("name") == scorer]
    listed = header["eval"].get("scorers")
    asked = [one.get("metrics") for one in listed or () if isinstance(one, dict) and one.get("name") == scorer]
    names = {name for table in figures if isinstance(table, dict) for name in table}
    names |= {str(one.get("name")).rpartition("/")[2] for table in asked if isinstance(table, list) for one in table
              if isinstance(one, dict)}  # fmt: skip
    return next((name for name in _MEANS if name in names), "mean")


def _scores(header: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    results = header.get("results")
    listed = results.get("scores") if isinstance(results, dict) else None
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _direction(metric: str, scorer: str, readings: Sequence[Reading]) -> bool | None:
    """Whether higher is better, which logs do not state: by the scorer's name, else where it grades right and wrong
    (its mean is an accuracy, or its values are words for them); None for figures of another kind."""
    known = known_direction(scorer)
    if known is not None or metric == "accuracy":
        return known is not False
    return True if all(one.is_graded_in_words(scorer) for one in readings) else None


def _record(
    name: str, header: Mapping[str, Any], measure: tuple[str, str], higher_is_better: bool, readings: Sequence[Reading]
) -> TaskRecord:
    metric, scorer = measure
    spec: Mapping[str, Any] = header["eval"]
    dataset, config = (table if isinstance(table := spec.get(key), dict) else {} for key in ("dataset", "config"))
    ids = list(dict.fromkeys(one.item_id for one in readings))
    planned = dataset.get("sample_ids")
    selected = max(len(ids), len(planned) if isinstance(planned, list) else 0)
    total = max(selected, int(as_number(dataset.get("samples")) or 0))
    arguments = spec.get("task_args")
    shots = next((arguments[key] for key in ("fewshot", "num_fewshot") if key in arguments), 0) if isinstance(
        arguments, dict) else 0  # fmt: skip
    generation = _generation(header)
    stops = generation.get("stop_seqs")
    return TaskRecord(
        name=name,
        source="file",
        version=str(spec.get("task_version", 0)),
        metric=metric,
        filter=scorer,
        category=DEFAULT_CATEGORY,
        chance=_chance(readings),
        higher_is_better=higher_is_better,
        num_fewshot=shots if type(shots) is int and shots >= 0 else 0,
        repeats=max(max(one.epoch for one in readings), int(as_number(config.get("epochs")) or 1)),
        decoding=_decoding(generation),
        chat_template=True,
        items_total=total,
        items_selected=selected,
        selection=selection_words(ids, selected, total),
        item_ids=None if selected == total else ids,
        stop_strings=[str(one) for one in stops] if isinstance(stops, list) else [],
        **_dataset(dataset),
    )


def _chance(readings: Sequence[Reading]) -> float:
    """Mean of 1/choices where every sample offers choices; else 0."""
    counts = [len(one.choices) for one in readings]
    return sum(1 / count for count in counts) / len(counts) if all(counts) else 0.0


def _generation(header: Mapping[str, Any]) -> dict[str, Any]:
    """The plan's settings, over the model's own."""
    plan, spec = header.get("plan"), header["eval"]
    own, given = spec.get("model_generate_config"), plan.get("config") if isinstance(plan, dict) else None
    tables = [table for table in (own, given) if isinstance(table, dict)]
    return {key: value for table in tables for key, value in table.items() if value is not None}


def _decoding(given: Mapping[str, Any]) -> str:
    """Without a temperature the model's provider decides, and the log does not say how."""
    temperature = as_number(given.get("temperature"))
    if temperature is None:
        return "as the provider decodes by default"
    if temperature <= 0:
        return "greedy"
    top_k, seed = as_number(given.get("top_k")), given.get("seed")
    return sampling_words(temperature, as_number(given.get("top_p")), int(top_k) if top_k else None, None,
                          seed if type(seed) is int else None)  # fmt: skip


def _dataset(dataset: Mapping[str, Any]) -> dict[str, Any]:
    place = dataset.get("location")
    is_hub = isinstance(place, str) and name_and_hub_id(place)[1] is not None and not place.endswith(
        (".json", ".jsonl", ".csv"))  # fmt: skip
    return {"dataset": place} if is_hub else {}
