"""Stored results beside each other: read from disk as one model each, joined item by item, compared as a run is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from evalcard.compare.alike import title
from evalcard.compare.comparison import compare_run
from evalcard.compare.joined import SEVERITIES, compare_stored
from evalcard.errors import ComparisonRefused, UserError
from evalcard.results.agreement import read_agreeing
from evalcard.results.compared import Comparison, Finding
from evalcard.results.incomplete import is_incomplete
from evalcard.results.records import ModelRecord, RunRecord, SourceRecord
from evalcard.results.references import Reference, locate, pick, spellings
from evalcard.results.store import RunFolder
from evalcard.results.stored import StoredModel
from evalcard.unfinished import asked_for_compressed, lacking, read_unfinished, unfinished_models

__all__ = ["SideBySide", "compare_results", "compare_stored", "load_stored"]

Role = Literal["baseline", "compressed"]


@dataclass(frozen=True)
class SideBySide:
    """A comparison of stored results with the answers it was made of."""

    run: RunRecord
    """The baseline first."""
    comparison: Comparison
    baseline: StoredModel
    compressed: tuple[StoredModel, ...]
    """In the order of ``run.models``, under the slugs that they have there."""
    runs: tuple[RunRecord, ...]
    """Runs of evalcard that answers came from; their specs tell where the documents are."""


@dataclass(frozen=True)
class _Means:
    """How answers are read that a run which did not end has not graded; its own verdicts need none of it."""

    common_items: bool = False
    """Whether such answers are wanted."""
    data_root: str | None = None
    trust_task_code: bool = False


@dataclass(frozen=True)
class _Loaded:
    model: StoredModel
    run: RunRecord | None
    """None for another harness's."""


def load_stored(out: Path, which: str, role: Role = "compressed") -> StoredModel:
    """One model of a stored result: the one that is named, else a run's baseline or its only compressed model.

    which: a run's folder, its name under the results root ``out``, ``latest``, or files of another harness; each may
    end in ``:MODEL`` (a slug, scheme or name). A result with one model needs no name. Raises UserError where nothing is
    there, something is damaged, or several models could be meant.
    """
    return _load(locate(out, which), role, _Means()).model


def compare_results(
    out: Path,
    first: str,
    second: str | None = None,
    *,
    rows: Sequence[str] = (),
    common_items: bool = False,
    data_root: str | None = None,
    trust_task_code: bool = False,
) -> SideBySide:
    """Compare two stored results, or a run's compressed models with its own baseline where there is no second.

    rows: those to compare; all where it is empty. data_root, trust_task_code: for the documents of a run that did not
    end, whose answers are graded here where common_items are compared. Raises UserError for what is not there, and
    ComparisonRefused for results that do not match (evalcard.compare.alike).
    """
    one, means = locate(out, first), _Means(common_items, data_root, trust_task_code)
    if second is None:
        return _compare_own(one, rows, means)
    baseline, compressed = _load(one, "baseline", means), _load(locate(out, second), "compressed", means)
    return _compare_two(baseline, compressed, rows, common_items)


def _compare_two(baseline: _Loaded, compressed: _Loaded, rows: Sequence[str], common_items: bool) -> SideBySide:
    ours, theirs = _with_rows(baseline.model, rows), _with_rows(compressed.model, rows)
    run, comparison = compare_stored(ours, theirs, common_items)
    renamed = replace(theirs, model=run.models[1])
    runs = tuple(one.run for one in (baseline, compressed) if one.run is not None)
    health = [*comparison.health, *_stopped(run, runs)]
    health.sort(key=lambda one: SEVERITIES.index(one.severity))
    return SideBySide(run, comparison.model_copy(update={"health": health}), ours, (renamed,), runs)


def _stopped(run: RunRecord, sources: Sequence[RunRecord]) -> Iterator[Finding]:
    """Rows whose answers come from a run that looked at them and stopped."""
    for name in {row.name for row in run.rows} & {one.row for source in sources for one in source.sequential}:
        text = "The run stopped as soon as its gate was decided; intervals here suppose a number of items fixed before."
        slug = run.models[1].slug
        yield Finding(finding=text, severity="warning", where=name, advice=_STOPPED, model=slug, row=name)


def _compare_own(reference: Reference, rows: Sequence[str], means: _Means) -> SideBySide:
    """A run as it was compared when it ended, its models narrowed to the one that was asked for."""
    if reference.folder is None:
        raise UserError(
            f"{reference.given} holds results of another harness, which do not say what was compressed. Name both: "
            "evalcard compare BASELINE COMPRESSED."
        )
    run = reference.folder.read_run()
    compressed = [model for model in _models(reference.folder, run, means) if model.role == "compressed"]
    if not compressed or not run.models:
        raise UserError(lacking(run, common_items=means.common_items))
    if reference.model is not None:
        compressed = [pick(reference, compressed)]
    baseline, *others = [
        _Loaded(_read(reference.folder, run, model, means), run) for model in (run.models[0], *compressed)
    ]
    if means.common_items:
        if len(others) > 1:
            raise UserError(f"--common-items compares two models. {spellings(reference, compressed)}")
        return _compare_two(baseline, others[0], rows, means.common_items)
    if run.finished is None:
        raise ComparisonRefused(f"{is_incomplete(run, '')} Or compare what both models answered with --common-items.")
    found = _as_it_ended(run, [one.model for one in (baseline, *others)], rows)
    _refuse_nothing(reference, found)
    return _with_stored_findings(found, read_agreeing(reference.folder, run)) if run.sources else found


def _refuse_nothing(reference: Reference, found: SideBySide) -> None:
    """A table without a row shows that nothing was lost, whatever was."""
    if not any(row.compressed for row in found.comparison.tasks):
        why = " ".join(dict.fromkeys(one.finding for one in found.comparison.health if one.severity == "blocker"))
        raise ComparisonRefused(
            f"nothing of {reference.given} can be compared: there is no row on which the baseline and a compressed "
            f"model both have graded answers. {why} Give its `evalcard run` command again: stored answers are kept."
        )


def _with_stored_findings(found: SideBySide, stored: Comparison) -> SideBySide:
    """Where stored results were put beside each other, what was found then cannot be found again."""
    rows = {row.task for row in found.comparison.tasks}
    known = {(one.finding, one.where) for one in found.comparison.health}
    kept = [
        one for one in stored.health if (one.finding, one.where) not in known and (one.row is None or one.row in rows)
    ]
    health = sorted([*found.comparison.health, *kept], key=lambda one: SEVERITIES.index(one.severity))
    # Another program's fidelity is of no answers that are stored.
    theirs = [one for one in stored.fidelity if one.unit == "tokens"]
    told = found.comparison.model_copy(update={"health": health, "fidelity": [*found.comparison.fidelity, *theirs]})
    return replace(found, comparison=told)


def _as_it_ended(run: RunRecord, models: Sequence[StoredModel], rows: Sequence[str]) -> SideBySide:
    baseline, *others = [_with_rows(model, rows) for model in models]
    kept = {name for row in baseline.rows for name in row.tasks}
    names = {row.name for row in baseline.rows}
    narrowed = run.model_copy(
        update={
            "models": [model.model for model in models],
            "rows": list(baseline.rows),
            "tasks": [task for task in run.tasks if task.name in kept],
            "sequential": [one for one in run.sequential if one.row in names],
            "noise": [one for one in run.noise if one.task in kept],
        }
    )
    verdicts = {model.model.slug: model.verdicts for model in (baseline, *others)}
    samples = {model.model.slug: model.samples for model in (baseline, *others)}
    return SideBySide(narrowed, compare_run(narrowed, verdicts, samples), baseline, tuple(others), (run,))


def _with_rows(model: StoredModel, rows: Sequence[str]) -> StoredModel:
    """Raises UserError for a row that is not there."""
    names = [row.name for row in model.rows]
    missing = [name for name in rows if name not in names]
    if missing and missing[0] in model.left_out:
        why = model.left_out[missing[0]].why
        raise UserError(f"--task {missing[0]}: {title(model)} has results of it that cannot be compared: {why}.")
    if missing:
        raise UserError(f"--task {missing[0]}: {title(model)} has no such row. Its rows are: {', '.join(names)}.")
    # What was not asked for is no reason to doubt what was.
    return replace(model, rows=tuple(row for row in model.rows if row.name in rows), left_out={}) if rows else model


def _load(reference: Reference, role: Role, means: _Means) -> _Loaded:
    if reference.folder is None:
        return _Loaded(_imported(reference), None)
    run = reference.folder.read_run()
    models = _models(reference.folder, run, means)
    if reference.model is not None:
        chosen = pick(reference, models)
    else:
        meant = [model for model in models if model.role == role]
        if not meant and models and role == "compressed" and asked_for_compressed(run):
            # The baseline alone would be taken for the compressed model, which then lost nothing.
            which = "answers of a compressed model" if means.common_items else "compressed model with complete answers"
            raise UserError(f"{reference.given} has no {which}, as the run did not end. {spellings(reference, models)}")
        chosen = _only(reference, meant or models)
    return _Loaded(_read(reference.folder, run, chosen, means), run)


def _models(folder: RunFolder, run: RunRecord, means: _Means) -> list[ModelRecord]:
    """Those with complete answers, and those with some where common items are compared."""
    return [*run.models, *(unfinished_models(folder, run) if means.common_items else ())]


def _only(reference: Reference, models: Sequence[ModelRecord]) -> ModelRecord:
    if len(models) == 1:
        return models[0]
    if not models:
        raise UserError(f"{reference.given} has no model with complete answers. Give its `evalcard run` command again.")
    raise UserError(f"{reference.given} has {len(models)} models that could be meant. {spellings(reference, models)}")


def _imported(reference: Reference) -> StoredModel:
    from evalcard.results.imported.load import import_results

    found = import_results(reference.path, reference.model)
    only = _only(reference, [one.model for one in found])
    return next(one for one in found if one.model is only)


def _read(folder: RunFolder, run: RunRecord, model: ModelRecord, means: _Means) -> StoredModel:
    """One model of a run, each of its files read once."""
    if model not in run.models:
        return read_unfinished(folder, run, model, means.data_root, means.trust_task_code)
    graded = [task for task in run.tasks if folder.has_verdicts(model.slug, task.name)]
    source = run.sources.get(model.slug) or _own_source(run)
    return StoredModel(
        origin=f"{run.name}:{model.slug}",
        model=model,
        rows=tuple(run.rows),
        tasks={task.name: task for task in run.tasks},
        samples={task.name: tuple(folder.journal(model.slug, task.name).read().values()) for task in graded},
        verdicts={task.name: tuple(folder.read_verdicts(model.slug, task.name)) for task in graded},
        prompts=source.prompts,
        questions=folder.read_questions() if run.sources else {},
        seed=run.seed,
        created=run.created,
        is_complete=run.finished is not None,
        source=source,
    )


def _own_source(run: RunRecord) -> SourceRecord:
    program = " ".join(filter(None, ("evalcard", run.versions.get("evalcard"))))
    return SourceRecord(program=program, run=run.name, created=run.created)


_STOPPED = "Take the interval that the run itself gives: evalcard compare RUN, without a second result."
