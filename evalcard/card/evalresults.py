"""``.eval_results/*.yaml``: scores for the Hub's leaderboards, of registered benchmarks only, each over its full set.

A score stands there as a bare number, so everything that it must be read with is in its notes, and what a reader would
take for more than it is (a subset, a run that stopped early or did not end, a blocked comparison) is left out.
"""

from typing import Any

from evalcard.card.check.lists import benchmarks
from evalcard.card.settings import row_settings
from evalcard.card.sources import sources_view
from evalcard.card.tables import is_percent, metric, score_of, tasks_of, total_of
from evalcard.results.compared import ComparedRow, Comparison
from evalcard.results.files import safe_name
from evalcard.results.records import RunRecord

FOLDER = ".eval_results"
WRITTEN_BY = "# Written by evalcard from a run; a new rendering of its card replaces it.\n"
"""First line of every file, by which a file of the user's own is told from ours."""
_TASKS = {
    "gsm8k": ("openai/gsm8k", "gsm8k"),
    "gsm8k_cot": ("openai/gsm8k", "gsm8k"),
    "gsm8k_cot_zeroshot": ("openai/gsm8k", "gsm8k"),
    "gpqa_diamond": ("Idavidrein/gpqa", "gpqa_diamond"),
    "gpqa_diamond_zeroshot": ("Idavidrein/gpqa", "gpqa_diamond"),
    "gpqa_diamond_n_shot": ("Idavidrein/gpqa", "gpqa_diamond"),
    "gpqa_diamond_cot_zeroshot": ("Idavidrein/gpqa", "gpqa_diamond"),
    "gpqa_diamond_cot_n_shot": ("Idavidrein/gpqa", "gpqa_diamond"),
    "gpqa_diamond_generative_n_shot": ("Idavidrein/gpqa", "gpqa_diamond"),
    "mmlu_pro": ("TIGER-Lab/MMLU-Pro", "mmlu_pro"),
}
"""Tasks of ours and of the harness that ask all items of a registered benchmark -> (data set, task id)."""
_SHARES = frozenset({"acc", "acc_norm", "exact_match", "accuracy", "pass@1"})
"""Metrics that are the share of items answered rightly, which is what these leaderboards rank."""


def eval_results(run: RunRecord, comparison: Comparison, slug: str) -> dict[str, str]:
    """Path below the card -> YAML; empty where nothing may be said so."""
    if run.finished is None:
        return {}
    found = {}
    for row in comparison.tasks:
        score = score_of(row, slug)
        place = _benchmark(run, row)
        if score is not None and place is not None and score.sequential is None:
            name = safe_name(row.task.replace("/", "-"))
            entry = _entry(run, row, score.score, *place, measured_by=_measured_by(run, slug))
            found[f"{FOLDER}/{name}.yaml"] = _yaml(entry)
    return found


def _benchmark(run: RunRecord, row: ComparedRow) -> tuple[str, str] | None:
    """Where it is registered and was asked in full; the task's own data set has to be that one, where it is known."""
    tasks = tasks_of(run, row)
    place = _TASKS.get(row.task.removeprefix("lm_eval/"))
    if place is None or not tasks or place[1] not in benchmarks().get(place[0], ()):
        return None
    is_known = all(task.source != "file" and task.dataset in (None, place[0]) for task in tasks)
    is_full = sum(task.items_selected for task in tasks) == total_of(run, row) == row.n
    is_share = is_percent(run, row) and all(task.metric in _SHARES for task in tasks)
    return place if is_known and is_full and is_share else None


def _measured_by(run: RunRecord, slug: str) -> list[str]:
    """The program that asked the model, with its version and what it states of itself."""
    source = run.sources.get(slug)
    if source is not None and source.run is None:
        told = sources_view(run)
        own = next((one for one in told.models if one.slug == slug), None) if told else None
        return [source.program, *(f"{label} {value}" for label, value in (own.facts if own else ()))]
    version = run.versions.get("evalcard")
    return [f"evalcard {version}" if version else "evalcard"]


def _entry(
    run: RunRecord, row: ComparedRow, score: float, dataset: str, task_id: str, *, measured_by: list[str]
) -> dict[str, Any]:
    told, tasks = row_settings(run, row), tasks_of(run, row)
    repeats = max(task.repeats for task in tasks)
    parts = [told.shots, metric(tasks), told.decoding]
    parts += [f"mean of {repeats} samples an item"] if repeats > 1 else []
    parts += ["chat template"] if told.chat_template.startswith("yes") else []
    parts += [f"{row.n} items", f"task file of {told.source}, version {told.version}", *measured_by]
    return {
        "dataset": {"id": dataset, "task_id": task_id},
        "value": round(100 * score, 2),
        "date": run.created[:10],
        "notes": "; ".join(parts),
    }


def _yaml(entry: dict[str, Any]) -> str:
    import yaml

    # safe_dump puts text that looks like a date into quotes, which the Hub asks for.
    return WRITTEN_BY + yaml.safe_dump([entry], sort_keys=False, allow_unicode=True, width=10_000)
