"""Prompts as text -> items as token ids, with their hashes; lengths are checked, nothing is ever cut."""

import hashlib
import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalcard.backends.backend import Decoding, GenerateRequest, Item, ScoreRequest
from evalcard.errors import UserError
from evalcard.results.records import ItemId
from evalcard.tasks.prompts.decoding import Generation
from evalcard.tasks.prompts.lengths import LongPrompts, TooLong
from evalcard.tasks.prompts.requests import Fits, Prompt
from evalcard.tasks.prompts.tokenizer import Ids, Tokenizer

_ROOM_FOR_ANSWER = 4
"""--drop-shots leaves an answer its whole limit, or this part of what the model reads where the limit is larger."""


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
    tokenizer: Tokenizer,
    max_model_len: int,
    generation: Generation | None = None,
) -> Encoded:
    """Items in the order of the prompts, as many of each as ``generation`` says; it is None for scored tasks.

    docs: all of the task's, by position. Raises LongPrompts for prompts that leave no room for an answer; nothing is
    ever truncated.
    """
    if not prompts:
        return Encoded((), ())
    kinds = {prompt.kind for prompt in prompts}
    assert len(kinds) == 1, (task, kinds)
    hashes = [hash_document(docs[prompt.position]) for prompt in prompts]
    if kinds == {"generate"}:
        assert generation is not None, task
        return _generate_items(task, prompts, hashes, tokenizer, max_model_len, generation)
    if kinds == {"rolling"}:
        return _rolling_items(task, prompts, hashes, tokenizer, max_model_len)
    return _score_items(task, prompts, hashes, tokenizer, max_model_len)


def room_checker(tokenizer: Tokenizer, max_model_len: int, generation: Generation | None) -> Fits:
    """For --drop-shots: does a prompt leave its answer enough room?

    A generated answer gets its limit or a quarter of ``max_model_len`` tokens, whichever is less: leaving room for the
    whole of a reasoning model's limit would cost every worked example. A scored one has its own length.
    """

    def fits(prompts: Sequence[Prompt]) -> list[bool]:
        if not prompts or prompts[0].kind == "rolling":
            return [True] * len(prompts)
        if prompts[0].kind == "score":
            pairs = [(str(context), str(text)) for prompt in prompts for context, text in prompt.arguments]
            lengths = iter([len(context) + len(ids) - 1 for context, ids, _ in tokenizer.encode_pairs(pairs)])
            return [max(next(lengths) for _ in prompt.arguments) <= max_model_len for prompt in prompts]
        assert generation is not None, prompts[0]
        room = min(generation.decoding.max_tokens, max(1, max_model_len // _ROOM_FOR_ANSWER))
        encoded = tokenizer.encode_many([str(prompt.arguments[0][0]) for prompt in prompts])
        return [len(ids) + room <= max_model_len for ids in encoded]

    return fits


def _score_items(
    task: str, prompts: Sequence[Prompt], hashes: list[str], tokenizer: Tokenizer, max_model_len: int
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
        items.append(_score_item(task, prompt, item_hash, requests))
    _refuse_long(task, items, max_model_len)
    note = f"{task}: {merged} answers share their first token with the end of the prompt and were encoded by themselves"
    return Encoded(tuple(items), (note,) if merged else ())


def _score_item(
    task: str, prompt: Prompt, item_hash: str, requests: list[ScoreRequest], is_rolling: bool = False
) -> Item:
    ids = [(request.context_ids, request.continuation_ids) for request in requests]
    return Item(task, prompt.item_id, item_hash, 0, hash_ids(ids), tuple(requests), is_rolling, prompt.shots)


def _rolling_items(
    task: str, prompts: Sequence[Prompt], hashes: list[str], tokenizer: Tokenizer, max_model_len: int
) -> Encoded:
    """Whole texts, each token scored once, in windows of ``max_model_len``; the first request carries the text."""
    texts = [str(prompt.arguments[0][0]) for prompt in prompts]
    if tokenizer.prefix_id is None:
        raise UserError(f"task {task} scores whole texts, which takes a BOS or EOS token; {tokenizer.name} has none.")
    items = []
    for prompt, item_hash, text, ids in zip(prompts, hashes, texts, tokenizer.encode_many(texts), strict=True):
        windows = _windows(ids, tokenizer.prefix_id, max_model_len)
        requests = [ScoreRequest("", text if i == 0 else "", *window) for i, window in enumerate(windows)]
        items.append(_score_item(task, prompt, item_hash, requests, is_rolling=True))
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
    tokenizer: Tokenizer,
    max_model_len: int,
    generation: Generation,
) -> Encoded:
    texts, decoding = [str(prompt.arguments[0][0]) for prompt in prompts], generation.decoding
    ids = tokenizer.encode_many(texts)
    lengths = [(prompt.item_id, len(one) + 1) for prompt, one in zip(prompts, ids, strict=True)]
    _refuse_over(task, lengths, max_model_len, "with the first token of an answer")
    items, cut = [], 0
    for prompt, item_hash, text, prompt_ids in zip(prompts, hashes, texts, ids, strict=True):
        if not prompt_ids:
            raise UserError(f"task {task}, item {prompt.item_id}: its prompt is empty.")
        room = max_model_len - len(prompt_ids)
        cut += room < decoding.max_tokens
        requests = (GenerateRequest(text, prompt_ids, generation.stop_ids, _within(decoding, room)),)
        prompt_hash = hash_ids([(prompt_ids,)])
        items += [
            Item(task, prompt.item_id, item_hash, repeat, prompt_hash, requests, shots=prompt.shots)
            for repeat in range(generation.repeats)
        ]
    note = f"{task}: {cut} of {len(prompts)} answers get less than the task's {decoding.max_tokens} tokens, so that "
    note += f"prompt and answer fit {max_model_len} (--max-model-len)"
    return Encoded(tuple(items), (note,) if cut else ())


def _within(decoding: Decoding, room: int) -> Decoding:
    return decoding if decoding.max_tokens <= room else replace(decoding, max_tokens=room)


def _refuse_long(task: str, items: list[Item], limit: int) -> None:
    """The last token is only predicted, so a scored sequence may be one token longer than the model reads."""
    lengths = [(item.item_id, max(sum(map(len, parts(request))) for request in item.requests) - 1)
               for item in items if item.requests]  # fmt: skip
    _refuse_over(task, lengths, limit, "with the answers to be scored")


def _refuse_over(task: str, lengths: list[tuple[ItemId, int]], limit: int, what: str) -> None:
    """lengths: tokens that the model has to hold for each item."""
    over = [(item_id, length) for item_id, length in lengths if length > limit]
    if not over:
        return
    raise LongPrompts([TooLong(task, tuple(over), len(lengths), limit, what)])


def parts(request: ScoreRequest | GenerateRequest) -> tuple[Ids, ...]:
    """The ids of a request: the prompt, or context and continuation."""
    if isinstance(request, GenerateRequest):
        return (request.prompt_ids,)
    return request.context_ids, request.continuation_ids
