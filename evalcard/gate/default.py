"""Limits where none is given: those that the run was started with, else 99 % of every row."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any

from evalcard.errors import UserError
from evalcard.gate.gatefile import load_gate, merge
from evalcard.gate.spec import DEFAULT_MIN_RECOVERY, Bounds, GateSpec
from evalcard.results.records import RunRecord

_SETTINGS: Mapping[str, type | UnionType] = MappingProxyType(
    {"gate_file": str, "min_recovery": int | float, "confidence": int | float}
)


def default_limits(run: RunRecord) -> tuple[GateSpec, str]:
    """(limits, where they are from, in words): a run's own word on its card is not replaced by another question's.

    Raises UserError where the run was started with a gate file that cannot be read any more.
    """
    file, min_recovery, confidence = (_setting(run, name, kind) for name, kind in _SETTINGS.items())
    if file is None and min_recovery is None:
        return merge(None), f"{DEFAULT_MIN_RECOVERY:g} % of every row"
    limits = _load(run, file) if file is not None else None
    given = [f"--gate-file {file}"] if file is not None else []
    given += [f"--min-recovery {min_recovery:g}"] if min_recovery is not None else []
    given += [f"--confidence {confidence:g}"] if confidence is not None else []
    limits = merge(limits, every=Bounds(min_recovery=min_recovery), confidence=confidence)
    return limits, f"those that the run was started with, {' '.join(given)}"


def _setting(run: RunRecord, name: str, kind: type | UnionType) -> Any:
    value = run.resolved.get(name)
    if value is not None and not isinstance(value, kind):
        raise UserError(
            f"the run {run.name} is damaged: its {name} is {value!r}. Give its `evalcard run` command again, or a "
            "limit, such as --min-recovery 99."
        )
    return value


def _load(run: RunRecord, file: str) -> GateSpec:
    try:
        return load_gate(Path(file).expanduser())
    except UserError as error:
        raise UserError(
            f"no limit was given, and those that the run {run.name} was started with cannot be read: {error} Give "
            "limits, such as --gate-file FILE or --min-recovery 99."
        ) from None
