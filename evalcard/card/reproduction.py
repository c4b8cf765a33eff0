"""What names a run exactly: its spec as a file, the digests of its models, and its dates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalcard.card.escape import plain
from evalcard.card.paths import portable_word, without_paths
from evalcard.results.records import ModelRecord, RunRecord

_OF_THE_MACHINE = ("out", "reuse", "fresh", "data_root", "gate_file", "threads", "kv_memory", "step_tokens")
"""Fields of a spec that say where things lie, or how fast it goes, and touch no answer."""
_SHOWN_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Digests:
    """What tells one model from any other; None where the backend cannot."""

    who: str
    revision: str | None
    weights: str | None
    tokenizer: str | None
    template: str | None


@dataclass(frozen=True, slots=True)
class Reproduction:
    spec: str
    """YAML for ``evalcard run``; folders by their last part."""
    digests: tuple[Digests, ...]
    began: str
    """Day and time, UTC."""
    ended: str | None


def reproduction_of(run: RunRecord, models: list[ModelRecord], titles: Mapping[str, str]) -> Reproduction:
    """Of the models of one page; ``titles`` by slug."""
    return Reproduction(
        spec=spec_yaml(run),
        digests=tuple(_digests(model, titles[model.slug]) for model in models),
        began=_minute(run.created),
        ended=_minute(run.finished) if run.finished else None,
    )


def spec_yaml(run: RunRecord) -> str:
    """The spec as it was asked, which ``evalcard run FILE`` takes; empty where nothing was."""
    import yaml

    hub_ids = {model.hub_id for model in run.models if model.hub_id}
    shown = {key: _shown(key, value, hub_ids) for key, value in run.asked.items() if key not in _OF_THE_MACHINE}
    return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100) if shown else ""


def _shown(key: str, value: Any, hub_ids: set[str]) -> Any:
    if key == "baseline":
        return _model(value, hub_ids)
    if key == "compressed" and isinstance(value, list):
        return [_model(one, hub_ids) for one in value]
    return _portable(value, hub_ids, is_name=key in ("tasks", "model_args"))


def _model(value: Any, hub_ids: set[str]) -> Any:
    """``org/name@rev:scheme`` where that says all of it."""
    source = value.get("source") if isinstance(value, dict) else None
    if not isinstance(source, str):
        return _portable(value, hub_ids, is_name=True)
    text = portable_word(source, hub_ids)
    if value.get("args"):
        rest = {key: one for key, one in value.items() if key in ("revision", "scheme") and one}
        return {"source": text, **rest, "args": _portable(value["args"], hub_ids, is_name=True)}
    text += f"@{value['revision']}" if value.get("revision") else ""
    return f"{text}:{value['scheme']}" if value.get("scheme") else text


def _portable(value: Any, hub_ids: set[str], is_name: bool) -> Any:
    """``is_name``: it names a file, a task or a model; else words, in which a slash may mean anything."""
    if isinstance(value, dict):
        return {key: _portable(one, hub_ids, is_name) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(one, hub_ids, is_name) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return value
    return plain(portable_word(value, hub_ids) if is_name else without_paths(value))


def _digests(model: ModelRecord, who: str) -> Digests:
    return Digests(
        who=who,
        revision=model.revision,
        weights=_short(model.weights_digest),
        tokenizer=_short(model.tokenizer_digest),
        template=_short(model.template_digest),
    )


def _short(digest: str | None) -> str | None:
    """The first digits of a sha256, with the scheme and the quantizer that a weights digest may name behind it."""
    if not digest:
        return None
    head, plus, rest = digest.partition("+")
    return f"{head[:_SHOWN_DIGITS]}{plus}{rest}"


def _minute(moment: str) -> str:
    """``2026-11-30 10:00``"""
    return moment[:16].replace("T", " ")
