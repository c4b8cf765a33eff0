"""The whole job: evaluate each model, compare, judge nothing yet, render."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evalcard.card.render import write_cards
from evalcard.compare.comparison import compare_run
from evalcard.errors import UserError
from evalcard.gate.judge import GateSpec, GateVerdict, judge_run, keep_verdict
from evalcard.modelspec import ModelSpec
from evalcard.plan import Plan
from evalcard.progress import Progress
from evalcard.results.compared import Comparison
from evalcard.results.index import AnswerIndex
from evalcard.results.origin import git_state, hardware, versions
from evalcard.results.records import SCHEMA, ModelRecord, ProgressRecord, RunRecord
from evalcard.results.runs import find_run, known_models, with_known_sizes
from evalcard.results.store import RunFolder

if TYPE_CHECKING:
    from evalcard.evaluate import ModelRun, Role


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    run: RunRecord
    comparison: Comparison
    card: Path
    """The run's README.md."""


def run_plan(plan: Plan, progress: Progress, command: Sequence[str]) -> Outcome:
    """Evaluate all models, compare them and write the cards; whatever ends it early, finished answers are stored."""
    out = Path(plan.spec.out)
    roots = [out, *map(Path, plan.spec.reuse)]
    with RunFolder.open(out, plan.spec.run_name) as folder:
        state = _RunState(plan, command, _earlier(folder), known_models(roots))
        folder.write_run(state.record())
        index = AnswerIndex.scan(roots, skip=folder.path)
        for slug, model in zip(plan.backends, plan.spec.models, strict=True):
            state.add(_evaluate(plan, slug, model, folder, index, progress))
            progress.say(f"{model.label}: {_done(state.runs[-1].progress)}")
            folder.write_run(state.record())
        for warning in index.warnings:
            progress.say(warning)
        index.close()
        return _finish(folder, state)


def _done(steps: Sequence[ProgressRecord]) -> str:
    """In one line, what a model's answers took."""
    done, reused = sum(step.done for step in steps), sum(step.reused for step in steps)
    computed = f"{done - reused} answers in {sum(step.seconds for step in steps):.0f} s" if done > reused else ""
    return ", ".join(part for part in (computed, f"{reused} of {done} reused" if reused else "") if part)


def _finish(folder: RunFolder, state: "_RunState") -> Outcome:
    run = state.record(finished=_now())
    comparison = compare_run(
        run, {m.model.slug: m.verdicts for m in state.runs}, {m.model.slug: m.samples for m in state.runs}
    )
    with contextlib.suppress(UserError):  # there is no earlier comparison, or none that can be read
        comparison = keep_verdict(folder.read_comparison(), comparison)
    folder.write_comparison(comparison)
    card, *_ = write_cards(folder, run, comparison)
    # Last, so that a run which says it is finished has its comparison and its cards.
    folder.write_run(run)
    return Outcome(run, comparison, card)


def gate_run(out: Path, which: str, limits: GateSpec) -> GateVerdict:
    """Judge a stored run and show the verdict on its cards."""
    verdict = judge_run(out, which, limits)
    folder = find_run(out, which)
    write_cards(folder, folder.read_run(), folder.read_comparison())
    return verdict


def _evaluate(
    plan: Plan, slug: str, model: ModelSpec, folder: RunFolder, index: AnswerIndex, progress: Progress
) -> "ModelRun":
    from evalcard.evaluate import evaluate

    backend = plan.backends[slug]
    try:
        role: Role = "baseline" if slug == next(iter(plan.backends)) else "compressed"
        return evaluate(plan.spec, model, slug, plan.prepared, backend, folder, index, progress, role)
    finally:
        # The next model needs the memory.
        backend.close()


class _RunState:
    """run.json as it grows."""

    def __init__(
        self, plan: Plan, command: Sequence[str], earlier: RunRecord | None, known: Sequence[ModelRecord]
    ) -> None:
        self._plan, self._command, self._known = plan, list(command), known
        # A run that is resumed keeps its first date.
        self._created = earlier.created if earlier else _now()
        self._earlier = {(step.model, step.task): step for step in earlier.progress} if earlier else {}
        self._versions, self._hardware, self._git = versions(), hardware(), git_state(Path.cwd())
        self.runs: list[ModelRun] = []

    def add(self, run: "ModelRun") -> None:
        """A model whose answers were all stored was not opened; an earlier run tells its sizes."""
        if run.model.weight_bytes is None:
            run = replace(run, model=with_known_sizes(run.model, self._known))
        self.runs.append(run)

    def _step(self, step: ProgressRecord) -> ProgressRecord:
        """Where nothing was computed, the time that an earlier attempt took is kept."""
        earlier = self._earlier.get((step.model, step.task))
        nothing_computed = step.reused == step.done
        return step.model_copy(update={"seconds": earlier.seconds}) if earlier and nothing_computed else step

    def record(self, finished: str | None = None) -> RunRecord:
        spec, prepared = self._plan.spec, self._plan.prepared
        models: list[ModelRecord] = [run.model for run in self.runs]
        steps: list[ProgressRecord] = [self._step(step) for run in self.runs for step in run.progress]
        return RunRecord(
            schema=SCHEMA,
            name=spec.run_name,
            created=self._created,
            finished=finished,
            asked=spec.model_dump(mode="json", exclude_unset=True),
            resolved=spec.model_dump(mode="json"),
            models=models,
            tasks=[task.record for task in prepared.tasks],
            rows=list(prepared.rows),
            progress=steps,
            versions=self._versions,
            hardware=self._hardware,
            seed=spec.seed,
            command=self._command,
            git=self._git,
        )


def _earlier(folder: RunFolder) -> RunRecord | None:
    """What an earlier attempt stored; a damaged record is none."""
    try:
        return folder.read_run()
    except UserError:
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
