"""Limits belong to the models they were set for: is this run one of them?"""

from datetime import date

from evalcard.gate.spec import Calibration
from evalcard.results.compared import Comparison
from evalcard.results.records import ModelRecord, RunRecord

NOT_CALIBRATED = "gate not calibrated for this model"


def name_of(model: ModelRecord) -> str:
    """As a gate file names it: Hub id or folder name, with ``:scheme`` where one was applied on the fly."""
    return f"{model.name}:{model.scheme}" if model.scheme else model.name


def calibrate(run: RunRecord, comparison: Comparison, day: date) -> Calibration:
    """What limits are set for that are set today, on this run."""
    baseline, *compressed = run.models
    return Calibration(
        baseline=name_of(baseline),
        baseline_revision=baseline.revision,
        compressed={name_of(model): model.revision for model in compressed},
        date=day.isoformat(),
        scores={row.task: row.baseline.score for row in comparison.tasks},
    )


def not_calibrated(set_for: Calibration | None, run: RunRecord | None, slug: str) -> list[str]:
    """Why these limits may say nothing of this model: they were set for others. One line, or none."""
    if set_for is None or run is None:
        return []
    baseline = run.models[0]
    model = next((one for one in run.models[1:] if one.slug == slug), None)
    others = [name_of(baseline)] if name_of(baseline) != set_for.baseline else []
    others += [name_of(model)] if model is not None and name_of(model) not in set_for.compressed else []
    if not others:
        return []
    return [
        f"{slug}: {NOT_CALIBRATED}: its limits were set on {set_for.date} for "
        f"{', '.join(set_for.compressed) or 'no compressed model'} against {set_for.baseline}, not for "
        f"{' and '.join(others)}. Check that the limits suit it, then keep them for it: evalcard gate RUN "
        "--gate-file FILE --write-gate FILE --reason WHY."
    ]


def other_revisions(set_for: Calibration | None, run: RunRecord | None) -> list[tuple[str | None, str]]:
    """Models of the same names as those the limits were set for, at another commit; or none that are known.

    (slug, text) of each; the slug is None for what concerns every compressed model.
    """
    if set_for is None:
        return []
    if run is None:
        said = f"Whether the limits were set for these models ({set_for.baseline}) is not known"
        return [(None, f"{said}: there is no run record.")]
    known = {set_for.baseline: set_for.baseline_revision, **set_for.compressed}
    return [
        (
            model.slug if model.role == "compressed" else None,
            f"{name_of(model)} is at revision {model.revision}; the limits were set on {set_for.date} for "
            f"{known[name_of(model)]}.",
        )
        for model in run.models
        if model.revision and known.get(name_of(model)) not in (None, model.revision)
    ]
