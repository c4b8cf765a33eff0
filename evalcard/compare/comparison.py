"""One run's models against its baseline: rows, averages and health, as comparison.json holds them."""

from collections.abc import Mapping, Sequence

from evalcard.compare.averages import average_rows
from evalcard.compare.fidelity import Pairs, fidelities, of_rows, pair_answers
from evalcard.compare.health.examine import examine
from evalcard.compare.pairing import Answers, check_same_prompts, join_verdicts
from evalcard.compare.rows import CONFIDENCE, RowScores, compared_row, score_rows
from evalcard.results.compared import OVERALL, Comparison
from evalcard.results.records import SCHEMA, RunRecord, Sample, Verdict
from evalcard.results.store import RunFolder

ByModel = Mapping[str, Mapping[str, Answers]]
"""Slug -> task -> answers."""


def compare_folder(folder: RunFolder, run: RunRecord | None = None) -> Comparison:
    """Compare what a run folder holds, reading one task at a time; ``run`` defaults to its run.json.

    Raises ComparisonRefused where the models answered different prompts.
    """
    run = run or folder.read_run()
    answers: dict[str, dict[str, Answers]] = {model.slug: {} for model in run.models}
    pairs: dict[str, dict[str, Pairs]] = {model.slug: {} for model in run.models[1:]}
    for task in run.tasks:
        ours: tuple[list[Verdict], list[Sample]] | None = None
        for model in run.models:
            if not folder.has_verdicts(model.slug, task.name):
                continue
            verdicts = folder.read_verdicts(model.slug, task.name)
            samples = list(folder.journal(model.slug, task.name).read().values())
            answers[model.slug][task.name] = join_verdicts(task, model.slug, verdicts, samples)
            if model is run.models[0]:
                ours = verdicts, samples
            elif ours is not None:
                pairs[model.slug][task.name] = pair_answers(*ours, samples)
    fidelity = [one for slug, by_task in pairs.items() for one in of_rows(run.rows, slug, by_task)]
    return compare_answers(run, answers).model_copy(update={"fidelity": fidelity})


def compare_run(
    run: RunRecord,
    verdicts: Mapping[str, Mapping[str, Sequence[Verdict]]],
    samples: Mapping[str, Mapping[str, Sequence[Sample]]],
) -> Comparison:
    """Compare verdicts and samples, both given as slug -> task -> list.

    Raises ComparisonRefused where the models answered different prompts.
    """
    answers = {
        model.slug: {
            task.name: join_verdicts(
                task, model.slug, verdicts[model.slug][task.name], samples.get(model.slug, {}).get(task.name, ())
            )
            for task in run.tasks
            if task.name in verdicts.get(model.slug, {})
        }
        for model in run.models
    }
    return compare_answers(run, answers).model_copy(update={"fidelity": fidelities(run, verdicts, samples)})


def compare_answers(run: RunRecord, answers: ByModel) -> Comparison:
    """The comparison of answers that are already joined with their verdicts; without fidelity, which needs samples."""
    _refuse_other_prompts(run, answers)
    rows = score_rows(run, answers)
    # How many items a row has used where a run stopped early depends on what they said, so their mean has no interval.
    categories = {} if run.sequential else _by_category(rows)
    return Comparison(
        schema=SCHEMA,
        run=run.name,
        tasks=[compared_row(row, run) for row in rows],
        averages=[one for name, group in categories.items() if (one := average_rows(group, run, name)) is not None],
        overall=average_rows(rows, run, OVERALL) if len(categories) > 1 else None,
        health=examine(run, answers, rows),
        confidence=run.sequential[0].confidence if run.sequential else CONFIDENCE,
        verdict=None,
    )


def _refuse_other_prompts(run: RunRecord, answers: ByModel) -> None:
    baseline, *compressed = run.models
    assert baseline.role == "baseline", baseline
    for model in compressed:
        for task in run.tasks:
            ours = answers.get(baseline.slug, {}).get(task.name, {})
            theirs = answers.get(model.slug, {}).get(task.name, {})
            check_same_prompts(task.name, model.slug, ours, theirs)


def _by_category(rows: Sequence[RowScores]) -> dict[str, list[RowScores]]:
    """Rows of one category together, categories in the order they first appear."""
    groups: dict[str, list[RowScores]] = {}
    for row in rows:
        groups.setdefault(row.category, []).append(row)
    return groups
