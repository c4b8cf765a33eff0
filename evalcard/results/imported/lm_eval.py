"""lm-eval's results: ``results_<date>.json`` beside ``samples_<task>_<date>.jsonl``, as --log_samples writes them.

Shapes as in lm-eval 0.4.3 to 0.4.13 (loggers/evaluation_tracker.py, evaluator.py).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.results.files import is_file
from evalcard.results.imported.answers import name_and_hub_id
from evalcard.results.imported.detect import Found, lacks
from evalcard.results.imported.files import damaged, json_lines, listed_short, read_json
from evalcard.results.imported.lm_eval_rows import preferences, rows_of
from evalcard.results.imported.lm_eval_task import Told, import_task
from evalcard.results.imported.parts import Log, Part, model_record
from evalcard.results.records import ModelRecord
from evalcard.results.stored import LeftOut

_TABLES = ("results", "configs", "versions")


def read_log(found: Found) -> Log:
    """A results file; a samples file by itself stands for its one task of the results file beside it."""
    return _log(found.path, read_json(found.path)) if found.role == "results" else _log_of_samples(found.path)


def read(log: Log, wanted: Sequence[str]) -> Part:
    """Raises UserError where samples of a wanted task are not there or damaged."""
    files = {task: log.path.with_name(f"samples_{task}_{_date(log.path)}.jsonl") for task in wanted}
    missing = [task for task, path in files.items() if not is_file(path)]
    if missing:
        raise UserError(
            f"{log.path} has scores of {listed_short(missing)}, but there is "
            f"no {files[missing[0]].name[:200]} beside it. Comparing goes item by item: run "
            "lm_eval again with --log_samples."
        )
    part, wishes = Part(), preferences(log.header)
    for task, path in files.items():
        told = Told(task, log.header, wishes.get(task), log.seed)
        record, answers = import_task(told, json_lines(path), str(path))
        if isinstance(record, LeftOut):
            part.left_out[task] = record
        else:
            part.add(record, log.identity, answers)
    part.rows.extend(rows_of(log.header, part.tasks))
    return part


def _log_of_samples(path: Path) -> Log:
    """The task is what its name says beyond the date, and the results file beside it confirms."""
    task, date = path.stem.removeprefix("samples_").rpartition("_")[::2]
    for beside in sorted(path.parent.glob("*.json")):
        if _date(beside) == date:
            log = _log(beside, read_json(beside))
            if task in log.tasks:
                return replace(log, tasks=(task,))
    raise UserError(
        f"{path} has answers, but there is no results_{date}.json beside it that scores {task!r}; lm_eval writes both. "
        "Copy it there, or name the folder that holds both."
    )


def _log(path: Path, header: dict[str, Any]) -> Log:
    for name in _TABLES:
        if header.get(name) is None:
            raise UserError(lacks(str(path), [name]))
        if not isinstance(header[name], dict):
            raise damaged(str(path), f"{name!r} is no object")
    if "n-samples" not in header:
        raise UserError(f"{path} does not say how many items its tasks have: lm-eval before 0.4.3 wrote it. Run again.")
    config: Mapping[str, Any] = header["config"] if isinstance(header.get("config"), dict) else {}
    given = str(header.get("model_name") or config.get("model") or "model")
    arguments = config.get("model_args")
    version = header.get("lm_eval_version")
    seed = config.get("torch_seed")
    return Log(
        path=path,
        writer=f"lm_eval {version}" if version else "lm_eval",
        model=_model(given, header, config),
        names=(given, str(header.get("model_name_sanitized") or given)),
        identity=json.dumps(["lm_eval", given, header.get("model_source"), arguments], sort_keys=True, default=str),
        created=_created(header, path),
        tasks=tuple(name for name in header["results"] if name in header["configs"]),
        header=header,
        seed=seed if type(seed) is int else None,
    )


def _model(given: str, header: Mapping[str, Any], config: Mapping[str, Any]) -> ModelRecord:
    """A commit of the Hub is told for a model of the Hub only; an empty one says that it was a folder."""
    revision = config.get("model_sha")
    name, hub_id = name_and_hub_id(given, is_local=revision == "")
    template = header.get("chat_template") or None
    told = {"lm_eval": header.get("lm_eval_version"), "transformers": header.get("transformers_version"),
            "backend": header.get("model_source"), "dtype": config.get("model_dtype")}  # fmt: skip
    digest = None if template is None else hashlib.sha256(json.dumps(template).encode()).hexdigest()
    return model_record(name, hub_id, {key: value for key, value in told.items() if value}, revision, digest)


def _date(path: Path) -> str:
    """The date in the name of a results file; it is in the names of its samples, too."""
    return path.stem.rpartition("_")[2]


def _created(header: Mapping[str, Any], path: Path) -> str | None:
    """When the run began, else the date in the file's name, which has dashes for the colons of ISO 8601."""
    began = header.get("date")
    try:
        if isinstance(began, (int, float)):
            return datetime.fromtimestamp(began, UTC).isoformat()
        day, _, time = _date(path).partition("T")
        return datetime.fromisoformat(f"{day}T{time.replace('-', ':')}").isoformat()
    except (ValueError, OverflowError, OSError):
        return None
