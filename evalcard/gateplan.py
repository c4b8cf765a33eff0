"""The gate of a run that has not started: which limits it will be judged by, and whether they fit what is run."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalcard.card.limits import wanted
from evalcard.errors import UserError
from evalcard.forecast import Average, averages_of
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.results.compared import OVERALL
from evalcard.results.records import RowRecord, TaskRecord
from evalcard.spec import RunSpec


def gate_of(spec: RunSpec, asks_power: bool = False) -> GateSpec | None:
    """The limits of the gate file, with those of the spec before them; None where neither gives any.

    Raises UserError for a gate file that cannot be used, and where nothing or nobody would be judged. ``asks_power``:
    nobody is to be, as only the forecast is wanted.
    """
    if spec.gate_file is None and spec.min_recovery is None:
        if spec.confidence is not None and not asks_power:
            raise UserError(
                f"--confidence {spec.confidence:g} is that of the gate, but there is no limit to decide on. Add "
                "--min-recovery 99 or --gate-file FILE; `evalcard gate --confidence` judges a finished run."
            )
        return None
    if not spec.compressed and not asks_power:
        raise UserError(
            "the run is to be judged, but there is no compressed model. Add one with --compressed, or leave out "
            "--min-recovery and --gate-file."
        )
    from evalcard.gate.gatefile import load_gate, merge

    file = load_gate(Path(spec.gate_file).expanduser()) if spec.gate_file is not None else None
    every = Bounds(min_recovery=spec.min_recovery)
    return merge(file, every=every, tasks={}, averages={}, overall=Bounds(), confidence=spec.confidence, decide=None)


def refuse_unfit_limits(gate: GateSpec, rows: Sequence[RowRecord], tasks: Mapping[str, TaskRecord]) -> None:
    """Raise UserError for a limit on what the run does not have, which would be held against nothing, and for those
    that nothing can be held against. tasks: by name."""
    averages = averages_of(rows, tasks)
    _refuse_absent("task", gate.tasks, [row.name for row in rows])
    _refuse_absent("category", gate.averages, [one.name for one in averages if one.scope == "average"])
    asked = {(scope, name): bounds for scope, name, bounds in _asked(gate, rows)}
    mixed = [one for one in averages if not one.has_one_direction and list(asked.get((one.scope, one.name), ()))]
    if mixed:
        raise UserError(
            f"the gate has a limit on {', '.join(map(_average_name, mixed))}, but there is no such average: higher is "
            "better on some of its rows and lower on others. Set limits on the rows instead."
        )
    falling = [row.name for row in rows if not tasks[row.tasks[0]].higher_is_better]
    falling += [one.name for one in averages if not tasks[one.rows[0].tasks[0]].higher_is_better]
    unfit = [name for (_, name), bounds in asked.items() if bounds.min_score is not None and name in falling]
    if unfit:
        raise UserError(
            f"the gate asks a least score (min_score) of {', '.join(unfit)}, where lower is better. Use min_recovery "
            "or max_drop there, and name the rows that min_score is for."
        )


def _refuse_absent(what: str, limits: Mapping[str, Bounds], there: Sequence[str]) -> None:
    absent = [name for name in limits if name not in there]
    if absent:
        raise UserError(
            f"the gate has a limit on {', '.join(absent)}, but the run has no such {what}. It has: {', '.join(there)}. "
            "Add what is missing to --tasks, or leave the limit out."
        )


def _asked(gate: GateSpec, rows: Sequence[RowRecord]) -> Iterator[tuple[str, str, Bounds]]:
    yield from (("task", row.name, gate.of_row(row.name)) for row in rows)
    yield from (("average", name, bounds) for name, bounds in gate.averages.items())
    yield ("overall", OVERALL, gate.overall)


def _average_name(average: Average) -> str:
    return "the overall average" if average.scope == "overall" else f"the average of {average.name}"


def gate_summary(gate: GateSpec, rows: Sequence[RowRecord]) -> dict[str, Any]:
    """For a program: every limit by what it is on, in percent or points."""
    limits = gate.limits([row.name for row in rows])
    named = [dict(zip(("scope", "name", "kind", "limit"), one, strict=True)) for one in limits]
    return {"limits": named, "confidence": gate.confidence, "decide": gate.decide}


def gate_in_words(gate: GateSpec) -> str:
    """Its limits, each once: ``recovery >= 99 % on every row, decided at 95 % confidence``."""
    bounds = [("every row", gate.every), *gate.tasks.items()]
    bounds += [(f"the average of {name}", one) for name, one in gate.averages.items()]
    bounds += [("the overall average", gate.overall)]
    asked = [f"{wanted(kind, limit)} on {name}" for name, one in bounds for kind, limit in one]
    how = f"at {100 * gate.confidence:g} % confidence" if gate.decide == "interval" else "by the measured value itself"
    return f"{', '.join(asked)}, decided {how}"
