"""Is this comparison to be trusted? All checks of a run, and the order in which they are told."""

from collections.abc import Mapping, Sequence

from evalcard.compare.health.answers import about_answers
from evalcard.compare.health.baseline import about_row
from evalcard.compare.health.endings import about_endings
from evalcard.compare.health.finding import WORST_FIRST
from evalcard.compare.health.noise import about_noise
from evalcard.compare.health.published import about_published
from evalcard.compare.health.runs import about_prompts, about_run
from evalcard.compare.pairing import Answers
from evalcard.compare.rows import RowScores
from evalcard.results.compared import Finding
from evalcard.results.records import RunRecord


def examine(run: RunRecord, answers: Mapping[str, Mapping[str, Answers]], rows: Sequence[RowScores]) -> list[Finding]:
    """All findings, blockers first; within a severity in the order of models and rows.

    answers: slug -> task -> answers; rows: the scored rows.
    """
    found: list[Finding] = []
    for model in run.models:
        found += about_answers(run, model, answers.get(model.slug, {}))
    for model in run.models[1:]:
        found += about_endings(run, model, answers)
    for row in rows:
        found += about_row(row)
    found += about_published(run, rows)
    found += about_noise(run, answers)
    found += about_prompts(run, answers)
    found += about_run(run)
    return sorted(found, key=lambda finding: WORST_FIRST.index(finding.severity))
