"""The gate file: limits in YAML, read strictly, and written with the models they were set for and why they changed."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import yaml

from evalcard.errors import UserError
from evalcard.gate.calibration import calibrate
from evalcard.gate.history import Change, Moved, changes_between, check_reason, whole
from evalcard.gate.lmeval_yaml import read_lmeval
from evalcard.gate.spec import DEFAULT_CONFIDENCE, Bounds, Calibration, GateSpec
from evalcard.gate.strict import Place, read_mapping
from evalcard.gate.verdict import Decide
from evalcard.results.compared import Comparison
from evalcard.results.files import write_whole
from evalcard.results.lock import file_lock
from evalcard.results.records import RunRecord

_BOUNDS = ("min_recovery", "max_drop", "min_score")
_SET_FOR = ("baseline", "baseline_revision", "compressed", "date", "scores")
_CHANGE = ("date", "what", "from", "to", "reason")
_KEYS = (*_BOUNDS, "tasks", "averages", "overall", "confidence", "decide", "set_for", "changes")

_NOTHING = Bounds()
_HEAD = """\
# Limits of the release gate, for `evalcard gate RUN --gate-file THIS` and `evalcard run --gate-file THIS`.
# min_recovery: least score, in percent of the baseline's. max_drop: greatest loss, in points (where lower is better: in
# the metric's own unit). min_score: least score of the compressed model by itself, in percent. Equal to a limit passes.
# At the top they are limits of every row; tasks, averages (by category) and overall have limits of their own, kind by
# kind; a number alone is a min_recovery. set_for and changes are kept by `evalcard gate --write-gate THIS`: it writes
# this file anew, without other comments, and asks for a reason where a limit is lowered or set for other models.
"""


def load_gate(path: Path) -> GateSpec:
    """Read a gate file, or an lm-eval test of llm-compressor's (gate/lmeval_yaml.py).

    Raises UserError for anything in it that is not known, twice there, or no limit at all.
    """
    return read_lmeval(path) or _load(path)[0]


def write_gate(
    path: Path, spec: GateSpec, run: RunRecord, comparison: Comparison, reason: str | None
) -> list[Moved] | None:
    """Create or update a gate file with these limits, set today for the models and scores of this run.

    Returns what changed in an existing file, which is added to its history, and None for a new one. Raises UserError,
    and writes nothing, where a limit is lowered, dropped or set for other models without a reason, nothing is asked, or
    the existing file cannot be read.
    """
    if spec.asks_nothing:
        raise UserError(f"there is no limit to write to {path}. Give one, such as --min-recovery 99.")
    today = _today()
    written = replace(spec, set_for=calibrate(run, comparison, today))
    # Who reads the history and adds to it must be alone with it, or the entries of another are lost.
    with file_lock(path):
        before, history = _load(path) if path.exists() else (None, [])
        found = changes_between(before, written) if before is not None else []
        check_reason(path, found, reason)
        said = reason.strip() if reason and reason.strip() else None
        history += [Change(today.isoformat(), one.what, one.before, one.after, said) for one in found]
        text = yaml.safe_dump(_as_data(written, history), sort_keys=False, allow_unicode=True, width=1000)
        write_whole(path, (_HEAD + text).encode("utf-8"))
    return found if before is not None else None


def merge(
    file: GateSpec | None,
    *,
    every: Bounds = _NOTHING,
    tasks: Mapping[str, Bounds] | None = None,
    averages: Mapping[str, Bounds] | None = None,
    overall: Bounds = _NOTHING,
    confidence: float | None = None,
    decide: Decide | None = None,
) -> GateSpec:
    """Limits from flags over those of a gate file, each flag over the file's limit of the same place and kind.

    A row's own limit in the file so stays over a flag for every row. The default of 99 % for every row holds only where
    neither gives any limit at all.
    """
    if file is None:
        is_given = any(list(bounds) for bounds in (every, overall, *(tasks or {}).values(), *(averages or {}).values()))
        file = GateSpec(every=_NOTHING) if is_given else GateSpec()
    return replace(
        file,
        every=every.over(file.every),
        tasks=_over(tasks or {}, file.tasks),
        averages=_over(averages or {}, file.averages),
        overall=overall.over(file.overall),
        confidence=file.confidence if confidence is None else confidence,
        decide=decide or file.decide,
    )


def _over(flags: Mapping[str, Bounds], file: Mapping[str, Bounds]) -> dict[str, Bounds]:
    return {**file, **{name: bounds.over(file.get(name, _NOTHING)) for name, bounds in flags.items()}}


def _today() -> date:
    return datetime.now(UTC).date()


def _load(path: Path) -> tuple[GateSpec, list[Change]]:
    """(limits, history)."""
    top = read_mapping(path, _KEYS)
    parts = {
        "every": _bounds(top, top.data),
        "tasks": _named_bounds(top, "tasks"),
        "averages": _named_bounds(top, "averages"),
        "overall": _bounds(top.at("overall"), top.data.get("overall", {})),
        "confidence": top.number("confidence", DEFAULT_CONFIDENCE),
        "decide": top.data.get("decide", "interval"),
        "set_for": _calibration(top.mapping("set_for", _SET_FOR)) if "set_for" in top.data else None,
    }
    spec = top.made(lambda: GateSpec(**parts))
    if spec.asks_nothing:
        raise UserError(f"the gate file {path} has no limit. Give it one, such as `min_recovery: 99`.")
    entries = top.entries("changes", _CHANGE)
    return spec, [_change(entry) for entry in entries]


def _named_bounds(top: Place, key: str) -> dict[str, Bounds]:
    named = top.mapping(key)
    return {name: _bounds(named.at(name), given) for name, given in named.data.items()}


def _bounds(place: Place, given: Any) -> Bounds:
    """From a mapping of limits, or a number, which is a least recovery. The top's other keys are left out."""
    if not isinstance(given, dict):
        return place.made(lambda: Bounds(min_recovery=place.as_number(given)))
    if place.where:
        place.check_keys(given, _BOUNDS)
    limits = {kind: place.at(kind).as_number(given[kind]) for kind in _BOUNDS if kind in given}
    return place.made(lambda: Bounds(**limits))


def _calibration(place: Place) -> Calibration:
    compressed, scores = place.mapping("compressed"), place.mapping("scores")
    return Calibration(
        baseline=place.text("baseline"),
        baseline_revision=place.text_or_none("baseline_revision"),
        compressed={name: compressed.text_or_none(name) for name in compressed.data},
        date=place.text("date"),
        scores={row: scores.number(row, 0.0) for row in scores.data},
    )


def _change(entry: Place) -> Change:
    before, after = entry.data.get("from"), entry.data.get("to")
    return Change(entry.text("date"), entry.text("what"), before, after, entry.text_or_none("reason"))


def _as_data(spec: GateSpec, changes: list[Change]) -> dict[str, Any]:
    """In the order of the keys; what is not set is left out."""
    data: dict[str, Any] = _plain(spec.every)
    named = {"tasks": spec.tasks, "averages": spec.averages}
    for key, bounds in named.items():
        if bounds:
            data[key] = {name: _plain(one) for name, one in bounds.items()}
    if list(spec.overall):
        data["overall"] = _plain(spec.overall)
    data |= {"confidence": spec.confidence, "decide": spec.decide}
    if spec.set_for is not None:
        data["set_for"] = asdict(spec.set_for)
    if changes:
        data["changes"] = [change.as_data() for change in changes]
    return data


def _plain(bounds: Bounds) -> dict[str, Any]:
    return {kind: whole(limit) for kind, limit in bounds}
