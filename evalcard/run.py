"""The whole job: evaluate each model, compare, judge where a limit was given, render."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalcard.backends.backend import Backend
from evalcard.card.render import write_cards
from evalcard.compare.comparison import compare_run
from evalcard.errors import UserError
from evalcard.gate.judge import judge, judge_run, keep_verdict, with_verdict
from evalcard.gate.spec import GateSpec
from evalcard.gate.verdict import GateVerdict
from evalcard.plan import Plan
from evalcard.progress import Progress
from evalcard.results.compared import Comparison
from evalcard.results.index import AnswerIndex
from evalcard.results.records import ProgressRecord, RunRecord
from evalcard.results.runs import find_run, known_models
from evalcard.results.store import RunFolder
from evalcard.runrecord import RunState, now

if TYPE_CHECKING:
    from evalcard.evaluate import ModelRun


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    run: RunRecord
    comparison: Comparison
    card: Path
    """The run's README.md."""
    verdict: GateVerdict | None = None
    """None where the run had no limit to be judged by."""


@dataclass(frozen=True)
class _Job:
    """What the parts of a run share."""

    plan: Plan
    folder: RunFolder
    index: AnswerIndex
    state: RunState
    progress: Progress


def run_plan(plan: Plan, progress: Progress, command: Sequence[str]) -> Outcome:
    """Evaluate all models, compare them, judge them by the plan's gate and write the cards.

    A sequential plan ends as soon as its gate is decided. Whatever ends it early, finished answers are stored.
    """
    out = Path(plan.spec.out)
    roots = [out, *map(Path, plan.spec.reuse)]
    with RunFolder.open(out, plan.spec.run_name) as folder:
        state = RunState(plan, command, _earlier(folder), known_models(roots))
        folder.write_run(state.record())
        with contextlib.closing(AnswerIndex.scan(roots, skip=folder.path)) as index:
            job = _Job(plan, folder, index, state, progress)
            if plan.spec.sequential:
                _until_decided(job)
            else:
                _evaluate_all(job)
            for warning in index.warnings:
                progress.say(warning)
        return _finish(folder, state, plan.gate)


def gate_run(out: Path, which: str, limits: GateSpec, limits_from: str | None = None) -> GateVerdict:
    """Judge a stored run and show the verdict on its cards. ``limits_from``: see ``GateVerdict``."""
    verdict = judge_run(out, which, limits, limits_from)
    folder = find_run(out, which)
    write_cards(folder, folder.read_run(), folder.read_comparison())
    return verdict


def _evaluate_all(job: _Job) -> None:
    from evalcard.evaluate import evaluate

    plan = job.plan
    for number, (slug, model) in enumerate(zip(plan.backends, plan.spec.models, strict=True)):
        backend = plan.backends[slug]
        try:
            run = evaluate(
                plan.spec, model, slug, plan.prepared, backend, job.folder, job.index, job.progress,
                role="compressed" if number else "baseline",
            )  # fmt: skip
            _add(job, run)
            if not number:
                _check_noise(job, backend)
        finally:
            # The next model needs the memory.
            backend.close()


def _until_decided(job: _Job) -> None:
    """Both models answer by turns, so both stay open."""
    from evalcard.evaluate import Evaluation
    from evalcard.looks import stop_early

    plan = job.plan
    assert plan.gate is not None and len(plan.backends) == 2, (plan.gate, list(plan.backends))
    try:
        baseline, compressed = (
            Evaluation(
                plan.spec, model, slug, plan.prepared, plan.backends[slug], job.folder, job.index,
                role="compressed" if number else "baseline",
            )
            for number, (slug, model) in enumerate(zip(plan.backends, plan.spec.models, strict=True))
        )  # fmt: skip
        stopped = stop_early(plan.gate, plan.prepared, baseline, compressed, plan.spec.seed, job.progress)
        job.state.prepared, job.state.sequential = stopped.prepared, stopped.records
        _add(job, baseline.finish(stopped.prepared))
        _check_noise(job, plan.backends[baseline.slug])
        _add(job, compressed.finish(stopped.prepared))
    finally:
        for backend in plan.backends.values():
            backend.close()


def _add(job: _Job, run: "ModelRun") -> None:
    job.state.add(run)
    label = job.plan.spec.models[len(job.state.runs) - 1].label
    job.progress.say(f"{label}: {_done(job.state.runs[-1].progress)}")
    job.folder.write_run(job.state.record())


def _check_noise(job: _Job, backend: Backend) -> None:
    """Ask the baseline again, while it is open, unless an earlier attempt has."""
    spec, state = job.plan.spec, job.state
    if spec.noise_check is None:
        return
    state.noise = state.known_noise()
    if not state.noise:
        from evalcard.noise import check_noise

        tokenizer, baseline = state.prepared.tokenizer(spec, spec.baseline), state.runs[0]
        state.noise = check_noise(
            spec, state.prepared, tokenizer, backend, baseline.samples, baseline.verdicts, job.progress
        )
    job.folder.write_run(state.record())


def _done(steps: Sequence[ProgressRecord]) -> str:
    """In one line, what a model's answers took."""
    done, reused = sum(step.done for step in steps), sum(step.reused for step in steps)
    computed = f"{done - reused} answers in {sum(step.seconds for step in steps):.0f} s" if done > reused else ""
    return ", ".join(part for part in (computed, f"{reused} of {done} reused" if reused else "") if part)


def _finish(folder: RunFolder, state: RunState, gate: GateSpec | None) -> Outcome:
    run = state.record(finished=now())
    comparison = compare_run(
        run, {m.model.slug: m.verdicts for m in state.runs}, {m.model.slug: m.samples for m in state.runs}
    )
    verdict = judge(comparison, gate, run) if gate is not None else None
    if verdict is not None:
        comparison = with_verdict(comparison, verdict)
    else:
        with contextlib.suppress(UserError):  # there is no earlier comparison, or none that can be read
            comparison = keep_verdict(folder.read_comparison(), comparison)
    comparison = comparison.model_copy(update={"made_from": folder.answer_digests(run)})
    folder.write_comparison(comparison)
    card, *_ = write_cards(folder, run, comparison)
    # Last, so that a run which says it is finished has its comparison and its cards.
    folder.write_run(run)
    return Outcome(run, comparison, card, verdict)


def _earlier(folder: RunFolder) -> RunRecord | None:
    """What an earlier attempt stored; a damaged record is none."""
    try:
        return folder.read_run()
    except UserError:
        return None
