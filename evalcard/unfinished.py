"""Runs that ended before all answers were there: what they have to show, and compressed models graded anew from the
journal."""

from evalcard.progress import Silent
from evalcard.results.compared import Comparison
from evalcard.results.incomplete import is_incomplete
from evalcard.results.records import SCHEMA, ModelRecord, RunRecord
from evalcard.results.store import RunFolder
from evalcard.results.stored import StoredModel


def asked_for_compressed(run: RunRecord) -> bool:
    """Whether the run was to hold a compressed model, so that its baseline cannot be meant as one."""
    return bool(run.resolved.get("compressed"))


def comparison_to_show(folder: RunFolder, run: RunRecord) -> Comparison:
    """What the run's cards are made of: its comparison, or of a run without an end that of the models with all answers.

    Raises what ``read_agreeing`` raises.
    """
    if run.finished is not None:
        from evalcard.results.agreement import read_agreeing

        return read_agreeing(folder, run)
    if not run.models:
        return Comparison(schema=SCHEMA, run=run.name, tasks=[], averages=[], health=[], verdict=None)
    from evalcard.compare.comparison import compare_folder

    return compare_folder(folder, run)


def lacking(run: RunRecord, common_items: bool) -> str:
    """What there is not to compare, and what to do."""
    if run.finished is None and asked_for_compressed(run):
        if not run.models:
            return is_incomplete(run, ": it has no model with complete answers, as it did not end")
        if common_items:
            return is_incomplete(run, ": it has no answers of a compressed model, as it did not end")
        said = is_incomplete(run, ": it has no compressed model with complete answers, as it did not end")
        return f"{said} Or compare what both models answered with --common-items."
    return (
        f"the run {run.name} has no compressed model with complete answers. Name another result to compare its "
        "baseline with: evalcard compare BASELINE COMPRESSED."
    )


def unfinished_models(folder: RunFolder, run: RunRecord) -> list[ModelRecord]:
    """Compressed models that have answers and are not in run.json, which names a model once all its answers are there.

    Their weights were not written down; what is compared is told by the hashes of the prompts.
    """
    if run.finished is not None or not asked_for_compressed(run):
        return []
    from evalcard.plan import slugs
    from evalcard.spec import make_spec

    spec = make_spec(dict(run.resolved), origin=f"run.json of {run.name}")
    known = {model.slug for model in run.models}
    asked = list(zip(slugs(spec), spec.models, strict=True))[1:]
    return [
        ModelRecord(
            slug=slug, role="compressed", name=model.name, hub_id=model.hub_id, revision=model.revision,
            scheme=model.scheme, weights_digest=None, tokenizer_digest="", template_digest=None, numerics=None,
        )
        for slug, model in asked
        if slug not in known and any(folder.journal(slug, task.name).read() for task in run.tasks)
    ]  # fmt: skip


def read_unfinished(
    folder: RunFolder, run: RunRecord, model: ModelRecord, data_root: str | None, trust_task_code: bool
) -> StoredModel:
    """One of them with what it answered so far; nothing is written. Raises what ``prepare_stored`` raises."""
    from evalcard.tasks.grade import grade
    from evalcard.tasks.regrade import check_stored, prepare_stored

    judges = run.rescored.judges if run.rescored else {}
    tasks = prepare_stored(run, judges, data_root, trust_task_code, Silent())
    samples, verdicts = {}, {}
    for record in run.tasks:
        task = tasks[record.name]
        found = folder.journal(model.slug, record.name).read().values()
        check_stored(task, found)
        ordered = tuple(sorted(found, key=lambda one: (task.task.position(one.item_id), one.repeat)))
        if ordered:
            samples[record.name] = ordered
            verdicts[record.name] = tuple(grade(task.task, task.scoring, ordered, record.opens_thinking))
    return StoredModel(
        origin=f"{run.name}:{model.slug}",
        model=model,
        rows=tuple(run.rows),
        tasks={task.name: task for task in run.tasks},
        samples=samples,
        verdicts=verdicts,
        prompts="ids",
        seed=run.seed,
        created=run.created,
        is_complete=False,
    )
