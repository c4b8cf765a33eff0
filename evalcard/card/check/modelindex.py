"""``model-index``: results as the Hub's older format nests them, and what readers of it lose."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from evalcard.card.check.faults import MISSING, Faults, get
from evalcard.card.check.frontmatter import Path
from evalcard.card.check.names import is_path
from evalcard.card.check.problem import shown

_KEY = "model-index"
_IDENTITY = ("type", "config", "split", "revision")


def check_model_index(faults: Faults, value: Any) -> None:
    """Required keys and types, finite values, and results that no reader merges into one."""
    if value is MISSING or value is None:
        return
    entries = faults.array((_KEY,), value) or []
    if len(entries) > 1:
        what = f"{len(entries)} entries: readers take them for one model and keep the last name"
        faults.add((_KEY,), what, "Keep one entry with all results.", "warning")
    for number, entry in enumerate(entries):
        found = faults.mapping((_KEY, number), entry)
        if found is not None:
            _entry(faults, (_KEY, number), found)


def _entry(faults: Faults, path: Path, entry: Mapping[str, Any]) -> None:
    faults.text((*path, "name"), get(entry, "name"), advice="Give the model's name.")
    results = faults.array((*path, "results"), get(entry, "results")) or []
    identities: Counter[tuple[str, ...]] = Counter()
    for number, result in enumerate(results):
        at = (*path, "results", number)
        found = faults.mapping(at, result)
        if found is None:
            continue
        identity = _result(faults, at, found)
        identities[identity] += 1
        if identities[identity] == 2 and any(identity):
            what = "it has the task, data set, config, split and revision of another result, and readers merge the two"
            faults.add(at, what, "Put their metrics into one result, or give what tells them apart.")


def _result(faults: Faults, path: Path, result: Mapping[str, Any]) -> tuple[str, ...]:
    """Checks one result; returns what readers know it by."""
    task = faults.mapping((*path, "task"), get(result, "task")) or {}
    if task:
        faults.text((*path, "task", "type"), get(task, "type"))
        faults.text((*path, "task", "name"), get(task, "name"), need=False)
    dataset = faults.mapping((*path, "dataset"), get(result, "dataset")) or {}
    if dataset:
        _dataset(faults, (*path, "dataset"), dataset)
    _metrics(faults, (*path, "metrics"), get(result, "metrics"))
    source = get(result, "source")
    if source not in (MISSING, None):
        found = faults.mapping((*path, "source"), source) or {}
        url = faults.text((*path, "source", "url"), get(found, "url"))
        if url and not url.startswith(("https://", "http://")):
            faults.add((*path, "source", "url"), f"{shown(url)} is no URL", "Begin it with https://.")
        faults.text((*path, "source", "name"), get(found, "name"), need=False)
    return (str(task.get("type", "")), *(str(dataset.get(key) or "") for key in _IDENTITY))


def _dataset(faults: Faults, path: Path, dataset: Mapping[str, Any]) -> None:
    kind = faults.text((*path, "type"), get(dataset, "type"), advice="Give the data set's Hub id, or the task's name.")
    if kind and is_path(kind):
        faults.add((*path, "type"), f"{shown(kind)} is a local path", "Give the data set's Hub id, or the task's name.")
    faults.text((*path, "name"), get(dataset, "name"), advice="Give a name for readers.")
    for key in ("config", "split", "revision"):
        advice = f'Put it in quotes: "{dataset.get(key)}".'
        faults.text((*path, key), get(dataset, key), need=False, advice=advice)
    if get(dataset, "args") not in (MISSING, None):
        faults.mapping((*path, "args"), dataset["args"])


def _metrics(faults: Faults, path: Path, value: Any) -> None:
    seen: Counter[str] = Counter()
    for number, one in enumerate(faults.array(path, value) or []):
        at = (*path, number)
        metric = faults.mapping(at, one)
        if metric is None:
            continue
        faults.text((*at, "type"), get(metric, "type"))
        faults.number((*at, "value"), get(metric, "value"))
        for key in ("name", "config"):
            faults.text((*at, key), get(metric, key), need=False)
        if metric.get("verified") is True and "verifyToken" not in metric:
            what, advice = "only Hugging Face can verify a score", "Remove it."
            faults.add((*at, "verified"), what, advice, "warning")
        parts = [metric.get(key) for key in ("type", "name", "config", "args")]
        seen[known := json.dumps(parts, default=str)] += 1
        if seen[known] == 2:
            faults.add(at, "the same metric is given twice", "Keep one, or give each a name of its own.")
