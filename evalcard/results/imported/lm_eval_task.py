"""One task of lm-eval -> its record and its graded answers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalcard.results.imported.answers import (
    Answer,
    as_number,
    chance_of,
    count_of,
    is_mean_of,
    number,
    sampling_words,
    selection_words,
)
from evalcard.results.imported.directions import known_direction, unknown_direction
from evalcard.results.imported.files import damaged
from evalcard.results.imported.lm_eval_answers import answer_of
from evalcard.results.imported.lm_eval_faults import fault_in
from evalcard.results.imported.lm_eval_items import Item, Told, choices_of, item_id, read_items
from evalcard.results.imported.lm_eval_rows import Measure, measures_in
from evalcard.results.records import DEFAULT_CATEGORY, TaskRecord
from evalcard.results.stored import LeftOut

_NOT_ON_HUB = ("json", "csv", "parquet", "text", "arrow", "pandas", "evalcard/")
_OVER_ALL = frozenset({
    "bits_per_byte", "bleu", "brier_score", "byte_perplexity", "chrf", "chrf++", "f1", "mcc", "perplexity", "ter",
    "word_perplexity",
})  # fmt: skip
"""Metrics that lm-eval takes over all items at once where a task's file does not say how."""
_DATASET = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


def import_task(
    told: Told, lines: Iterable[tuple[str, dict[str, Any]]], where: str
) -> tuple[TaskRecord | LeftOut, list[Answer]]:
    """(record, or why there is none, and answers by document).

    Raises UserError for lines that are damaged or lack what every version writes.
    """
    items = read_items(told, lines)
    if not items:
        raise damaged(where, "it holds no answers")
    primary = _primary(told, items)
    if primary is None:
        names = ", ".join(dict.fromkeys(metric for metric, _ in measures_in(told.figures))) or "its metrics"
        why = _lacking(told, items) or fault_in(told, items)
        return LeftOut(f"{names[:200]}: no mean over items{why}", _has_no_mean(told)), []
    better = _direction(told, primary[0])
    if better is None:
        return LeftOut(unknown_direction(primary[0])), []
    record = _record(told, primary, items, better)
    means = {measure: _is_mean(told, measure, items) for measure in dict.fromkeys(m for i in items for m in i.values)}
    return record, [answer_of(told, record, item, means) for item in items]


def _lacking(told: Told, items: Sequence[Item]) -> str:
    """Where the file of samples was cut off, that is why no score is their mean."""
    counts = told.about("n-samples", {})
    stated = count_of(counts.get("effective"), "n-samples") if isinstance(counts, dict) else 0
    return f", and its samples are of {len(items)} of {stated} items: copy the file anew" if stated > len(items) else ""


def _primary(told: Told, items: Sequence[Item]) -> Measure | None:
    """By evalcard's own rule: the group's measure, else the first metric that is a mean, by the first filter."""
    usable = [name for name in told.filters if not told.needs_several(name)] or told.filters
    if told.wishes:
        metric = told.wishes[0][0]
        offered = [name for _, name in told.wishes]
        order = [*(name for name in usable if name in offered), *offered, *usable]
        found = next(((metric, name) for name in order if _is_mean(told, (metric, name), items)), None)
        if found is not None:
            return found
    return next(((m, name) for name in usable for m in _metrics(told) if _is_mean(told, (m, name), items)), None)


def _metrics(told: Told) -> list[str]:
    """In the task's own order, then as the results name them; 'bypass' is no score."""
    listed = told.config.get("metric_list")
    stated = [str(one.get("metric")) for one in listed or () if isinstance(one, dict)]
    scored = [metric for metric, _ in measures_in(told.figures)]
    return [name for name in dict.fromkeys([*stated, *scored]) if name in scored and name != "bypass"]


def _is_mean(told: Told, measure: Measure, items: Sequence[Item]) -> bool:
    """As the task's file says, and as the items' values come to the printed score."""
    listed = [one for one in told.config.get("metric_list") or () if isinstance(one, dict)]
    stated = next((one.get("aggregation") for one in listed if one.get("metric") == measure[0]), None)
    values = [item.values.get(measure) for item in items]
    is_stated = stated is None or stated == "mean" or not str(stated).isidentifier()
    return is_stated and is_mean_of(told.figures.get(",".join(measure)), values)


def _has_no_mean(told: Told) -> bool:
    """Whether the task's file says of every metric that its score is none of the mean of its items'."""
    listed = [one for one in told.config.get("metric_list") or () if isinstance(one, dict)]
    stated = {one.get("metric"): one.get("aggregation") for one in listed}
    scored = {metric for metric, _ in measures_in(told.figures)}
    return all((stated.get(one) or ("" if one in _OVER_ALL else "mean")) != "mean" for one in scored)


def _direction(told: Told, metric: str) -> bool | None:
    """Whether higher is better: by the results, else by the task's file, else as the metric is known; else None."""
    table = told.about("higher_is_better", {})
    listed = told.config.get("metric_list")
    entries = [one for one in listed or () if isinstance(one, dict) and one.get("metric") == metric]
    said = [table.get(metric) if isinstance(table, dict) else None, *(one.get("higher_is_better") for one in entries)]
    return next((one for one in said if isinstance(one, bool)), known_direction(metric))


def _record(told: Told, primary: Measure, items: Sequence[Item], higher_is_better: bool) -> TaskRecord:
    config, counts = told.config, told.about("n-samples", {})
    counted = counts if isinstance(counts, dict) else {}
    selected = max(len(items), count_of(counted.get("effective"), "n-samples"))
    total = max(selected, count_of(counted.get("original"), "n-samples"))
    ids = [item_id(told, item) for item in items]
    generation = config.get("generation_kwargs")
    written = dict(generation) if isinstance(generation, dict) and told.output_type == "generate_until" else {}
    stops = written.get("until")
    choices = [len(choices_of(told, item)) for item in items] if told.output_type == "multiple_choice" else []
    stated = number(told.stated.get("chance"))
    return TaskRecord(
        name=told.name,
        source="lm_eval",
        version=str(told.about("versions", "unknown")),
        metric=primary[0],
        filter=primary[1],
        category=str(told.stated.get("category") or DEFAULT_CATEGORY),
        chance=chance_of(choices) if stated is None else stated,
        higher_is_better=higher_is_better,
        num_fewshot=count_of(told.about("n-shot", 0), "n-shot"),
        repeats=1,
        decoding=_decoding(written, told.seed) if told.output_type == "generate_until" else "scored",
        chat_template=bool(told.header.get("chat_template")),
        items_total=total,
        items_selected=selected,
        selection=selection_words(ids, selected, total),
        item_ids=None if selected == total else ids,
        stop_strings=[stops] if isinstance(stops, str) else [str(one) for one in stops or ()],
        **_dataset(config),
    )


def _decoding(arguments: Mapping[str, Any], seed: int | None) -> str:
    """lm-eval samples where ``do_sample`` (by default whether temperature > 0) and a temperature above 0 say so."""
    temperature = as_number(arguments.get("temperature")) or 0.0
    do_sample = arguments.get("do_sample")
    if temperature <= 0 or (do_sample is not None and not do_sample):
        return "greedy"
    top_k = as_number(arguments.get("top_k"))
    return sampling_words(temperature, as_number(arguments.get("top_p")), int(top_k) if top_k else None,
                          as_number(arguments.get("min_p")), seed)  # fmt: skip


def _dataset(config: Mapping[str, Any]) -> dict[str, Any]:
    """Where documents come from on the Hub; nothing for files of somebody's own."""
    path = config.get("dataset_path")
    if not isinstance(path, str) or path.startswith(_NOT_ON_HUB) or not _DATASET.fullmatch(path):
        return {}
    name, split = config.get("dataset_name"), config.get("test_split") or config.get("validation_split")
    told = {"dataset_config": name, "dataset_split": split}
    return {"dataset": path} | {key: str(value) for key, value in told.items() if value is not None}
