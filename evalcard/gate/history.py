"""How a gate file's limits changed: what was lowered needs a reason, and all of it is kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.gate.spec import Bounds, Calibration, GateSpec
from evalcard.gate.verdict import Kind

Value = float | str | None
_MODELS = "set_for."


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of a gate file's history."""

    date: str
    """ISO 8601."""
    what: str
    """The key that changed, such as ``tasks.gsm8k.min_recovery``."""
    before: Value
    """None where there was no such limit."""
    after: Value
    reason: str | None

    def as_data(self) -> dict[str, Any]:
        before, after = whole(self.before), whole(self.after)
        return {"date": self.date, "what": self.what, "from": before, "to": after, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Moved:
    """A limit, or the way of deciding, that is not what it was."""

    what: str
    before: Value
    after: Value
    is_lowered: bool
    """Whether a model may pass now that did not before: also one that the limits were not set for."""

    @property
    def is_of_models(self) -> bool:
        return self.what.startswith(_MODELS)

    def in_words(self) -> str:
        return f"{self.what} from {_said(self.before)} to {_said(self.after)}"


def whole(value: Any) -> Any:
    """A whole number without its decimals, as a person writes it; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def changes_between(before: GateSpec, after: GateSpec) -> list[Moved]:
    """What differs, by what is asked of each place: where a row has no limit of its own, every row's counts for it."""
    found = list(_of_bounds("", before.every, after.every))
    told = {(one.what, one.before, one.after) for one in found}
    for row in dict.fromkeys([*before.tasks, *after.tasks]):
        own = _of_bounds(f"tasks.{row}.", before.of_row(row), after.of_row(row))
        # A row that follows every row's limit says nothing of its own.
        found += [one for one in own if (one.what.rpartition(".")[2], one.before, one.after) not in told]
    found += _of_named("averages", before.averages, after.averages)
    found += _of_bounds("overall.", before.overall, after.overall)
    found += _of_models(before.set_for, after.set_for)
    if before.confidence != after.confidence:
        lower = after.confidence < before.confidence
        found.append(Moved("confidence", before.confidence, after.confidence, lower))
    if before.decide != after.decide:
        found.append(Moved("decide", before.decide, after.decide, after.decide == "point"))
    return found


def check_reason(path: Path, found: Sequence[Moved], reason: str | None) -> None:
    """Raises UserError where a limit is lowered, or set for other models, and no reason is given."""
    asked = [one for one in found if one.is_lowered]
    if not asked or (reason or "").strip():
        return
    lowered = "; ".join(one.in_words() for one in asked if not one.is_of_models)
    moved = "; ".join(one.in_words() for one in asked if one.is_of_models)
    done = [f"lowers {lowered}" if lowered else "", f"moves the limits to other models, {moved}," if moved else ""]
    raise UserError(
        f"this {' and '.join(filter(None, done))} in {path}, which asks for a reason. Say why with --reason; it is "
        "kept in the file. Nothing was written."
    )


def _of_models(before: Calibration | None, after: Calibration | None) -> Iterator[Moved]:
    """What a person's file, which names no models, is set for first is no change."""
    if before is None or after is None:
        return
    named = {
        "baseline": (before.baseline, after.baseline),
        "compressed": (", ".join(sorted(before.compressed)), ", ".join(sorted(after.compressed))),
    }
    yield from (Moved(f"{_MODELS}{key}", was, now, True) for key, (was, now) in named.items() if was != now)


def _of_named(key: str, before: Mapping[str, Bounds], after: Mapping[str, Bounds]) -> Iterator[Moved]:
    for name in dict.fromkeys([*before, *after]):
        yield from _of_bounds(f"{key}.{name}.", before.get(name, Bounds()), after.get(name, Bounds()))


def _of_bounds(prefix: str, before: Bounds, after: Bounds) -> Iterator[Moved]:
    old, new = dict(before), dict(after)
    for kind in dict.fromkeys([*old, *new]):
        was, now = old.get(kind), new.get(kind)
        if was != now:
            yield Moved(f"{prefix}{kind}", was, now, _is_lowered(kind, was, now))


def _is_lowered(kind: Kind, before: float | None, after: float | None) -> bool:
    if before is None:
        return False
    return after is None or (after > before if kind == "max_drop" else after < before)


def _said(value: Value) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float | int) else value
