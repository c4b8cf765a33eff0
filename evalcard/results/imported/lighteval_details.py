"""lighteval's details, one answer each, and what the results file says of their task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard.results.imported.answers import GOLDS, Answer, as_number, as_text, logprob_of, number
from evalcard.results.imported.directions import known_direction
from evalcard.results.imported.files import damaged
from evalcard.results.records import Finish, ItemId, ItemScore, ScoredChoice, TaskRecord

FILTER = "none"
_COLUMNS = ["doc", "metric", "model_response"]
_ROWS = 256
"""Details read at a time: a row may hold the logits of a whole vocabulary."""


@dataclass(frozen=True)
class Told:
    """What the results file says of one task."""

    name: str
    key: str
    header: Mapping[str, Any]

    @property
    def config(self) -> Mapping[str, Any]:
        """Older versions list tasks without their number of shots."""
        configs = self.header["config_tasks"]
        found = configs.get(self.key, configs.get(self.key.rpartition("|")[0]))
        return found if isinstance(found, dict) else {}

    @property
    def figures(self) -> Mapping[str, Any]:
        found = self.header["results"][self.key]
        return found if isinstance(found, dict) else {}

    @property
    def generation(self) -> Mapping[str, Any]:
        found = self.header["model_config"].get("generation_parameters")
        return found if isinstance(found, dict) else {}

    @property
    def metrics(self) -> dict[str, bool | None]:
        """Metric -> whether higher is better, None where nothing says so, in the task's own order; metrics of a group
        one by one."""
        stated: dict[str, bool | None] = {}
        for one in self.config.get("metrics") or ():
            if isinstance(one, dict):
                names, better = one.get("metric_name"), one.get("higher_is_better")
                for name in names if isinstance(names, list) else [names]:
                    said = better.get(name) if isinstance(better, dict) else better
                    stated[str(name)] = said if isinstance(said, bool) else known_direction(str(name))
        scored = [name for name in self.figures if not name.endswith("_stderr")]
        names = [name for name in dict.fromkeys([*stated, *scored]) if name in scored]
        return {name: stated[name] if name in stated else known_direction(name) for name in names}

    @property
    def has_no_mean(self) -> bool:
        """Whether the file says of all its metrics that their score is none of the mean of their items'."""
        listed = [one.get("corpus_level_fn") for one in self.config.get("metrics") or () if isinstance(one, dict)]
        return bool(listed) and all(isinstance(one, str) and "mean" not in one for one in listed)


@dataclass(frozen=True, slots=True)
class Detail:
    """One answer; a document has several where a task asks for texts and log-probabilities."""

    doc: Mapping[str, Any]
    response: Mapping[str, Any]
    values: Mapping[str, float | None]

    @property
    def document(self) -> dict[str, Any]:
        """Without ``specific``, to which metrics add what they found."""
        return {name: self.doc.get(name) for name in ("query", "choices", "gold_index", "instruction")}

    @property
    def is_scored(self) -> bool:
        return bool(self.response.get("logprobs")) and not self.response.get("text")


def read_details(path: Path) -> Iterator[Detail]:
    """Raises UserError for what is no parquet file, or lacks a column."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            lacking = [name for name in _COLUMNS if name not in file.schema_arrow.names]
            if lacking:
                raise damaged(str(path), f"it lacks {', '.join(lacking)}, which lighteval writes since 0.11")
            for batch in file.iter_batches(batch_size=_ROWS, columns=_COLUMNS):
                for row in batch.to_pylist():
                    if not all(isinstance(row[name], dict) for name in _COLUMNS):
                        raise damaged(str(path), "an answer has no doc, metric or model_response")
                    values = {name: number(value) for name, value in row["metric"].items()}
                    yield Detail(row["doc"], row["model_response"], values)
    except (pyarrow.ArrowException, OSError) as error:
        raise damaged(str(path), str(error)) from None


def answer_of(told: Told, record: TaskRecord, item_id: ItemId, one: Detail, means: set[str]) -> Answer:
    response, choices = one.response, list(map(str, one.doc.get("choices") or ()))
    texts = response.get("text_post_processed") or response.get("text") or []
    scored = _scored(choices, response) if one.is_scored else None
    failed = scored is not None and any(choice.logprob is None for choice in scored)
    tokens = [] if scored is not None else response.get("output_tokens") or []
    asked = response.get("input") if response.get("input") is not None else one.doc.get("query", "")
    return Answer(
        item_id=item_id,
        repeat=0,
        document=one.document,
        prompts=[as_text(asked), *(choices if scored is not None else [])],
        question=str(one.doc.get("query") or ""),
        extracted=_extracted(one, texts, scored),
        target=GOLDS.join(_golds(one.doc, choices)),
        scores=[
            ItemScore(metric=name, filter=FILTER, value=value if name in means else None)
            for name, value in one.values.items()
        ],  # fmt: skip
        text=None if scored is not None else as_text(texts[0]) if texts else "",
        choices=scored,
        finish="error" if failed else _finish(told, tokens) if scored is None else "stop",
        fault="a log-probability is not finite" if failed else None,
        output_tokens=len(tokens[0]) if tokens else 0,
        prompt_tokens=len(response.get("input_tokens") or ()),
    )


def _scored(choices: Sequence[str], response: Mapping[str, Any]) -> list[ScoredChoice]:
    logprobs, greedy = response.get("logprobs") or [], response.get("argmax_logits_eq_gold") or []
    tokens = response.get("output_tokens") or []
    return [
        ScoredChoice(
            text=choices[i] if i < len(choices) else "",
            logprob=None if logprob is None else logprob_of(logprob),
            tokens=len(tokens[i]) if i < len(tokens) and isinstance(tokens[i], list) else 0,
            is_greedy=bool(greedy[i]) if i < len(greedy) else False,
        )
        for i, logprob in enumerate(logprobs)
    ]


def _finish(told: Told, tokens: Sequence[Sequence[int]]) -> Finish:
    """lighteval stores no reason for an end; an answer as long as it could be was cut. Without a limit, or without the
    tokens, nothing is known."""
    limits = [as_number(told.generation.get("max_new_tokens")), as_number(told.config.get("generation_size"))]
    limit = next((one for one in limits if one), None)
    if limit is None or not tokens:
        return "not_told"
    return "length" if len(tokens[0]) >= limit else "stop"


def _extracted(one: Detail, texts: Sequence[Any], scored: Sequence[ScoredChoice] | None) -> str | None:
    """The likeliest choice; else what a metric noted that it found, else the text itself."""
    if scored is not None:
        known = [choice for choice in scored if choice.logprob is not None]
        return max(known, key=lambda choice: choice.logprob or 0.0).text if known else None
    specific = one.doc.get("specific")
    noted = specific.get("extracted_predictions") if isinstance(specific, dict) else None
    if isinstance(noted, list):
        return str(noted[0]) if noted else None
    return (as_text(texts[0]).strip() or None) if texts else None


def _golds(doc: Mapping[str, Any], choices: Sequence[str]) -> list[str]:
    index = doc.get("gold_index")
    listed = index if isinstance(index, list) else [index]
    return [choices[one] for one in listed if isinstance(one, int) and 0 <= one < len(choices)]
