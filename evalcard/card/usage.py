"""How a model is used and how it was made: what the snippets of a card name, and the recipe beside the weights."""

import re
from dataclasses import dataclass
from typing import Any

from evalcard.card.escape import shell
from evalcard.card.options import CardOptions
from evalcard.card.paths import without_paths
from evalcard.card.published import is_gguf, published_as
from evalcard.modelspec import DEMO, ModelSpec
from evalcard.results.records import ModelRecord, RunRecord
from evalcard_engine.quant.scheme import parse_scheme

_VLLM = frozenset({"compressed-tensors", "gptq", "awq", "fp8", "bitsandbytes", "modelopt"})
"""Values of quant_method that vLLM reads from a config.json by itself."""
_NEEDS = {
    "compressed-tensors": "compressed-tensors",
    "gptq": "gptqmodel optimum",
    "awq": "gptqmodel",
    "bitsandbytes": "bitsandbytes",
    "fp8": "accelerate",
}
"""What transformers loads each of them with, beside itself; others it does not load."""
_TASK_NAME = re.compile(r"(lm_eval/)?[\w-]+")


@dataclass(frozen=True, slots=True)
class Usage:
    """What the snippets name."""

    name: str
    """What a snippet loads: a Hub id, or a folder by its last part."""
    is_hub_id: bool
    revision: str | None
    """A snippet names none where the model is published under another id than it was measured as."""
    command: str | None
    """evalcard's own way to ask it a hundred items of one of the run's tasks; None where evalcard has none of them."""
    is_found: bool
    """Whether that command finds it wherever it is given: a Hub id, or the bundled model."""
    scheme: str | None
    """Applied by evalcard while loading; then there is no checkpoint that another program could open."""
    scheme_changes_weights: bool
    kv_cache: str | None
    """vLLM's name for the type of the KV cache, where the scheme asks for one that it has."""
    with_vllm: bool
    with_transformers: bool
    needs: str | None
    """Packages for transformers."""
    is_chat: bool
    """Whether it was asked with its chat template."""
    context: int | None
    """Tokens of the longest sequence that was asked for by the run; None where nothing limited it."""

    @property
    def says_something(self) -> bool:
        """Whether there is a way to use it that is known to be one."""
        return bool(self.scheme_changes_weights or self.with_vllm or self.with_transformers or self.command)


@dataclass(frozen=True, slots=True)
class Creation:
    """What is stored of how the compressed model was made."""

    made_by_evalcard: bool
    command: str | None
    """``evalcard quantize`` with what it was told, where the recipe says all of it."""
    recipe: str | None
    config: str | None
    """quantization_config of the checkpoint, as JSON."""


def is_unread(run: RunRecord, model: ModelRecord) -> bool:
    """Whether no file of a model was read, as its answers are another program's."""
    source = run.sources.get(model.slug)
    return source is not None and source.run is None and model.config is None


def usage_of(run: RunRecord, model: ModelRecord, options: CardOptions) -> Usage:
    """Of one compressed model."""
    scheme = parse_scheme(model.scheme) if model.scheme else None
    made_now = scheme is not None and scheme.changes_weights
    repo = published_as(run, model, options)
    method = quant_method(model)
    # What a model whose files nobody read is opened with is not known.
    is_file = not (made_now or is_gguf(model) or is_unread(run, model))
    limit = run.resolved.get("max_model_len")
    name = repo or model.hub_id or without_paths(model.name)
    bundled = _bundled(run, name)
    revision = None if repo or not model.hub_id else model.revision
    return Usage(
        name=name,
        is_hub_id=bool(repo or model.hub_id),
        revision=revision,
        command=_measuring(run, bundled or (f"{name}@{revision}" if revision else name), model.scheme, made_now),
        is_found=bool(repo or model.hub_id or bundled),
        scheme=model.scheme,
        scheme_changes_weights=made_now,
        kv_cache="fp8" if scheme is not None and scheme.kv_cache == "fp8_e4m3" else None,
        with_vllm=is_file and (method is None or method in _VLLM),
        with_transformers=is_file and (method is None or method in _NEEDS),
        needs=_NEEDS.get(method or ""),
        is_chat=any(task.chat_template for task in run.tasks),
        context=limit if isinstance(limit, int) else None,
    )


def _bundled(run: RunRecord, name: str) -> str | None:
    """``@demo`` for the model that comes with evalcard and lies in no folder of the reader's."""
    given = [run.resolved.get("baseline"), *(run.resolved.get("compressed") or ())]
    is_demo = any(isinstance(one, dict) and one.get("source") == DEMO for one in given)
    return DEMO if is_demo and name == ModelSpec(source=DEMO).name else None


def _measuring(run: RunRecord, source: str, scheme: str | None, beside_baseline: bool) -> str | None:
    """A scheme that is applied while loading is measured beside the model as it is; a checkpoint names no other."""
    task = _task(run)
    if task is None:
        return None
    with_scheme = f"{source}:{scheme}" if scheme else source
    models = ["--baseline", source, "--compressed", with_scheme] if beside_baseline else ["--baseline", with_scheme]
    return shell(["evalcard", "run", *models, "--tasks", task, "--limit", "100"])


def _task(run: RunRecord) -> str | None:
    """The first that was asked for, or else measured, whose name says where it is: a file of the user's lies elsewhere.
    The name of another program's task says nothing of one here, as it may have been given files of its own too."""
    sources = {task.name: task.source for task in run.tasks}
    of_rows = {row.name: {sources[name] for name in row.tasks if name in sources} for row in run.rows}
    asked = [task for task in run.resolved.get("tasks") or () if isinstance(task, str)]
    known = [task for task in asked if _TASK_NAME.fullmatch(task) and "file" not in of_rows.get(task, ())]
    is_own = all(source.run is not None for source in run.sources.values())
    for row, found in of_rows.items():
        if _TASK_NAME.fullmatch(row) and found in ({"evalcard"}, {"lm_eval"} if is_own else {"evalcard"}):
            known.append(row if found == {"evalcard"} else f"lm_eval/{row.removeprefix('lm_eval/')}")
    return next(iter(known), None)


def quant_method(model: ModelRecord) -> str | None:
    """``compressed-tensors``, ``gptq`` and so on, as config.json has it; None where it is not quantized."""
    value = _quantization(model).get("quant_method")
    return value if isinstance(value, str) else None


def creation_of(run: RunRecord, model: ModelRecord) -> Creation | None:
    """None where nothing is stored, and where the model was made while loading."""
    config = _quantization(model)
    facts = _facts(model.recipe)
    if not config and model.recipe is None:
        return None
    made_by_evalcard = facts.get("made_by") == "evalcard quantize"
    return Creation(
        made_by_evalcard=made_by_evalcard,
        command=_command(run, model, facts) if made_by_evalcard else None,
        recipe=None if model.recipe is None else without_paths(model.recipe),
        config=_shown(config) if config else None,
    )


def _quantization(model: ModelRecord) -> dict[str, Any]:
    found = (model.config or {}).get("quantization_config")
    return found if isinstance(found, dict) else {}


def _facts(recipe: str | None) -> dict[str, Any]:
    """What evalcard's own recipe says; of any other, nothing is relied on."""
    import yaml

    try:
        data = yaml.safe_load(recipe) if recipe else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _command(run: RunRecord, made: ModelRecord, facts: dict[str, Any]) -> str | None:
    """Round to nearest alone needs nothing but what the recipe holds; a calibration needs its texts. The folder is the
    one that the run's own command names."""
    model, scheme = facts.get("model"), facts.get("scheme")
    if facts.get("method") != "rtn" or not isinstance(model, str) or not isinstance(scheme, str):
        return None
    revision = facts.get("revision")
    source = _bundled(run, model) or (f"{model}@{revision}" if isinstance(revision, str) else model)
    out = without_paths(made.name).rpartition("/")[2] or f"{model.rpartition('/')[2]}-{scheme}"
    return shell(["evalcard", "quantize", source, "--scheme", scheme, "--out", out])


def _shown(config: dict[str, Any]) -> str:
    import json

    return without_paths(json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True))
