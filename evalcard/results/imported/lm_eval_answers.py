"""One document of lm-eval's samples -> a graded answer."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evalcard.results.imported.answers import GOLDS, Answer, as_text, logprob_of
from evalcard.results.imported.lm_eval_items import Item, Told, choices_of, item_id
from evalcard.results.imported.lm_eval_rows import Measure
from evalcard.results.records import ItemScore, ScoredChoice, TaskRecord


def answer_of(told: Told, record: TaskRecord, item: Item, means: Mapping[Measure, bool]) -> Answer:
    """``means``: which measures have a value for a single item that a comparison may use."""
    is_written = told.output_type == "generate_until"
    choices = None if is_written else _scored(item)
    texts = choices_of(told, item) if told.output_type == "multiple_choice" else []
    failed = choices is not None and any(choice.logprob is None for choice in choices)
    return Answer(
        item_id=item_id(told, item),
        repeat=0,
        document=item.doc,
        prompts=[as_text(one) for request in item.requests for one in request if not isinstance(one, dict)],
        question=as_text(item.requests[0][0]) if item.requests and item.requests[0] else "",
        extracted=_extracted(told, record, item, texts, choices),
        target=_target(item.target, texts),
        scores=[
            ItemScore(metric=metric, filter=name, value=value if means[metric, name] else None)
            for (metric, name), value in item.values.items()
        ],  # fmt: skip
        text=_first_text(item) if is_written else None,
        choices=choices,
        # lm-eval stores no reason for an end, and no count of tokens that could be held against a limit.
        finish="error" if failed else "not_told" if is_written else "stop",
        fault="a log-probability is not finite" if failed else None,
    )


def _first_text(item: Item) -> str:
    """Of several repeats the first: the scores are of all of them together, or of the first."""
    first = item.responses[0] if item.responses else ""
    return as_text(first[0] if isinstance(first, list) and first else first)


def _scored(item: Item) -> list[ScoredChoice]:
    return [
        ScoredChoice(text=as_text(request[-1]) if request else "", tokens=0, **_score(response))
        for request, response in zip(item.requests, item.responses, strict=True)
    ]


def _score(response: Any) -> dict[str, Any]:
    """Of (log-probability, whether greedy) as texts, or a log-probability alone for whole texts; first repeat."""
    while isinstance(response, list) and len(response) == 1:
        response = response[0]
    first = response[0] if isinstance(response, list) and response else response
    if isinstance(first, list):
        response, first = first, first[0] if first else None
    is_greedy = str(response[1]) == "True" if isinstance(response, list) and len(response) > 1 else False
    return {"logprob": logprob_of(first), "is_greedy": is_greedy}


def _target(stored: str, choices: Sequence[str]) -> str:
    """The right answer as text: an index, or a list of them, stands for choices."""
    indices = [part.strip() for part in stored.removeprefix("[").removesuffix("]").split(",")]
    if choices and all(part.isdecimal() and int(part) < len(choices) for part in indices):
        return GOLDS.join(choices[int(part)] for part in indices)
    return stored


def _extracted(
    told: Told, record: TaskRecord, item: Item, texts: Sequence[str], choices: Sequence[ScoredChoice] | None
) -> str | None:
    """What the primary filter found; of choices the likeliest by the measure of the primary metric."""
    if choices is None:
        found = item.found.get(record.filter)
        while isinstance(found, list):
            found = found[0] if found else ""
        text = as_text(found if found is not None else "").strip()
        return None if text in told.fallbacks(record.filter) else text
    if not texts:
        return None
    sizes = {"acc_norm": [len(text) for text in texts], "acc_bytes": [len(text.encode()) for text in texts]}
    divisors = sizes.get(record.metric, [1] * len(texts))
    ranked = [_or_least(one.logprob) / (size or 1) for one, size in zip(choices, divisors, strict=False)]
    return texts[max(range(len(ranked)), key=ranked.__getitem__)]


def _or_least(logprob: float | None) -> float:
    return -math.inf if logprob is None else logprob
