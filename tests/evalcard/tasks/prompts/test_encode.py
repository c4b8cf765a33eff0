"""Items: ids, hashes, lengths."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends.backend import GenerateRequest
from evalcard.errors import UserError
from evalcard.tasks.prompts.decoding import Generation, decoding_of
from evalcard.tasks.prompts.encode import _windows, encode_items, hash_document, hash_ids, room_checker
from evalcard.tasks.prompts.requests import Prompt
from evalcard.tasks.prompts.tokenizer import Tokenizer

GREEDY = {"until": ["Q:"], "max_gen_toks": 20}
SAMPLED = {**GREEDY, "do_sample": True, "temperature": 0.8}


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer.load(str(tokenizer_folder))


def generation_of(tokenizer: Tokenizer, arguments: Any, max_new_tokens: int | None = None, repeats: int = 1) -> Any:
    decoding = decoding_of("t", arguments, tokenizer.eos_text, max_new_tokens, seed=3)
    return Generation(decoding, (1, 2), repeats)


def encoded(tokenizer: Tokenizer, prompts: list[Prompt], arguments: Any = None, limit: int = 512, **more: Any) -> Any:
    docs = [{"id": i} for i in range(len(prompts))]
    generation = generation_of(tokenizer, arguments, **more) if arguments else None
    return encode_items("t", prompts, docs, tokenizer, limit, generation)


def choices(*texts: str, context: str = "Question: one\nAnswer:") -> Prompt:
    return Prompt(0, 0, "score", tuple((context, text) for text in texts))


def test_scored_items(tokenizer: Tokenizer):
    (item,) = encoded(tokenizer, [choices(" A", " B\nC")]).items
    assert [r.continuation for r in item.requests] == [" A", " B\nC"]
    assert item.requests[0].context_ids is item.requests[1].context_ids  # one tuple, however many choices
    whole = tokenizer.encode_many(["Question: one\nAnswer: A"])[0]
    assert item.requests[0].context_ids + item.requests[0].continuation_ids == whole
    assert item.item_hash == hash_document({"id": 0}) and item.repeat == 0


def test_generated_items_and_repeats(tokenizer: Tokenizer):
    prompts = [Prompt(i, i, "generate", ((f"Question: {i}",),)) for i in range(3)]
    greedy = encoded(tokenizer, prompts, GREEDY).items
    assert [(item.item_id, item.repeat) for item in greedy] == [(0, 0), (1, 0), (2, 0)]
    sampled = encoded(tokenizer, prompts, SAMPLED, repeats=2).items
    assert [(item.item_id, item.repeat) for item in sampled] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    (request,) = sampled[0].requests
    assert isinstance(request, GenerateRequest) and request.stop_ids == (1, 2) and request.decoding.seed == 3
    assert request.decoding.until == ("Q:", "</s>") and sampled[0].prompt_hash == greedy[0].prompt_hash


class TestLength:
    def prompt(self, tokenizer: Tokenizer) -> tuple[Prompt, int]:
        text = "What is 3 plus 4? " * 10
        return Prompt(0, 0, "generate", ((text, {}),)), len(tokenizer.encode_many([text])[0])

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
            encoded(tokenizer, [prompt, replace(prompt, position=1, item_id="b")], GREEDY, limit=length)
        message = str(error.value)
        assert f"2 of 2 prompts do not fit the model's {length} tokens with the first token of an answer: " in message
        assert f"item 0 ({length + 1} tokens), item b ({length + 1} tokens)" in message
        assert (
            f"--max-model-len {length + 1} if" in message and "--num-fewshot" in message and "--drop-shots" in message
        )
        assert encoded(tokenizer, [prompt], GREEDY, limit=length + 1).items  # what the message says is right

    def test_a_scored_sequence_may_end_one_token_later(self, tokenizer: Tokenizer):
        prompt = choices(" A", " circle circle", context="What is 3 plus 4?")
        (item,) = encoded(tokenizer, [prompt]).items
        longest = max(len(r.context_ids) + len(r.continuation_ids) for r in item.requests)
        assert encoded(tokenizer, [prompt], limit=longest - 1).items == (item,)
        with pytest.raises(UserError, match="1 of 1 prompts do not fit") as error:
            encoded(tokenizer, [prompt], limit=longest - 2)
        assert f"the model's {longest - 2} tokens with the answers to be scored" in str(error.value)
        assert f"item 0 ({longest - 1} tokens)" in str(error.value)
        assert f"--max-model-len {longest - 1} " in str(error.value)

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
    (item,) = encoded(tokenizer, [Prompt(0, 0, "rolling", ((text,),))], limit=16).items
    assert item.is_rolling and [r.continuation for r in item.requests] == [text] + [""] * (len(item.requests) - 1)
    assert tuple(token for r in item.requests for token in r.continuation_ids) == ids
    assert item.requests[0].context_ids == (tokenizer.prefix_id,)
    assert encoded(tokenizer, [Prompt(0, 0, "rolling", (("",),))]).items[0].requests[0].continuation_ids == (
        0,
    )  # its BOS


def test_hashes():
    assert hash_document({"b": [1], "a": "é"}) == hash_document({"a": "é", "b": [1]})
    assert hash_document({"b": [1], "a": "é"}) != hash_document({"b": [1], "a": "e"})
    parts = [((1, 2), (3,)), ((1,), (2, 3)), ((1, 2, 3), ()), ((1, 2, 3),)]
    assert len({hash_ids([one]) for one in parts}) == 4
    assert hash_ids([((1,), (2,)), ((3,), (4,))]) != hash_ids([((1,), (2,))])


class TestRoom:
    """What --drop-shots asks of a prompt."""

    def test_a_generated_answer_gets_its_limit_or_a_quarter(self, tokenizer: Tokenizer):
        prompt = Prompt(0, 0, "generate", (("What is 3 plus 4? " * 10, {}),))
        length = len(tokenizer.encode_many([prompt.arguments[0][0]])[0])
        short, long = (generation_of(tokenizer, {"max_gen_toks": count}) for count in (5, 10_000))
        assert room_checker(tokenizer, length + 5, short)([prompt]) == [True]
        assert room_checker(tokenizer, length + 4, short)([prompt]) == [False]
        needed = next(n for n in range(length, 9 * length) if room_checker(tokenizer, n, long)([prompt]) == [True])
        assert length + needed // 4 <= needed and length + (needed - 1) // 4 > needed - 1

    def test_a_scored_answer_gets_what_it_is_long(self, tokenizer: Tokenizer):
        prompts = [choices(" A"), choices(" A", " circle circle")]
        (short, long) = encoded(tokenizer, prompts).items
        lengths = [max(len(r.context_ids) + len(r.continuation_ids) for r in one.requests) - 1 for one in (short, long)]
        assert lengths[0] < lengths[1]
        assert room_checker(tokenizer, lengths[1], None)(prompts) == [True, True]
        assert room_checker(tokenizer, lengths[1] - 1, None)(prompts) == [True, False]
        assert room_checker(tokenizer, lengths[1], None)([]) == []

    def test_shots_that_were_left_out_are_told_of_each_item(self, tokenizer: Tokenizer):
        items = encoded(tokenizer, [replace(choices(" A"), shots=4)]).items
        assert items[0].shots == 4
        generated = encoded(tokenizer, [Prompt(0, "x", "generate", (("What",),), 2)], SAMPLED, repeats=2).items
        assert [(one.item_id, one.shots) for one in generated] == [("x", 2), ("x", 2)]
