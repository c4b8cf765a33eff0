"""Prompts as text -> items as token ids with their hashes, and the proof that two models read the same ones."""

import hashlib
import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalcard.backends.backend import Decoding, GenerateRequest, Item, ScoreRequest
from evalcard.errors import UserError
from evalcard.tasks.decoding import decoding_of
from evalcard.tasks.harness import Prompt
from evalcard.tasks.tokenizer import Ids, Tokenizer

_SHOWN_ITEMS = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds prompts and answers of a run."""

    max_model_len: int
    """Tokens of prompt and answer together."""
    max_new_tokens: int | None = None
    """Instead of the task's own limit."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Items of one task for one tokenizer, and what a person should know of them."""

    items: tuple[Item, ...]
    notes: tuple[str, ...]


def hash_document(doc: dict[str, Any]) -> str:
    """sha256 of the document as canonical JSON (sorted keys, no spaces)."""
    text = json.dumps(doc, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def hash_ids(requests: Sequence[tuple[Ids, ...]]) -> str:
    """sha256 over the ids of all requests: each part's length, then its ids, as 64-bit little-endian numbers."""
    digest = hashlib.sha256()
    packed: dict[int, bytes] = {}
    for request in requests:
        for ids in request:
            # All choices of an item share one tuple of context ids.
            if id(ids) not in packed:
                packed[id(ids)] = array("q", (len(ids), *ids)).tobytes()
            digest.update(packed[id(ids)])
    return digest.hexdigest()


def encode_items(
    task: str,
    prompts: Sequence[Prompt],
    docs: Sequence[dict[str, Any]],
    generation: dict[str, Any],
    tokenizer: Tokenizer,
    limits: Limits,
    repeats: int,
    seed: int,
    stop_ids: tuple[int, ...],
) -> Encoded:
    """Items of a task in document order, ``repeats`` of each where answers are sampled.

    Raises UserError for a prompt that leaves no room within ``limits``, naming the items; nothing is ever truncated.
    """
    if not prompts:
        return Encoded((), ())
    kinds = {prompt.kind for prompt in prompts}
    assert len(kinds) == 1, (task, kinds)
    hashes = [hash_document(docs[prompt.item_id]) for prompt in prompts]
    if kinds == {"generate"}:
        decoding = decoding_of(task, generation, tokenizer.eos_text, limits.max_new_tokens, seed)
        return _generate_items(task, prompts, hashes, decoding, stop_ids, tokenizer, limits, repeats)
    if kinds == {"rolling"}:
        return _rolling_items(task, prompts, hashes, tokenizer, limits)
    return _score_items(task, prompts, hashes, tokenizer, limits)


def _score_items(
    task: str, prompts: Sequence[Prompt], hashes: list[str], tokenizer: Tokenizer, limits: Limits
) -> Encoded:
    pairs = [(str(context), str(text)) for prompt in prompts for context, text in prompt.arguments]
    encoded = iter(tokenizer.encode_pairs(pairs))
    items, merged = [], 0
    for prompt, item_hash in zip(prompts, hashes, strict=True):
        requests = []
        for context, continuation in prompt.arguments:
            context_ids, ids, is_merged = next(encoded)
            if not ids:
                raise UserError(f"task {task}, item {prompt.item_id}: the choice {continuation!r} holds no token.")
            merged += is_merged
            requests.append(ScoreRequest(context, continuation, context_ids, ids))
        items.append(_score_item(task, prompt.item_id, item_hash, requests))
    _refuse_long(task, items, limits.max_model_len)
    note = f"{task}: {merged} answers share their first token with the end of the prompt and were encoded by themselves"
    return Encoded(tuple(items), (note,) if merged else ())


def _score_item(
    task: str, item_id: int, item_hash: str, requests: list[ScoreRequest], is_rolling: bool = False
) -> Item:
    ids = [(request.context_ids, request.continuation_ids) for request in requests]
    return Item(task, item_id, item_hash, 0, hash_ids(ids), tuple(requests), is_rolling)


def _rolling_items(
    task: str, prompts: Sequence[Prompt], hashes: list[str], tokenizer: Tokenizer, limits: Limits
) -> Encoded:
    """Whole texts, each token scored once, in windows of ``max_model_len``; the first request carries the text."""
    texts = [str(prompt.arguments[0][0]) for prompt in prompts]
    if tokenizer.prefix_id is None:
        raise UserError(f"task {task} scores whole texts, which takes a BOS or EOS token; {tokenizer.name} has none.")
    items = []
    for prompt, item_hash, text, ids in zip(prompts, hashes, texts, tokenizer.encode_many(texts), strict=True):
        windows = _windows(ids, tokenizer.prefix_id, limits.max_model_len)
        requests = [ScoreRequest("", text if i == 0 else "", *window) for i, window in enumerate(windows)]
        items.append(_score_item(task, prompt.item_id, item_hash, requests, is_rolling=True))
    return Encoded(tuple(items), ())


def _windows(ids: Ids, prefix: int, length: int) -> list[tuple[Ids, Ids]]:
    """(context, continuation) pairs whose continuations are ``ids``; each later one sees up to ``length`` tokens.

    The first predicts ``length`` tokens after the prefix id; a last window that is shorter is filled up on the left.
    """
    found: list[tuple[Ids, Ids]] = [((prefix,), ids[:length])] if ids else []
    for start in range(length, len(ids), length):
        end = min(start + length, len(ids))
        found.append((ids[end - length - 1 : start], ids[start:end]))
    return found


def _generate_items(
    task: str,
    prompts: Sequence[Prompt],
    hashes: list[str],
    decoding: Decoding,
    stop_ids: tuple[int, ...],
    tokenizer: Tokenizer,
    limits: Limits,
    repeats: int,
) -> Encoded:
    texts = [str(prompt.arguments[0][0]) for prompt in prompts]
    ids = tokenizer.encode_many(texts)
    _refuse_full(task, [(p.item_id, len(one)) for p, one in zip(prompts, ids, strict=True)], limits.max_model_len)
    items, cut = [], 0
    for prompt, item_hash, text, prompt_ids in zip(prompts, hashes, texts, ids, strict=True):
        if not prompt_ids:
            raise UserError(f"task {task}, item {prompt.item_id}: its prompt is empty.")
        room = limits.max_model_len - len(prompt_ids)
        cut += room < decoding.max_tokens
        request = GenerateRequest(text, prompt_ids, stop_ids, _within(decoding, room))
        prompt_hash = hash_ids([(prompt_ids,)])
        for repeat in range(1 if decoding.is_greedy else repeats):
            items.append(Item(task, prompt.item_id, item_hash, repeat, prompt_hash, (request,)))
    note = f"{task}: {cut} of {len(prompts)} answers get less than the task's {decoding.max_tokens} tokens, so that "
    note += f"prompt and answer fit {limits.max_model_len} (--max-model-len)"
    return Encoded(tuple(items), (note,) if cut else ())


def _within(decoding: Decoding, room: int) -> Decoding:
    return decoding if decoding.max_tokens <= room else replace(decoding, max_tokens=room)


def _refuse_long(task: str, items: list[Item], limit: int) -> None:
    """The last token is only predicted, so a scored sequence may be one token longer than the model reads."""
    lengths = [(item.item_id, max(sum(map(len, _parts(request))) for request in item.requests) - 1)
               for item in items if item.requests]  # fmt: skip
    _refuse_full(task, lengths, limit + 1)


def _refuse_full(task: str, lengths: list[tuple[Any, int]], limit: int) -> None:
    """Every length must stay below ``limit``."""
    over = [(item_id, length) for item_id, length in lengths if length >= limit]
    if not over:
        return
    shown = ", ".join(f"item {item_id} ({length} tokens)" for item_id, length in over[:_SHOWN_ITEMS])
    more = f" and {len(over) - _SHOWN_ITEMS} more" if len(over) > _SHOWN_ITEMS else ""
    longest = max(length for _, length in over)
    raise UserError(
        f"task {task}: {len(over)} of {len(lengths)} prompts do not fit the model's {limit} tokens: {shown}{more}. "
        f"Prompts are never cut. Ask for fewer shots with --num-fewshot, or raise --max-model-len above {longest} if "
        "the model can read that far."
    )


def require_equal_prompts(
    items_a: Sequence[Item], items_b: Sequence[Item], name_a: str, name_b: str, tokenizer_a: Tokenizer,
    tokenizer_b: Tokenizer,
) -> None:  # fmt: skip
    """Raise UserError with the first difference between what two models would read."""
    if len(items_a) != len(items_b):
        raise UserError(f"{name_a} and {name_b} have {len(items_a)} and {len(items_b)} items; they cannot be compared.")
    for one, other in zip(items_a, items_b, strict=True):
        if one.prompt_hash == other.prompt_hash:
            continue
        for ids, other_ids in zip(_all_ids(one), _all_ids(other), strict=True):
            if ids != other_ids:
                place = next((i for i, pair in enumerate(zip(ids, other_ids, strict=False)) if pair[0] != pair[1]),
                             min(len(ids), len(other_ids)))  # fmt: skip
                raise UserError(
                    f"{name_a} and {name_b} read different prompts, first in task {one.task}, item {one.item_id}, at "
                    f"token {place}: {_around(ids, place, tokenizer_a)} against "
                    f"{_around(other_ids, place, tokenizer_b)}. Their tokenizers or chat templates differ; give both "
                    "the same tokenizer files, then compare."
                )


def _all_ids(item: Item) -> list[Ids]:
    return [ids for request in item.requests for ids in _parts(request)]


def _parts(request: ScoreRequest | GenerateRequest) -> tuple[Ids, ...]:
    if isinstance(request, GenerateRequest):
        return (request.prompt_ids,)
    return request.context_ids, request.continuation_ids


def _around(ids: Ids, place: int, tokenizer: Tokenizer) -> str:
    shown = ids[place : place + 4]
    return f"ids {list(shown)} {tokenizer.tokens(shown)}" if shown else "the end"
