"""One task of lighteval -> its record and its graded answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalcard.results.imported.answers import (
    Answer,
    as_number,
    chance_of,
    hash_document,
    is_mean_of,
    name_and_hub_id,
    sampling_words,
    selection_words,
)
from evalcard.results.imported.directions import unknown_direction
from evalcard.results.imported.files import damaged
from evalcard.results.imported.lighteval_details import FILTER, Detail, Told, answer_of, read_details
from evalcard.results.records import DEFAULT_CATEGORY, ItemId, TaskRecord
from evalcard.results.stored import LeftOut


def import_task(told: Told, path: Path) -> tuple[TaskRecord | LeftOut, list[Answer]]:
    """(record, or why there is none, and answers by document). Raises UserError for details that are damaged."""
    details = list(read_details(path))
    if not details:
        raise damaged(str(path), "it holds no answers")
    metric = next((name for name in told.metrics if _is_mean(told, name, details)), None)
    if metric is None:
        return LeftOut(f"{(', '.join(told.metrics) or 'its metrics')[:200]}: no mean over items", told.has_no_mean), []
    better = told.metrics[metric]
    if better is None:
        return LeftOut(unknown_direction(metric)), []
    chosen = [one for one in details if one.values.get(metric) is not None]
    ids = _item_ids(chosen, path)
    in_order = sorted(zip(ids, chosen, strict=True), key=lambda pair: (isinstance(pair[0], str), pair[0]))
    record = _record(told, metric, better, [one for _, one in in_order], [name for name, _ in in_order])
    means = {name for name in told.metrics if _is_mean(told, name, details)}
    return record, [answer_of(told, record, item_id, one, means) for item_id, one in in_order]


def _is_mean(told: Told, metric: str, details: Sequence[Detail]) -> bool:
    """Over the answers that were judged by it: those of its own way of asking."""
    values = [one.values[metric] for one in details if one.values.get(metric) is not None]
    return is_mean_of(told.figures.get(metric), values)


def _item_ids(details: Sequence[Detail], path: Path) -> list[ItemId]:
    """Positions in their split; where a task has several splits, those that meet get 8 hex of what they ask."""
    stored = [str(one.doc.get("id", "")) for one in details]
    several = {one for one in stored if stored.count(one) > 1} if len(set(stored)) < len(stored) else set()
    ids: list[ItemId] = [
        f"{one}-{hash_document(detail.document)[:8]}" if one in several else int(one) if one.isdecimal() else one
        for one, detail in zip(stored, details, strict=True)
    ]
    if len(set(ids)) < len(ids):
        raise damaged(str(path), "it holds the same document twice")
    return ids


def _record(
    told: Told, metric: str, higher_is_better: bool, details: Sequence[Detail], ids: Sequence[ItemId]
) -> TaskRecord:
    config, selected = told.config, len(details)
    limit = told.header["config_general"].get("max_samples")
    # With --max-samples the size of the task is not stored; positions go at least so far.
    known = max([selected, *(one + 1 for one in ids if isinstance(one, int))]) if limit else selected
    total = max(known, int(as_number(config.get("original_num_docs")) or 0))
    scored = [one for one in details if one.is_scored]
    stops = config.get("stop_sequence")
    return TaskRecord(
        name=told.name,
        source="file",
        version=str(config.get("version", told.header.get("versions", {}).get(told.key, "unknown"))),
        metric=metric,
        filter=FILTER,
        category=DEFAULT_CATEGORY,
        chance=chance_of([len(one.doc.get("choices") or ()) for one in scored]) if len(scored) == selected else 0.0,
        higher_is_better=higher_is_better,
        num_fewshot=_shots(told),
        repeats=1,
        decoding="scored" if scored else _decoding(told.generation),
        chat_template=bool(told.header["model_config"].get("override_chat_template")),
        items_total=total,
        items_selected=selected,
        selection=selection_words(ids, selected, total),
        item_ids=None if selected == total else list(ids),
        stop_strings=[str(one) for one in stops] if isinstance(stops, list) else [],
        **_dataset(config),
    )


def _shots(told: Told) -> int:
    stated = as_number(told.config.get("num_fewshots"))
    parts = [part for part in told.key.split("|")[1:] if part.isdecimal()]
    return int(stated) if stated is not None else int(parts[0]) if parts else 0


def _decoding(given: Mapping[str, Any]) -> str:
    """lighteval is greedy unless a temperature is given."""
    temperature = as_number(given.get("temperature")) or 0.0
    if temperature <= 0:
        return "greedy"
    top_k, seed = as_number(given.get("top_k")), as_number(given.get("seed"))
    return sampling_words(temperature, as_number(given.get("top_p")), int(top_k) if top_k else None,
                          as_number(given.get("min_p")), None if seed is None else int(seed))  # fmt: skip


def _dataset(config: Mapping[str, Any]) -> dict[str, Any]:
    repo, subset, splits = config.get("hf_repo"), config.get("hf_subset"), config.get("evaluation_splits")
    if not isinstance(repo, str) or name_and_hub_id(repo)[1] is None:
        return {}
    split = ", ".join(map(str, splits)) if isinstance(splits, list) else None
    return {"dataset": repo, "dataset_config": str(subset) if subset else None, "dataset_split": split}
