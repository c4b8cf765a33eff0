"""One sample of inspect_ai -> what a comparison needs of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalcard.results.imported.answers import GOLDS, Answer, as_text, number
from evalcard.results.imported.files import damaged
from evalcard.results.records import Finish, ItemId, ItemScore, TaskRecord

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_NO_ANSWER = {"invalid_response_format", "refusal", "no_response"}
"""Reasons of a score with which a scorer says that the model gave no answer."""
_CUT = {"max_tokens", "length", "model_length"}
_CUT_LIMITS = {"token", "context"}
_UNKNOWN = {None, "unknown"}
"""Reasons for an end that say nothing of it."""
_ATTACHMENT = "attachment://"


@dataclass(frozen=True, slots=True)
class Reading:
    """A sample, checked."""

    item_id: ItemId
    epoch: int
    """From 1."""
    input: Any
    choices: Sequence[str]
    targets: Sequence[str]
    prompts: Sequence[str]
    completion: str
    finish: Finish
    fault: str | None
    output_tokens: int
    values: Mapping[str, float | None]
    """Scorer, or key of one that gives several scores, -> number; None for a sample that it left unscored."""
    scores: Mapping[str, Mapping[str, Any]]
    """Scorer -> its score as stored."""

    def has_answer(self, scorer: str) -> bool:
        return _said(self.scores.get(scorer)) is not None

    def is_graded_in_words(self, scorer: str) -> bool:
        """Whether its score says right or wrong in a letter or word, or there is none."""
        value = self.scores.get(scorer, {}).get("value")
        return value is None or isinstance(value, bool) or (
            isinstance(value, str) and (value in _LETTERS or value.lower() in _WORDS)
        )  # fmt: skip


def read_sample(sample: Mapping[str, Any], place: str) -> Reading:
    """Raises UserError naming ``place`` for what is no sample."""
    item_id, epoch = sample.get("id"), sample.get("epoch")
    if not isinstance(item_id, (int, str)) or isinstance(item_id, bool) or type(epoch) is not int or epoch < 1:
        raise damaged(place, f"its id {item_id!r} or epoch {epoch!r} is none")
    attachments = sample.get("attachments")
    sample = _with_attachments(sample, attachments if isinstance(attachments, dict) else {})
    output = sample.get("output") if isinstance(sample.get("output"), dict) else {}
    assert isinstance(output, dict)
    scores = {name: one for name, one in _table(sample.get("scores")).items() if isinstance(one, dict)}
    fault = _fault(sample)
    target = sample.get("target")
    return Reading(
        item_id=item_id,
        epoch=epoch,
        input=sample.get("input"),
        choices=[str(one) for one in sample.get("choices") or ()],
        targets=[str(one) for one in target] if isinstance(target, list) else [as_text(target)],
        prompts=_prompts(sample),
        completion=_completion(output),
        finish="error" if fault is not None else _finish(sample, output),
        fault=fault,
        output_tokens=_count(output.get("usage")),
        values=_values(scores),
        scores=scores,
    )


def as_answer(one: Reading, record: TaskRecord, metric: str, has_answers: bool) -> Answer:
    """``has_answers``: whether the task's scorer notes answers, so that a missing one says that there was none."""
    scorer = record.filter
    score = one.scores.get(scorer)
    said = _said(score)
    extracted = said if has_answers else one.completion.strip() or None
    unscored = one.values.get(scorer) is None
    reason = _reason(score)
    failed = one.fault is None and unscored and reason not in _NO_ANSWER
    return Answer(
        item_id=one.item_id,
        repeat=one.epoch - 1,
        document={"input": one.input, "target": list(one.targets), "choices": list(one.choices)},
        prompts=one.prompts,
        question=_question(one.input),
        extracted=extracted,
        target=GOLDS.join(one.targets),
        scores=_item_scores(one, metric, scorer),
        text=one.completion,
        finish="error" if failed else one.finish,
        fault=f"no score of {scorer}{f' ({reason})' if reason else ''}" if failed else one.fault,
        output_tokens=one.output_tokens,
        is_refusal=reason in _NO_ANSWER or (score is not None and score.get("value") == "N"),
    )


def value_of(value: Any) -> float | None:
    """A score as inspect's ``value_to_float`` maps it; None for NaN, with which a scorer leaves a sample unscored.

    What it cannot map counts 0 there, and 0 here.
    """
    if isinstance(value, (bool, int, float)):
        if isinstance(value, float) and math.isnan(value):
            return None
        found = number(value)
        return 0.0 if found is None else found
    if not isinstance(value, str):
        return None if value is None else 0.0
    if value in _LETTERS:
        return _LETTERS[value]
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    try:
        found = float(value)
    except ValueError:
        return 0.0
    return found if math.isfinite(found) else 0.0


def _values(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """A scorer with several scores gives one under each of their names, as inspect's results do."""
    found: dict[str, float | None] = {}
    for scorer, score in scores.items():
        value = score.get("value")
        if isinstance(value, dict):
            found |= {str(key): value_of(one) for key, one in value.items()}
        elif not isinstance(value, list):
            found[scorer] = value_of(value)
    return found


def _item_scores(one: Reading, metric: str, scorer: str) -> list[ItemScore]:
    """The primary score first; a missing one of a model that gave no answer is 0."""
    primary = one.values.get(scorer)
    first = ItemScore(metric=metric, filter=scorer, value=0.0 if primary is None else primary)
    others = [ItemScore(metric=metric, filter=name, value=value) for name, value in one.values.items()]
    return [first, *(other for other in others if other.filter != scorer)]


def _said(score: Mapping[str, Any] | None) -> str | None:
    answer = score.get("answer") if score else None
    return answer.strip() or None if isinstance(answer, str) else None


def _reason(score: Mapping[str, Any] | None) -> str | None:
    """Why a score is none; older versions note it in the metadata."""
    metadata = score.get("metadata") if score else None
    noted = metadata.get("unscored_reason") if isinstance(metadata, dict) else None
    reason = (score.get("reason") if score else None) or noted
    return reason if isinstance(reason, str) else None


def _fault(sample: Mapping[str, Any]) -> str | None:
    error = sample.get("error")
    return str(error.get("message", "failed")) if isinstance(error, dict) else None


def _finish(sample: Mapping[str, Any], output: Mapping[str, Any]) -> Finish:
    choices, limit = output.get("choices"), sample.get("limit")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    is_limited = isinstance(limit, dict) and limit.get("type") in _CUT_LIMITS
    reason = first.get("stop_reason")
    if is_limited or reason in _CUT:
        return "length"
    return "not_told" if reason in _UNKNOWN else "stop"


def _completion(output: Mapping[str, Any]) -> str:
    choices = output.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    stored = output.get("completion")
    return stored if isinstance(stored, str) and stored else _text_of(first.get("message"))


def _text_of(message: Any) -> str:
    """The text of a chat turn, whose content is text or a list of parts."""
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        return "".join(part["text"] for part in parts)
    return content if isinstance(content, str) else ""


def _prompts(sample: Mapping[str, Any]) -> list[str]:
    """All turns before the model's first, with their roles; the input itself where no turns are stored."""
    found: list[str] = []
    for message in sample.get("messages") or ():
        if not isinstance(message, dict) or message.get("role") == "assistant":
            break
        found += [str(message.get("role")), as_text(message.get("content"))]
    return found or [as_text(sample.get("input"))]


def _question(given: Any) -> str:
    """The last turn of a person; the input itself where it is text."""
    if not isinstance(given, list):
        return as_text(given)
    turns = [one for one in given if isinstance(one, dict) and one.get("role") == "user"]
    return _text_of(turns[-1]) if turns else as_text(given)


def _count(usage: Any) -> int:
    count = usage.get("output_tokens") if isinstance(usage, dict) else None
    return count if type(count) is int and count >= 0 else 0


def _table(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}


def _with_attachments(sample: Mapping[str, Any], attachments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Long texts are stored apart, under ``attachment://`` and their hash. Events are not looked at."""
    fields = ("id", "epoch", "input", "choices", "target", "messages", "output", "scores", "error", "limit")
    kept = {name: sample[name] for name in fields if name in sample}
    return {name: _resolved(value, attachments) for name, value in kept.items()} if attachments else kept


def _resolved(value: Any, attachments: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, list):
        return [_resolved(one, attachments) for one in value]
    if isinstance(value, dict):
        return {key: _resolved(one, attachments) for key, one in value.items()}
    return value
