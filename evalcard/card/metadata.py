"""The front matter of a card, as the Hub reads it: only known keys, never a path, never a number that is none."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from evalcard.card.escape import plain
from evalcard.card.index import IndexView
from evalcard.card.paths import without_paths
from evalcard.card.settings import row_settings
from evalcard.card.tables import metric, score_of, shots, tasks_of
from evalcard.card.terms import Terms
from evalcard.card.view import CardView
from evalcard.results.compared import ComparedRow, Comparison
from evalcard.results.records import RunRecord, TaskRecord

TASK_TYPE = "text-generation"
LIBRARY = "transformers"
_SCHEME = re.compile(r"\bw\d+a\d+\b")
_METRIC_TYPES = {"acc": "accuracy"}
"""Names of the harness that the Hub's metrics spell otherwise."""


def front_matter(run: RunRecord, comparison: Comparison, view: CardView) -> str:
    """YAML between the two ``---`` lines, without them; ends with a newline."""
    return _yaml(metadata(run, comparison, view))


def index_front_matter(view: IndexView) -> str:
    """Front matter of a page with several models: no ``model-index``, as the Hub takes the results of one model."""
    schemes = [line.model.scheme for line in view.lines if line.model.scheme]
    return _yaml(_common(view.base_model, view.terms, schemes))


def _yaml(data: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=10_000)


def _common(base_model: str | None, terms: Terms, tags: Sequence[str], library: str | None = LIBRARY) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if base_model:
        data |= {"base_model": base_model, "base_model_relation": "quantized"}
    data |= {"license": terms.license, "license_name": terms.name, "license_link": terms.link}
    languages = list(terms.languages)
    data |= {"library_name": library, "pipeline_tag": TASK_TYPE}
    data |= {"language": languages[0] if len(languages) == 1 else languages}
    data["tags"] = ["evalcard", *dict.fromkeys(tags)]
    # No key without a value: the Hub refuses some of them, and the client drops others before it sees them.
    return {key: value for key, value in data.items() if value not in (None, [])}


def metadata(run: RunRecord, comparison: Comparison, view: CardView) -> dict[str, Any]:
    """Keys of the Hub's model card specification; what is not known has none."""
    tags = [tag for tag in (view.quant_method, view.model.scheme or stored_scheme(view.model.scheme_title)) if tag]
    # A GGUF file is no model of transformers; the Hub tells it by its files. Of a model whose files nobody read, as
    # its answers are another program's, it is not known.
    is_unknown = view.quant_method == "gguf" or view.is_unread
    data = _common(view.base_model, view.terms, tags, None if is_unknown else LIBRARY)
    # Scores of a run that stopped early are not those of a full set, and a reader of the Hub cannot see it.
    is_partial = view.blockers or view.is_sequential or view.unfinished
    results = [] if is_partial else model_index_results(run, comparison, view.model.slug)
    if results:
        data["model-index"] = [{"name": plain(view.model.title), "results": results}]
    return data


def stored_scheme(title: str | None) -> str | None:
    """``w8a8`` of a checkpoint that was compressed in its files, where its description names one scheme."""
    found = set(_SCHEME.findall(title or ""))
    return found.pop() if len(found) == 1 else None


def model_index_results(run: RunRecord, comparison: Comparison, slug: str) -> list[dict[str, Any]]:
    """One result for each data set as it was used, with the metrics of all rows on it; scores in percent.

    Readers merge results of one (task, dataset, config, split), so no two of ours agree in these.
    """
    results: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in comparison.tasks:
        score = score_of(row, slug)
        if score is not None:
            dataset = _dataset(run, row)
            identity = tuple(dataset.get(key, "") for key in ("type", "config", "split"))
            task = {"type": TASK_TYPE, "name": "Text Generation"}
            result = results.setdefault(identity, {"task": task, "dataset": dataset, "metrics": []})
            result["metrics"].append(_metric(run, row, score.score))
    return list(results.values())


def _dataset(run: RunRecord, row: ComparedRow) -> dict[str, str]:
    """The documents' Hub id where all tasks of the row share one, else the row's own name."""
    tasks = tasks_of(run, row)
    ids = {task.dataset for task in tasks}
    dataset_id = ids.pop() if len(ids) == 1 else None
    # What has two or more parts may be a folder; a Hub id has one slash.
    is_hub_id = dataset_id is not None and dataset_id == without_paths(dataset_id) and dataset_id.count("/") <= 1
    kind = str(dataset_id) if is_hub_id else plain(row.task)
    dataset = {"type": kind, "name": plain(_dataset_name(run, row))}
    return dataset | (dict(_shared(tasks)) if is_hub_id else {})


def _shared(tasks: list[TaskRecord]) -> Iterator[tuple[str, str]]:
    """Configuration and split, where all tasks of a row agree."""
    for key, values in (
        ("config", {task.dataset_config for task in tasks}),
        ("split", {task.dataset_split for task in tasks}),
    ):
        value = values.pop() if len(values) == 1 else None
        if value:
            yield key, plain(value)


def _dataset_name(run: RunRecord, row: ComparedRow) -> str:
    """The row, with its subset said so that it never stands beside a full task unmarked."""
    selection = row_settings(run, row).selection
    return row.task if selection.startswith("all ") else f"{row.task}, {selection}"


def _metric(run: RunRecord, row: ComparedRow, score: float) -> dict[str, Any]:
    tasks = tasks_of(run, row)
    percent = all(task.higher_is_better for task in tasks)
    repeats = " / ".join(map(str, sorted({task.repeats for task in tasks})))
    samples = "" if repeats == "1" else f", mean of {repeats} samples"
    return {
        "type": plain(_METRIC_TYPES.get(row.metric, row.metric)),
        "value": round(100 * score if percent else score, 2),
        "name": plain(f"{row.task} ({shots(tasks)}, {metric(tasks)}{samples})"),
    }
