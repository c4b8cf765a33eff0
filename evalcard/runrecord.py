"""run.json as it grows."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from evalcard.plan import Plan
from evalcard.results.origin import git_state, hardware, versions
from evalcard.results.records import SCHEMA, ModelRecord, NoiseRecord, ProgressRecord, RunRecord, SequentialRecord
from evalcard.results.runs import with_known_sizes

if TYPE_CHECKING:
    from evalcard.evaluate import ModelRun
    from evalcard.tasks.prepare import Prepared


class RunState:
    """What is known of a run that is under way; ``record`` is what run.json says of it."""

    def __init__(
        self, plan: Plan, command: Sequence[str], earlier: RunRecord | None, known: Sequence[ModelRecord]
    ) -> None:
        """``earlier`` is what an earlier attempt stored, ``known`` are models whose sizes are known."""
        self._plan, self._command, self._known, self._earlier = plan, list(command), known, earlier
        # A run that is resumed keeps its first date.
        self._created = earlier.created if earlier else now()
        self._seconds = {(step.model, step.task): step.seconds for step in earlier.progress} if earlier else {}
        self._versions, self._hardware, self._git = versions(), hardware(), git_state(Path.cwd())
        self.prepared: Prepared = plan.prepared
        """What was asked; less than was planned where the run stopped early."""
        self.sequential: list[SequentialRecord] = []
        self.noise: list[NoiseRecord] = []
        self.runs: list[ModelRun] = []

    def add(self, run: "ModelRun") -> None:
        """A model whose answers were all stored was not opened; an earlier run tells its sizes."""
        if run.model.weight_bytes is None:
            run = replace(run, model=with_known_sizes(run.model, self._known))
        if run.model.engine is None:
            run = replace(run, model=self._with_known_engine(run.model))
        self.runs.append(run)

    def _with_known_engine(self, model: ModelRecord) -> ModelRecord:
        """What an earlier attempt at this run had the engine do for the same weights, where this one asked nothing."""
        for one in self._earlier.models if self._earlier else ():
            if (one.slug, one.weights_digest) == (model.slug, model.weights_digest):
                return model.model_copy(update={"engine": one.engine})
        return model

    def known_noise(self) -> list[NoiseRecord]:
        """What an earlier attempt found, where it asked as often and all of the baseline's answers are still its."""
        earlier, (baseline, *_) = self._earlier, self.runs
        if earlier is None or not earlier.models:
            return []
        before, spec = earlier.models[0], self._plan.spec
        is_same = (
            earlier.resolved.get("noise_check") == spec.noise_check
            and (before.weights_digest, before.numerics) == (baseline.model.weights_digest, baseline.model.numerics)
            and earlier.tasks == [task.record for task in self.prepared.tasks]
            and all(step.reused == step.done for step in baseline.progress)
        )
        return earlier.noise if is_same else []

    def record(self, finished: str | None = None) -> RunRecord:
        spec = self._plan.spec
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
            tasks=[task.record for task in self.prepared.tasks],
            rows=list(self.prepared.rows),
            progress=steps,
            versions=self._versions,
            hardware=self._hardware,
            seed=spec.seed,
            command=self._command,
            git=self._git,
            sequential=self.sequential,
            noise=self.noise,
        )

    def _step(self, step: ProgressRecord) -> ProgressRecord:
        """Where nothing was computed, the time that an earlier attempt took is kept."""
        earlier = self._seconds.get((step.model, step.task))
        nothing_computed = step.reused == step.done
        return step.model_copy(update={"seconds": earlier}) if earlier is not None and nothing_computed else step


def now() -> str:
    """ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
