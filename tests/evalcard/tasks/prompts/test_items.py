"""One task's items for all models of a run: flags, chat turns, shots left out, and the proof that prompts are equal."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends.backend import Decoding, GenerateRequest, Item
from evalcard.errors import UserError
from evalcard.tasks.build import build
from evalcard.tasks.files.select import select
from evalcard.tasks.harness import HarnessTask
from evalcard.tasks.prompts.decoding import Generation
from evalcard.tasks.prompts.encode import encode_items
from evalcard.tasks.prompts.items import chat_of, generation_of, items_of, require_equal_prompts
from evalcard.tasks.prompts.requests import Prompt
from evalcard.tasks.prompts.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer.load(str(tokenizer_folder))


@pytest.fixture
def task_of(toys: Any) -> Callable[..., HarnessTask]:
    def make(name: str, shots: int | None = None) -> HarnessTask:
        built = build(select([toys.path(name)]), (toys.data_root,))
        task = built.tasks[0]
        task.set_fewshot(shots, 1234)
        return task

    return make


def items(task: HarnessTask, tokenizer: Tokenizer, spec: Any, positions: Any = None, limit: int = 512) -> Any:
    return items_of(task, positions or range(len(task.docs)), spec, [tokenizer], (1, 2), limit)


class TestGeneration:
    def test_flags_win_over_the_task(self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable):
        task = task_of("toy_sums")
        spec = toy_spec("toy_sums", temperature=0.6, top_p=0.9, repeats=3)
        generation, notes = generation_of(task, spec, tokenizer, (1, 2))
        decoding = generation.decoding
        assert (decoding.temperature, decoding.top_p, generation.repeats, decoding.seed) == (0.6, 0.9, 3, 1234)
        assert decoding.max_tokens == 24 and "Question:" in decoding.until and notes == []
        found = items(task, tokenizer, spec).items
        assert [(one.item_id, one.repeat) for one in found[:4]] == [(0, 0), (0, 1), (0, 2), (1, 0)]
        assert len(found) == 36

    def test_greedy_by_flag(self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable):
        task = task_of("toy_sums")
        task.task.set_config("generation_kwargs", {"until": [], "do_sample": True, "temperature": 0.7})
        assert not generation_of(task, toy_spec("toy_sums"), tokenizer, ())[0].decoding.is_greedy
        assert generation_of(task, toy_spec("toy_sums", temperature=0), tokenizer, ())[0].decoding.is_greedy

    def test_scored_tasks_are_untouched_and_that_is_said(
        self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable
    ):
        plain, asked = toy_spec("toy_shapes"), toy_spec("toy_shapes", temperature=0.6, repeats=4)
        task = task_of("toy_shapes")
        assert items(task, tokenizer, asked).items == items(task, tokenizer, plain).items
        (note,) = items(task, tokenizer, asked).notes
        assert note == "toy_shapes: scored by log-probabilities; --repeats and --temperature have no part in it"
        assert items(task, tokenizer, plain).notes == ()

    def test_repeats_of_greedy_answers_are_refused(self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable):
        with pytest.raises(UserError, match="--repeats 4: task toy_sums is decoded greedily.*Add --temperature"):
            items(task_of("toy_sums"), tokenizer, toy_spec("toy_sums", repeats=4))


class TestChat:
    def prompt(self, task: HarnessTask, tokenizer: Tokenizer, spec: Any) -> str:
        return items(task, tokenizer, spec, [0]).items[0].requests[0].prompt

    def test_shots_are_turns_wherever_a_template_is_applied(
        self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable
    ):
        """The reasoning of a worked example stands in assistant turns only."""
        task = task_of("toy_sums")
        text = self.prompt(task, tokenizer, toy_spec("toy_sums", chat_template=True))
        turns = [one.partition("|>") for one in text.removeprefix("<s><|").split("<|end|>\n<|")]
        assert [role for role, _, _ in turns] == ["user", "assistant"] * 3 + ["user", "assistant"]
        assert all(("####" in said) is (role == "assistant") for role, _, said in turns[:-1]) and turns[-1][2] == ""
        single = self.prompt(task, tokenizer, toy_spec("toy_sums", chat_template=True, fewshot_as_multiturn=False))
        assert single.count("<|user|>") == 1 and single.count("<|assistant|>") == 1 and single.count("####") == 3
        plain = self.prompt(task, tokenizer, toy_spec("toy_sums"))
        assert "<|user|>" not in plain

    def test_a_system_text_stands_before_the_tasks_description(
        self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable
    ):
        task = task_of("toy_shapes")
        spec = toy_spec("toy_shapes", chat_template=True, system="Be brief.")
        (context, *_) = {one.context for one in items(task, tokenizer, spec, [0]).items[0].requests}
        assert context.startswith("<s><|system|>Be brief.\n\nAbout shapes.") and context.count("<|system|>") == 1

    def test_template_arguments_reach_the_template(self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable):
        spec = toy_spec("toy_sums", chat_template=True, chat_template_args={"bos_token": "<<", "x": "true"})
        chat = chat_of(spec, tokenizer)
        assert chat.render([{"role": "user", "content": "hi"}]).startswith("<<<|user|>hi")
        assert spec.chat_template_args["x"] is True

    @pytest.mark.parametrize("chat", [True, False])
    @pytest.mark.parametrize("name", ["toy_sums", "toy_shapes"])
    @pytest.mark.parametrize("system", [None, "Be brief."])
    def test_exactly_one_bos(
        self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable, chat: bool, name: str, system: str | None
    ):
        """The template writes BOS itself, plain prompts get it from the tokenizer; both have one, at the start."""
        found = items(task_of(name), tokenizer, toy_spec(name, chat_template=chat, system=system)).items
        bos = tokenizer.inner.bos_token_id
        for item in found:
            for one in item.requests:
                ids = one.prompt_ids if isinstance(one, GenerateRequest) else one.context_ids + one.continuation_ids
                assert ids[0] == bos and ids.count(bos) == 1

    def test_a_begun_answer_keeps_its_delimiter(self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable):
        """With ``gen_prefix`` the choice is scored as in plain text, with the space before it."""
        task = task_of("toy_shapes", shots=0)
        task.task.set_config("gen_prefix", "The best answer is")
        found = items(task, tokenizer, toy_spec("toy_shapes", chat_template=True), [0]).items[0]
        assert [one.continuation for one in found.requests] == [" A", " B", " C", " D"]
        assert found.requests[0].context.endswith("<|assistant|>The best answer is")


class TestDroppedShots:
    def lengths(self, task: HarnessTask, tokenizer: Tokenizer, spec: Any) -> list[int]:
        return [len(one.requests[0].prompt_ids) for one in items(task, tokenizer, spec).items]

    def test_a_prompt_that_does_not_fit_loses_whole_shots(
        self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable
    ):
        task = task_of("toy_sums", shots=5)
        for position in (3, 7):
            task.docs[position]["question"] += " The circle is round."
        whole = items(task, tokenizer, toy_spec("toy_sums")).items
        longest = max(self.lengths(task, tokenizer, toy_spec("toy_sums")))
        limit = longest - 1 + 24  # all but the two longest fit, with room for 24 tokens of answer
        found = items(task, tokenizer, toy_spec("toy_sums", drop_shots=True), limit=limit)
        short = [(one, other) for one, other in zip(found.items, whole, strict=True) if one.shots is not None]
        assert [(one.item_id, one.shots) for one, _ in short] == [(3, 4), (7, 4)]
        for one, other in short:
            text, full = one.requests[0].prompt, other.requests[0].prompt
            assert full.endswith(text) and text.count("Question:") == 5 and full.count("Question:") == 6
            assert len(one.requests[0].prompt_ids) + 24 <= limit
        kept = [(one, other) for one, other in zip(found.items, whole, strict=True) if one.shots is None]
        assert all(one.prompt_hash == other.prompt_hash for one, other in kept)
        assert f"{len(short)} of 12 prompts have fewer than 5 shots" in found.notes[0]

    def test_the_question_alone_is_never_cut(self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable):
        task = task_of("toy_sums")
        bare = max(self.lengths(task_of("toy_sums", shots=0), tokenizer, toy_spec("toy_sums")))
        spec = toy_spec("toy_sums", drop_shots=True)
        found = items(task, tokenizer, spec, limit=bare + 1)
        assert {one.shots for one in found.items} == {0}  # no room for a whole answer, but for some of it
        with pytest.raises(UserError, match="prompts do not fit"):
            items(task, tokenizer, spec, limit=bare)

    def test_without_the_flag_it_is_refused(self, task_of: Callable, tokenizer: Tokenizer, toy_spec: Callable):
        task = task_of("toy_sums")
        longest = max(self.lengths(task, tokenizer, toy_spec("toy_sums")))
        with pytest.raises(UserError, match="--drop-shots"):
            items(task, tokenizer, toy_spec("toy_sums"), limit=longest)


def prompt_items(tokenizer: Tokenizer, kind: str = "score") -> tuple[Item, ...]:
    docs, generation = [{"id": 0}], Generation(Decoding(8, ()), (1,))
    if kind == "generate":
        return encode_items("t", [Prompt(0, 0, "generate", (("What is 3",),))], docs, tokenizer, 99, generation).items
    pairs = tuple(("Question: one\nAnswer:", text) for text in (" A", " B"))
    return encode_items("t", [Prompt(0, 0, "score", pairs)], docs, tokenizer, 99).items


class TestTwoModels:
    def test_equal_prompts_pass(self, tokenizer: Tokenizer):
        items = prompt_items(tokenizer)
        assert require_equal_prompts(items, items, "a", "b", tokenizer, tokenizer) is None

    def test_the_first_difference_is_named(self, tokenizer: Tokenizer):
        items = prompt_items(tokenizer)
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
        items = prompt_items(tokenizer, "generate")
        request = items[0].requests[0]
        shorter: Item = replace(
            items[0], requests=(replace(request, prompt_ids=request.prompt_ids[:-1]),), prompt_hash="x"
        )
        with pytest.raises(UserError, match="against the end"):
            require_equal_prompts(items, (shorter,), "a", "b", tokenizer, tokenizer)
