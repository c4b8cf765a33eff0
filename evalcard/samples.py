"""Between items and journal lines: the key of a sample, a line from an answer, an answer from a line."""

import hashlib
import json
from dataclasses import asdict

from evalcard.backends.backend import ChoiceAnswer, GenerateRequest, Identity, Item, ItemAnswer, ScoreRequest
from evalcard.results.records import SCHEMA, Sample, ScoredChoice


def prompt_tokens(item: Item) -> int:
    """Prompt tokens over all requests of an item; of scored requests context and continuation."""
    return sum(
        len(request.prompt_ids)
        if isinstance(request, GenerateRequest)
        else len(request.context_ids) + len(request.continuation_ids)
        for request in item.requests
    )


def fed_tokens(item: Item) -> int:
    """The same as an engine is fed them: of a scored request all but the last token, which nothing follows."""
    return prompt_tokens(item) - sum(not isinstance(request, GenerateRequest) for request in item.requests)


def sample_key(item: Item, identity: Identity, tokenizer_digest: str) -> str:
    """sha256 over everything that could change the answer (design, Settled 2).

    Never the limit, the task's name or the batch. Seed, repeat and the item's hash, which address the noise, enter
    only where answers are sampled.
    """
    facts: dict[str, object] = {
        "weights": identity.weights_digest,
        "numerics": identity.numerics,
        "tokenizer": tokenizer_digest,
        "prompt": item.prompt_hash,
    }
    request = item.requests[0] if item.requests else None
    if isinstance(request, GenerateRequest):
        facts["stop_ids"] = sorted(request.stop_ids)
        decoding = asdict(request.decoding)
        if request.decoding.is_greedy:
            facts["decoding"] = {name: decoding[name] for name in ("max_tokens", "until")}
        else:
            facts |= {"decoding": decoding, "item": item.item_hash, "repeat": item.repeat}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def make_sample(item: Item, key: str, task_version: str, answer: ItemAnswer) -> Sample:
    """A journal line of an answer."""
    choices = None
    if answer.choices is not None:
        assert len(answer.choices) == len(item.requests), (item.task, item.item_id, len(answer.choices))
        choices = [
            ScoredChoice(text=request.continuation, logprob=one.logprob, tokens=one.tokens, is_greedy=one.is_greedy)
            for request, one in zip(item.requests, answer.choices, strict=True)
            if isinstance(request, ScoreRequest)
        ]
    return Sample(
        schema=SCHEMA,
        key=key,
        task=item.task,
        task_version=task_version,
        item_id=item.item_id,
        item_hash=item.item_hash,
        repeat=item.repeat,
        prompt_hash=item.prompt_hash,
        prompt_tokens=prompt_tokens(item),
        shots=item.shots,
        text=answer.text,
        token_ids=None if answer.token_ids is None else list(answer.token_ids),
        choices=choices,
        finish=answer.finish,
        fault=answer.fault,
        output_tokens=answer.output_tokens,
        timings=dict(answer.timings),
    )


def fits(sample: Sample, item: Item) -> bool:
    """Whether a stored answer has what the item asks for: a text, or one choice for each request."""
    if sample.finish == "error":
        return False
    if item.requests and isinstance(item.requests[0], GenerateRequest):
        return sample.text is not None
    return sample.choices is not None and len(sample.choices) == len(item.requests)


def answer_of(sample: Sample) -> ItemAnswer:
    """A stored answer as a backend would give it, for another item with the same key."""
    choices = None
    if sample.choices is not None:
        choices = tuple(ChoiceAnswer(one.logprob, one.tokens, one.is_greedy) for one in sample.choices)
    assert sample.finish != "not_told", ("no backend's answer", sample.key)
    return ItemAnswer(
        sample.finish,
        text=sample.text,
        token_ids=None if sample.token_ids is None else tuple(sample.token_ids),
        choices=choices,
        output_tokens=sample.output_tokens,
        timings=tuple(sample.timings.items()),
    )
