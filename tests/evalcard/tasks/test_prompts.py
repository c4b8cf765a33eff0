"""Items: ids, hashes, lengths; two models' prompts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends.backend import GenerateRequest, Item
from evalcard.errors import UserError
from evalcard.tasks.harness import Prompt
from evalcard.tasks.prompts import (
    Limits,
    _windows,
    encode_items,
    hash_document,
    hash_ids,
    require_equal_prompts,
)
from evalcard.tasks.tokenizer import Tokenizer

GREEDY = {"until": ["Q:"], "max_gen_toks": 20}
SAMPLED = {**GREEDY, "do_sample": True, "temperature": 0.8}


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer.load(str(tokenizer_folder))


def encoded(
    tokenizer: Tokenizer, prompts: list[Prompt], generation: Any = None, limit: int = 512, **options: Any
) -> Any:
    docs = options.pop("docs", [{"id": i} for i in range(len(prompts))])
    limits = Limits(limit, options.pop("max_new_tokens", None))
    return encode_items("t", prompts, docs, generation or {}, tokenizer, limits, options.pop("repeats", 1), 3, (1, 2))


def choices(*texts: str, context: str = "Question: one\nAnswer:") -> Prompt:
    return Prompt(0, "score", tuple((context, text) for text in texts))


def test_scored_items(tokenizer: Tokenizer):
    (item,) = encoded(tokenizer, [choices(" A", " B\nC")]).items
    assert [r.continuation for r in item.requests] == [" A", " B\nC"]
    assert item.requests[0].context_ids is item.requests[1].context_ids  # one tuple, however many choices
    whole = tokenizer.encode_many(["Question: one\nAnswer: A"])[0]
    assert item.requests[0].context_ids + item.requests[0].continuation_ids == whole
    assert item.item_hash == hash_document({"id": 0}) and item.repeat == 0


def test_generated_items_and_repeats(tokenizer: Tokenizer):
    prompts = [Prompt(i, "generate", ((f"Question: {i}",),)) for i in range(3)]
    greedy = encoded(tokenizer, prompts, GREEDY, repeats=4).items
    assert [(item.item_id, item.repeat) for item in greedy] == [(0, 0), (1, 0), (2, 0)]
    sampled = encoded(tokenizer, prompts, SAMPLED, repeats=2).items
    assert [(item.item_id, item.repeat) for item in sampled] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    (request,) = sampled[0].requests
    assert isinstance(request, GenerateRequest) and request.stop_ids == (1, 2) and request.decoding.seed == 3
    assert request.decoding.until == ("Q:", "</s>") and sampled[0].prompt_hash == greedy[0].prompt_hash


class TestLength:
    def prompt(self, tokenizer: Tokenizer) -> tuple[Prompt, int]:
        text = "What is 3 plus 4? " * 10
        return Prompt(0, "generate", ((text, {}),)), len(tokenizer.encode_many([text])[0])

    def test_answers_are_cut_to_the_room_left_and_that_is_said(self, tokenizer: Tokenizer):
        prompt, length = self.prompt(tokenizer)
        fits = encoded(tokenizer, [prompt], GREEDY, limit=length + 20)
        assert fits.items[0].requests[0].decoding.max_tokens == 20 and fits.notes == ()
        tight = encoded(tokenizer, [prompt], GREEDY, limit=length + 1)
        assert tight.items[0].requests[0].decoding.max_tokens == 1
        assert "1 of 1 answers" in tight.notes[0] and "--max-model-len" in tight.notes[0]
        assert tight.items[0].requests[0].prompt_ids == fits.items[0].requests[0].prompt_ids

    def test_a_prompt_is_never_cut(self, tokenizer: Tokenizer):
        prompt, length = self.prompt(tokenizer)
        with pytest.raises(UserError) as error:
            encoded(tokenizer, [prompt, replace(prompt, item_id=1)], GREEDY, limit=length)
        assert f"2 of 2 prompts do not fit the model's {length} tokens: item 0 ({length} tokens)" in str(error.value)
        assert "--num-fewshot" in str(error.value) and "--max-model-len" in str(error.value)

    def test_a_scored_sequence_may_end_one_token_later(self, tokenizer: Tokenizer):
        prompt = choices(" A", " circle circle", context="What is 3 plus 4?")
        (item,) = encoded(tokenizer, [prompt]).items
        longest = max(len(r.context_ids) + len(r.continuation_ids) for r in item.requests)
        assert encoded(tokenizer, [prompt], limit=longest - 1).items == (item,)
        with pytest.raises(UserError, match="1 of 1 prompts do not fit"):
            encoded(tokenizer, [prompt], limit=longest - 2)

    def test_asked_length_wins_over_the_tasks(self, tokenizer: Tokenizer):
        prompt, _ = self.prompt(tokenizer)
        (item,) = encoded(tokenizer, [prompt], GREEDY, max_new_tokens=3).items
        assert item.requests[0].decoding.max_tokens == 3


def test_empty_choices_are_refused(tokenizer: Tokenizer):
    with pytest.raises(UserError, match="item 0.*holds no token"):
        encoded(tokenizer, [choices(" A", "")])


@pytest.mark.parametrize("limit", [1, 2, 5, 7, 100])
def test_windows_equal_the_harness(limit: int):
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    for count in range(0, 40):
        ids = list(range(100, 100 + count))
        theirs = [make_disjoint_window(pair) for pair in get_rolling_token_windows(ids, 9, limit, 1)]
        ours = _windows(tuple(ids), 9, limit)
        assert ours == [(tuple(context), tuple(tokens)) for context, tokens in theirs]
        assert [token for _, tokens in ours for token in tokens] == ids


def test_whole_texts(tokenizer: Tokenizer):
    text = "The circle is round. " * 9
    ids = tokenizer.encode_many([text])[0]
    (item,) = encoded(tokenizer, [Prompt(0, "rolling", ((text,),))], limit=16).items
    assert item.is_rolling and [r.continuation for r in item.requests] == [text] + [""] * (len(item.requests) - 1)
    assert tuple(token for r in item.requests for token in r.continuation_ids) == ids
    assert item.requests[0].context_ids == (tokenizer.prefix_id,)
    assert encoded(tokenizer, [Prompt(0, "rolling", (("",),))]).items[0].requests[0].continuation_ids == (0,)  # its BOS


def test_hashes():
    assert hash_document({"b": [1], "a": "é"}) == hash_document({"a": "é", "b": [1]})
    assert hash_document({"b": [1], "a": "é"}) != hash_document({"b": [1], "a": "e"})
    parts = [((1, 2), (3,)), ((1,), (2, 3)), ((1, 2, 3), ()), ((1, 2, 3),)]
    assert len({hash_ids([one]) for one in parts}) == 4
    assert hash_ids([((1,), (2,)), ((3,), (4,))]) != hash_ids([((1,), (2,))])


class TestTwoModels:
    def test_equal_prompts_pass(self, tokenizer: Tokenizer):
        items = encoded(tokenizer, [choices(" A", " B")]).items
        assert require_equal_prompts(items, items, "a", "b", tokenizer, tokenizer) is None

    def test_the_first_difference_is_named(self, tokenizer: Tokenizer):
        items = encoded(tokenizer, [choices(" A", " B")]).items
        request = items[0].requests[1]
        ids = (*request.context_ids[:2], 77, *request.context_ids[3:])
        other = (items[0].requests[0], replace(request, context_ids=ids))
        changed = (replace(items[0], requests=other, prompt_hash="x"),)
        with pytest.raises(UserError) as error:
            require_equal_prompts(items, changed, "base", "small", tokenizer, tokenizer)
        message = str(error.value)
        assert "base and small" in message and "task t, item 0, at token 2" in message
        assert str(list(ids[2:6])) in message and str(list(request.context_ids[2:6])) in message

    def test_one_is_longer(self, tokenizer: Tokenizer):
        items = encoded(tokenizer, [Prompt(0, "generate", (("What is 3",),))], GREEDY).items
        request = items[0].requests[0]
        shorter: Item = replace(
            items[0], requests=(replace(request, prompt_ids=request.prompt_ids[:-1]),), prompt_hash="x"
        )
        with pytest.raises(UserError, match="against the end"):
            require_equal_prompts(items, (shorter,), "a", "b", tokenizer, tokenizer)
