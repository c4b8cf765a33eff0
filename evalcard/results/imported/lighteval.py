"""lighteval's results: ``results/<model>/results_<date>.json`` and, with --save-details, the answers in
``details/<model>/<date>/details_<task>_<date>.parquet``.

Shapes as in lighteval 0.11 to 0.13 (logging/evaluation_tracker.py, info_loggers.py).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.results.imported.answers import is_mean_of, name_and_hub_id
from evalcard.results.imported.detect import Found, found_in
from evalcard.results.imported.files import damaged, listed_short, read_json
from evalcard.results.imported.lighteval_details import Told
from evalcard.results.imported.lighteval_task import import_task
from evalcard.results.imported.parts import Log, Part, model_record, single_rows
from evalcard.results.records import ModelRecord, RowRecord
from evalcard.results.stored import LeftOut

_AVERAGE = ":_average"
_ALL = "all"
_SEARCHED_ABOVE = 12
"""Folders above a results file that may hold the details: a model's name may have several parts."""


def read_log(found: Found) -> Log:
    """A results file; details by themselves lead to the results file of their date, and stand for their one task."""
    return _log(found.path, read_json(found.path)) if found.role == "results" else _log_of_details(found.path)


def read(log: Log, wanted: Sequence[str]) -> Part:
    """Raises UserError where details of a wanted task are not there or damaged."""
    keys: Mapping[str, str] = log.header["keys"]
    files = _details(log.path, [keys[task] for task in wanted])
    missing = [task for task in wanted if keys[task] not in files]
    if missing:
        raise UserError(
            f"{log.path} has scores of {listed_short(missing)}, but its details of {_date(log.path)} are not there. "
            "Comparing goes item by item: run lighteval again with --save-details, and name the folder of both results "
            "and details."
        )
    part = Part()
    for task in wanted:
        record, answers = import_task(Told(task, keys[task], log.header), files[keys[task]])
        if isinstance(record, LeftOut):
            part.left_out[task] = record
        else:
            part.add(record, log.identity, answers)
    part.rows.extend(_rows(log, part))
    return part


def _log_of_details(path: Path) -> Log:
    date = _date(path)
    above = next((parent.parent for parent in path.parents if parent.name == "details"), None)
    for one in found_in(above / "results") if above is not None else ():
        if one.kind == "lighteval" and one.role == "results" and _date(one.path) == date:
            log = _log(one.path, read_json(one.path))
            tasks = tuple(task for task in log.tasks if f"details_{log.header['keys'][task]}_{date}" == path.stem)
            return replace(log, tasks=tasks or log.tasks)
    raise UserError(
        f"{path} has answers, but there is no results_{date}.json for it in a folder 'results' beside 'details'. "
        "Name the folder that holds both."
    )


def _log(path: Path, header: dict[str, Any]) -> Log:
    general, results, configs = (header.get(name) for name in ("config_general", "results", "config_tasks"))
    if not (isinstance(general, dict) and isinstance(results, dict) and isinstance(configs, dict)):
        raise damaged(str(path), "config_general, results and config_tasks are no objects")
    given = str(general.get("model_name") or "model")
    config = general.get("model_config") if isinstance(general.get("model_config"), dict) else {}
    assert isinstance(config, dict)
    keys = _named([key for key in results if key != _ALL and _AVERAGE not in key])
    seed = _generation(config).get("seed")
    return Log(
        path=path,
        writer="lighteval",
        model=_model(given, config, general.get("lighteval_sha")),
        names=(given,),
        identity=json.dumps(["lighteval", given, config], sort_keys=True, default=str),
        created=_created(path),
        tasks=tuple(keys),
        header={**header, "keys": keys, "model_config": config},
        seed=seed if type(seed) is int else None,
    )


def _named(keys: Sequence[str]) -> dict[str, str]:
    """Task name -> lighteval's key, ``name|shots`` or ``suite|name|shots|...``; the key where two names would meet."""
    names = [_name_of(key) for key in keys]
    return {name if names.count(name) == 1 else key: key for key, name in zip(keys, names, strict=True)}


def _name_of(key: str) -> str:
    parts = key.split("|")
    return parts[1] if len(parts) > 2 else parts[0]


def _model(given: str, config: Mapping[str, Any], commit: Any) -> ModelRecord:
    name, hub_id = name_and_hub_id(given)
    told = {"lighteval": commit, "dtype": config.get("dtype")}
    return model_record(name, hub_id, told, config.get("revision"))


def _generation(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found = config.get("generation_parameters")
    return found if isinstance(found, dict) else {}


def _details(results: Path, keys: Sequence[str]) -> dict[str, Path]:
    """Key -> details of the results file's date, in a folder ``details`` beside or above it."""
    date = _date(results)
    found: dict[str, Path] = {}
    for above in list(results.parents)[:_SEARCHED_ABOVE]:
        folder = above / "details"
        for path in sorted(folder.glob(f"**/{date}/details_*_{date}.parquet")) if folder.is_dir() else ():
            key = path.stem.removeprefix("details_").removesuffix(f"_{date}")
            found.setdefault(key, path)
        if found:
            break
    return {key: path for key, path in found.items() if key in keys}


def _rows(log: Log, part: Part) -> list[RowRecord]:
    """Averages that lighteval prints over subtasks (``mmlu:_average|5``) are plain means, so a row by that rule."""
    rows: list[RowRecord] = []
    pooled: set[str] = set()
    keys: Mapping[str, str] = log.header["keys"]
    for average, figures in log.header["results"].items():
        if _AVERAGE not in average or not isinstance(figures, dict):
            continue
        start, _, shots = average.partition(_AVERAGE)
        tasks = [task for task, key in keys.items() if key.startswith(f"{start}:") and key.endswith(shots)]
        measures = {part.tasks[task].metric for task in tasks if task in part.tasks}
        if len(measures) != 1 or any(task not in part.tasks for task in tasks) or pooled.intersection(tasks):
            continue
        (metric,) = measures
        scores = [log.header["results"][keys[task]].get(metric) for task in tasks]
        if is_mean_of(figures.get(metric), scores):
            name = start.rpartition("|")[2]
            is_taken = name in part.tasks or name in {row.name for row in rows}
            rows.append(RowRecord(name=average if is_taken else name, tasks=tasks, rule="mean"))
            pooled.update(tasks)
    return rows + single_rows(task for task in part.tasks if task not in pooled)


def _date(path: Path) -> str:
    return path.stem.rpartition("_")[2]


def _created(path: Path) -> str | None:
    """lighteval stores no other time; the local one, with dashes for the colons of ISO 8601."""
    day, _, time = re.sub(r"[^0-9T.-]", "", _date(path)).partition("T")
    try:
        return datetime.fromisoformat(f"{day}T{time.replace('-', ':')}").isoformat()
    except ValueError:
        return None
