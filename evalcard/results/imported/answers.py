"""What every harness's answers come to here: samples, verdicts, and the words of their records."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evalcard.results.records import (
    SCHEMA,
    Finish,
    ItemId,
    ItemScore,
    Outcome,
    Sample,
    ScoredChoice,
    TaskRecord,
    Verdict,
)

SHOWN_ANSWER = 500
"""Characters of an extracted answer that a verdict keeps, as in evalcard's own."""
GOLDS = " | "
"""Between several right answers."""
MOST_ITEMS = 10**12
"""More items than any task has."""
_CLOSE = 1e-9
_MOST_NATS = 1e9
"""No text is so long that its log-probability is further from 0; adapters of somebody's own may give scores above 0."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@dataclass(frozen=True, slots=True)
class Answer:
    """One graded answer, as any harness tells it."""

    item_id: ItemId
    repeat: int
    document: Any
    """What the item is, in JSON's types."""
    prompts: Sequence[str]
    """Texts of all its requests."""
    question: str
    extracted: str | None
    target: str
    scores: list[ItemScore]
    text: str | None = None
    choices: list[ScoredChoice] | None = None
    finish: Finish = "not_told"
    fault: str | None = None
    output_tokens: int = 0
    prompt_tokens: int = 0
    is_refusal: bool = False
    """Whether the harness itself says that there is no answer."""


def sample_of(task: TaskRecord, model: str, answer: Answer) -> Sample:
    """The answer as a journal would hold it. Its key names the answer alone, so it stands in for no other."""
    said = answer.text if answer.choices is None else [choice.logprob for choice in answer.choices]
    key = [model, task.name, answer.item_id, answer.repeat, list(answer.prompts), said]
    return Sample(
        schema=SCHEMA,
        key=hash_document(key),
        task=task.name,
        task_version=task.version,
        item_id=answer.item_id,
        item_hash=hash_document(answer.document),
        repeat=answer.repeat,
        prompt_hash=hash_texts(answer.prompts),
        prompt_tokens=answer.prompt_tokens,
        text=answer.text,
        choices=answer.choices,
        finish=answer.finish,
        fault=answer.fault,
        output_tokens=answer.output_tokens,
    )


def verdict_of(task: TaskRecord, answer: Answer) -> Verdict:
    """By the rules of evalcard's own grading; an answer that failed has no scores."""
    failed = answer.finish == "error"
    value = next((s.value for s in answer.scores if (s.metric, s.filter) == (task.metric, task.filter)), None)
    return Verdict(
        item_id=answer.item_id,
        repeat=answer.repeat,
        extracted=None if failed or answer.extracted is None else answer.extracted[:SHOWN_ANSWER],
        target=answer.target,
        outcome="error" if failed else _outcome(task, answer, value),
        scores=[] if failed else answer.scores,
    )


def _outcome(task: TaskRecord, answer: Answer, value: float | None) -> Outcome:
    """A graded metric counts as correct at its best value only; scored answers always answer."""
    if value is not None and (value >= 1 if task.higher_is_better else value <= 0):
        return "correct"
    if answer.finish == "length":
        return "truncated"
    is_unanswered = answer.is_refusal or (answer.extracted is None and answer.choices is None)
    return "no_answer" if is_unanswered or value is None else "wrong"


def hash_document(document: Any) -> str:
    """sha256 of canonical JSON (sorted keys, no spaces), so that equal documents have evalcard's own item hash."""
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def hash_texts(texts: Iterable[str]) -> str:
    """sha256 over texts, each after its length in bytes, so that no two lists of texts meet."""
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


def as_text(value: Any) -> str:
    """A prompt as text: chat turns and other structures as canonical JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def number(value: Any) -> float | None:
    """A score as a finite number; None for what is none, such as a pair."""
    if isinstance(value, (bool, int, float)):
        try:
            found = float(value)
        except OverflowError:
            return None
        return found if math.isfinite(found) else None
    return None


def as_number(given: Any) -> float | None:
    """``given`` as a finite number, text too."""
    try:
        return number(float(given))
    except (TypeError, ValueError, OverflowError):
        return None


def logprob_of(given: Any) -> float | None:
    """A log-probability, as a number or as text; None for one that is not finite, which a damaged model gives.

    Raises ValueError for what no model gives: no number at all, or one beyond all texts.
    """
    try:
        found = float(given) if isinstance(given, (int, float, str)) and not isinstance(given, bool) else None
    except (ValueError, OverflowError):
        found = None
    if found is None or (math.isfinite(found) and abs(found) > _MOST_NATS):
        raise ValueError(f"a log-probability is {str(given)[:40]!r}, which is none")
    return found if math.isfinite(found) else None


def count_of(given: Any, name: str) -> int:
    """A number of things as a harness states it; 0 for one that is not stated. Raises ValueError for what is none."""
    if given is None:
        return 0
    found = as_number(given)
    if found is None or not 0 <= found <= MOST_ITEMS or found != int(found):
        raise ValueError(f"{name} is {str(given)[:40]}, which is no count")
    return int(found)


def is_mean_of(figure: Any, values: Sequence[float | None]) -> bool:
    """Whether a printed score is the plain mean of these item scores, so that a comparison may go item by item."""
    known = [value for value in values if value is not None]
    printed = number(figure)
    if printed is None or not known or len(known) < len(values):
        return False
    try:
        mean = math.fsum(known) / len(known)
    except OverflowError:
        return False
    return math.isclose(mean, printed, rel_tol=_CLOSE, abs_tol=_CLOSE)


def name_and_hub_id(given: str, is_local: bool = False) -> tuple[str, str | None]:
    """(name, Hub id or None) of a model; of a path only its last part is kept."""
    parts = [part for part in re.split(r"[/\\]+", given) if part not in ("", ".", "..", "~")]
    name = parts[-1] if parts else "model"
    return (name, None) if is_local or not _HUB_ID.fullmatch(given) else (given, given)


def sampling_words(
    temperature: float, top_p: float | None, top_k: int | None, min_p: float | None, seed: int | None
) -> str:
    """In the words of evalcard's own records (tasks/prompts/decoding.py); the seed where it is known."""
    parts = [f"temperature {temperature:g}", f"top-p {1.0 if top_p is None else top_p:g}"]
    parts += [f"top-k {top_k}"] if top_k else []
    parts += [f"min-p {min_p:g}"] if min_p else []
    parts += [] if seed is None else [f"seed {seed}"]
    return f"sampled, {', '.join(parts)}"


def chance_of(counts: Sequence[int]) -> float:
    """Mean of 1/choices over items that offer choices to score; 0 where there are none."""
    return sum(1 / count for count in counts if count) / len(counts) if counts else 0.0


def selection_words(ids: Sequence[ItemId], selected: int, total: int) -> str:
    """How a subset was chosen, as far as its ids tell."""
    if selected == total:
        return "all"
    return f"first {selected}" if list(ids) == list(range(selected)) else f"{selected} chosen items"
