"""inspect_ai's logs: one file for each task and model. See inspect_file.py for the two forms a log has."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.results.imported.answers import name_and_hub_id
from evalcard.results.imported.detect import Found
from evalcard.results.imported.files import damaged
from evalcard.results.imported.inspect_file import read_header, read_samples
from evalcard.results.imported.inspect_task import import_task
from evalcard.results.imported.parts import Log, Part, model_record, single_rows
from evalcard.results.records import ModelRecord
from evalcard.results.stored import LeftOut

_HUB_PROVIDERS = {"hf", "vllm", "sglang", "transformer_lens", "nnterp", "hf-inference-providers", "together"}
"""Providers whose models are named as on the Hub."""
_PATHS = ("model_path", "tokenizer_path")


def read_log(found: Found) -> Log:
    return _log(found.path, read_header(found.path))


def read(log: Log, wanted: Sequence[str]) -> Part:
    """Raises UserError where the log has no samples or is damaged."""
    if not log.header["has_samples"]:
        raise UserError(
            f"{log.path} has no samples. Comparing goes item by item: run inspect again without --no-log-samples."
        )
    part = Part()
    (name,) = wanted
    record, answers = import_task(name, log.header, read_samples(log.path), str(log.path))
    if isinstance(record, LeftOut):
        part.left_out[name] = record
    else:
        part.add(record, log.identity, answers)
    part.rows.extend(single_rows(part.tasks))
    return part


def _log(path: Path, header: dict[str, Any]) -> Log:
    spec = header.get("eval")
    if not isinstance(spec, dict) or not isinstance(spec.get("task"), str) or not isinstance(spec.get("model"), str):
        raise damaged(str(path), "it does not say which task and model were evaluated")
    packages = spec.get("packages")
    version = packages.get("inspect_ai") if isinstance(packages, dict) else None
    arguments = spec.get("model_args")
    config = header.get("plan", {}).get("config") if isinstance(header.get("plan"), dict) else None
    seed = config.get("seed") if isinstance(config, dict) else None
    return Log(
        path=path,
        writer=f"inspect_ai {version}" if version else "inspect_ai",
        model=_model(spec, version),
        names=(spec["model"],),
        identity=json.dumps(["inspect", spec["model"], arguments], sort_keys=True, default=str),
        created=_created(spec.get("created")),
        tasks=(_task_name(spec),),
        header=header,
        is_complete=header.get("status") == "success",
        seed=seed if type(seed) is int else None,
    )


def _task_name(spec: Mapping[str, Any]) -> str:
    """With the arguments that were given: ``mmlu`` of one subject is another task than of another."""
    given = spec.get("task_args_passed")
    if given is None:
        given = spec.get("task_args")
    words = [f"{key}={value if isinstance(value, str) else json.dumps(value)}"
             for key, value in sorted(given.items())] if isinstance(given, dict) else []  # fmt: skip
    return f"{spec['task']}({', '.join(words)})" if words else str(spec["task"])


def _model(spec: Mapping[str, Any], version: Any) -> ModelRecord:
    """``provider/model``; of a local folder, which ``model_path`` names, only the last part."""
    provider, _, rest = spec["model"].partition("/")
    arguments = spec.get("model_args")
    path = next((arguments[key] for key in _PATHS if key in arguments), None) if isinstance(arguments, dict) else None
    if isinstance(path, str) and rest.rpartition("/")[2] in ("local", ""):
        name, hub_id = name_and_hub_id(path)
    elif provider in _HUB_PROVIDERS and rest:
        name, hub_id = name_and_hub_id(rest)
    else:
        name, hub_id = name_and_hub_id(spec["model"], is_local=True)
    return model_record(name, hub_id, {"inspect_ai": version, "provider": provider})


def _created(stated: Any) -> str | None:
    try:
        found = datetime.fromisoformat(stated)
    except (TypeError, ValueError):
        return None
    return (found if found.tzinfo is None else found.astimezone(UTC)).isoformat()
