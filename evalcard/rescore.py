"""New verdicts on stored answers, by the tasks as they are defined now or by another judge. No model, no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcard.card.render import write_cards
from evalcard.compare.changes import Changes, changes_of
from evalcard.compare.comparison import compare_run
from evalcard.errors import UserError
from evalcard.gate.judge import keep_verdict
from evalcard.progress import Progress, Silent
from evalcard.results.compared import Comparison
from evalcard.results.journal import Address
from evalcard.results.records import ItemId, RescoreRecord, RunRecord, Sample, SequentialRecord, TaskRecord, Verdict
from evalcard.results.runs import find_run
from evalcard.results.store import RunFolder

if TYPE_CHECKING:
    from evalcard.tasks.prepare import PreparedTask


@dataclass(frozen=True)
class Rescored:
    """What a rescoring came to."""

    run: RunRecord
    comparison: Comparison | None
    """None for a run that is incomplete: there is nothing to compare yet."""
    card: Path | None
    changes: tuple[Changes, ...]
    """By task, then model."""
    lost_gate: bool
    """Whether the gate had judged other scores or findings than these; its verdict is dropped."""

    def lines(self) -> list[str]:
        """For a person: how much changed, where, and what that means for the run."""
        answers, differing, moved, rejudged = (
            sum(getattr(one, count) for one in self.changes)
            for count in ("answers", "num_differing", "num_moved", "rejudged")
        )
        said = f"{_counted(differing, 'verdict')} and {_counted(moved, 'outcome')} changed"
        if rejudged and not differing:
            said = "same outcomes under another judge"
        lines = [f"{self.run.name}: {_counted(answers, 'answer')} graded again, {said}"]
        lines += [f"  {one.line()}" for one in self.changes if one.num_changed or one.first_graded]
        if self.comparison is None:
            lines.append("The run is incomplete: what is stored was graded, but there is no comparison yet.")
        if self.lost_gate:
            lines.append(
                "The gate's verdict was on other scores or findings and is dropped; ask again with `evalcard gate`."
            )
        return lines

    def summary(self) -> dict[str, Any]:
        """The same for a program."""
        changes = [one.summary() for one in self.changes]
        changed_items = self.run.rescored.changed_items if self.run.rescored else {}
        return {
            "run": self.run.name,
            "complete": self.comparison is not None,
            "changes": changes,
            "changed_items": changed_items,
        }


@dataclass
class _Graded:
    """All models' answers to all tasks with their new verdicts, by slug and task; nothing is written yet."""

    samples: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)
    verdicts: dict[str, dict[str, list[Verdict]]] = field(default_factory=dict)
    changes: list[Changes] = field(default_factory=list)
    changed_items: dict[str, list[ItemId]] = field(default_factory=dict)
    """By task; only where such items were accepted."""


def rescore(
    out: Path,
    which: str,
    judges: Mapping[str, str] | None = None,
    data_root: str | None = None,
    trust_task_code: bool = False,
    progress: Progress | None = None,
    accept_changed_items: bool = False,
) -> Rescored:
    """Grade a stored run again and write its verdicts, run.json, comparison and cards; answers are never touched.

    judges: row or task -> name of a judge instead of the task's own grading; every other task is graded as it is
    defined now. Everything is graded before anything is written. Raises UserError for an unknown run, task or judge, a
    judge that no gold suits or that has no text to read, and items whose documents changed since they were answered,
    unless accept_changed_items; these are then graded by what their documents say now, and recorded.
    """
    from evalcard.tasks.regrade import prepare_stored

    bars: Progress = progress or Silent()
    found = find_run(out, which)
    with RunFolder.locked(found.path, "Copy the run to a folder that can be written.") as folder:
        run = folder.read_run()
        tasks = prepare_stored(run, judges or {}, data_root, trust_task_code, bars)
        graded = _grade_all(folder, run, tasks, bars, accept_changed_items)
        records = [_record(record, tasks[record.name]) for record in run.tasks]
        how = _rescoring(run, judges or {}, graded.changed_items, data_root, trust_task_code)
        rescored = run.model_copy(update={"tasks": records, "rescored": how})
        rescored = rescored.model_copy(update={"sequential": _tests(rescored, tasks, graded)})
        return _write(folder, rescored, graded)


def _tests(run: RunRecord, tasks: Mapping[str, "PreparedTask"], graded: _Graded) -> list[SequentialRecord]:
    """The tests of a run that stopped early, on the new verdicts; its own command makes those of an incomplete one."""
    if run.finished is None or not run.sequential:
        return run.sequential
    from evalcard.looks import replay

    return replay(run, tasks, graded.verdicts, graded.samples)


def _rescoring(
    run: RunRecord,
    judges: Mapping[str, str],
    changed_items: dict[str, list[ItemId]],
    data_root: str | None,
    trust_task_code: bool,
) -> RescoreRecord | None:
    """What makes these verdicts; None for the grading that the run's own command gives as well."""
    if not judges and not changed_items:
        return None
    command = ["evalcard", "rescore", run.name]
    command += [word for task, judge in judges.items() for word in ("--judge", f"{task}={judge}")]
    command += ["--data-root", data_root] if data_root is not None else []
    command += ["--trust-task-code"] if trust_task_code else []
    command += ["--accept-changed-items"] if changed_items else []
    return RescoreRecord(command=command, judges=dict(judges), changed_items=changed_items)


def _grade_all(
    folder: RunFolder,
    run: RunRecord,
    tasks: Mapping[str, "PreparedTask"],
    bars: Progress,
    accept_changed_items: bool,
) -> _Graded:
    from evalcard.tasks.backed import check_answers
    from evalcard.tasks.grade import grade
    from evalcard.tasks.regrade import check_stored

    graded = _Graded()
    with bars.step("Grading", total=len(run.tasks) * len(run.models), unit="tasks") as bar:
        for record in run.tasks:
            task = tasks[record.name]
            stored = {model.slug: _stored(folder, run, record, model.slug) for model in run.models}
            given = [sample for samples in stored.values() for sample in samples.values()]
            changed = check_stored(task, given, accept_changed_items)
            if changed:
                graded.changed_items[record.name] = changed
            for slug, samples in stored.items():
                check_answers(run, record, task, folder.journal(slug, record.name).path, samples)
            for slug, samples in stored.items():
                ordered = sorted(samples.values(), key=lambda one: (task.task.position(one.item_id), one.repeat))
                verdicts = grade(task.task, task.scoring, ordered, record.opens_thinking)
                before = _verdicts_before(folder, slug, record.name)
                graded.samples.setdefault(slug, {})[record.name] = ordered
                graded.verdicts.setdefault(slug, {})[record.name] = verdicts
                graded.changes.append(changes_of(record.name, slug, before, verdicts))
                bar.advance()
    return graded


def _stored(folder: RunFolder, run: RunRecord, record: TaskRecord, slug: str) -> dict[Address, Sample]:
    """A model's answers to one task. An attempt under another limit may have asked for more than the run then used."""
    samples = folder.journal(slug, record.name).read()
    if not run.sequential or record.item_ids is None:
        return samples
    used = set(record.item_ids)
    return {address: sample for address, sample in samples.items() if address[0] in used}


def _verdicts_before(folder: RunFolder, slug: str, task: str) -> list[Verdict]:
    """Empty where the file is missing or damaged: it is about to be replaced."""
    try:
        return folder.read_verdicts(slug, task)
    except UserError:
        return []


def _record(record: TaskRecord, task: "PreparedTask") -> TaskRecord:
    from evalcard.tasks.scoring import judge_of

    judge, scoring = judge_of(task.task), task.scoring
    told = {"metric": scoring.metric, "filter": scoring.filter, "higher_is_better": scoring.higher_is_better}
    return record.model_copy(update=told | {"judge": judge.name if judge else None})


def _write(folder: RunFolder, run: RunRecord, graded: _Graded) -> Rescored:
    """Verdicts first and the cards last; an earlier end leaves files that the same command completes."""
    comparison = compare_run(run, graded.verdicts, graded.samples) if run.finished else None
    lost_gate = False
    if comparison is not None:
        comparison, lost_gate = _with_gate(folder, comparison)
    for slug, by_task in graded.verdicts.items():
        for task, verdicts in by_task.items():
            folder.write_verdicts(slug, task, verdicts)
    folder.write_run(run)
    card = None
    if comparison is not None:
        comparison = comparison.model_copy(update={"made_from": folder.answer_digests(run)})
        folder.write_comparison(comparison)
        card, *_ = write_cards(folder, run, comparison)
    return Rescored(run, comparison, card, tuple(graded.changes), lost_gate)


def _with_gate(folder: RunFolder, comparison: Comparison) -> tuple[Comparison, bool]:
    """(comparison with the gate's word where it still stands, whether one was dropped)."""
    try:
        earlier = folder.read_comparison()
    except UserError:
        return comparison, False
    kept = keep_verdict(earlier, comparison)
    return kept, earlier.verdict is not None and kept.verdict is None


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
