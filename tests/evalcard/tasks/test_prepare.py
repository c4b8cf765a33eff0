"""From a spec to items: what is said, what is refused, what two models share."""

import gc
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.prepare import gather, prepare, prepare_tasks
from evalcard.tasks.prompts import items as module


def copy_of(folder: Path, target: Path, **files: dict[str, Any]) -> str:
    shutil.copytree(folder, target)
    for name, values in files.items():
        path = target / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return str(target)


def test_everything_is_there(toy_spec: Callable[..., Any]):
    ready = prepare(toy_spec("toy_all", "toy_texts"))
    assert [task.name for task in ready.tasks] == ["toy_colours", "toy_shapes", "toy_sums", "toy_texts"]
    assert [row.name for row in ready.rows] == ["toy_mc", "toy_sums", "toy_texts"]
    assert ready.num_samples == 5 + 9 + 12 + 4 == sum(map(len, ready.items.values()))
    records = {task.name: task.record for task in ready.tasks}
    assert records["toy_sums"].decoding == "greedy" and records["toy_shapes"].decoding == "scored"
    assert records["toy_sums"].source == "file" and records["toy_sums"].num_fewshot == 3
    assert records["toy_sums"].version == "3.0" and records["toy_sums"].selection == "all"
    assert ready.max_model_len == 512 and ready.prompt_tokens > 1000


def test_a_subset_is_the_beginning_of_the_whole(toy_spec: Callable[..., Any]):
    whole, part = prepare(toy_spec("toy_all")), prepare(toy_spec("toy_all", limit_per_subtask=6))
    assert [(name, len(items)) for name, items in part.items.items()] == [
        ("toy_colours", 5), ("toy_shapes", 6), ("toy_sums", 6)]  # fmt: skip
    assert all(part.items[name] == whole.items[name][:6] for name in part.items)
    record = next(task.record for task in part.tasks if task.name == "toy_sums")
    assert (record.items_selected, record.items_total, record.selection) == (6, 12, "first 6")


def test_two_equal_tokenizers_are_encoded_once(
    toy_spec: Callable[..., Any], tokenizer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = copy_of(tokenizer_folder, tmp_path / "small")
    calls = []
    plain = module.encode_items
    monkeypatch.setattr(module, "encode_items", lambda *a: calls.append(a[0]) or plain(*a))
    ready = prepare(toy_spec("toy_sums", compressed=[other]))
    assert calls == ["toy_sums"] and len(ready.tokenizers) == 2 and ready.notes == ()


def test_other_prompts_are_refused_before_anything_loads(
    toy_spec: Callable[..., Any], tokenizer_folder: Path, tmp_path: Path
):
    other = copy_of(tokenizer_folder, tmp_path / "small", tokenizer={"post_processor": None})
    with pytest.raises(UserError, match="read different prompts, first in task toy_sums, item 0, at token 0"):
        prepare(toy_spec("toy_sums", compressed=[other]))


def test_another_digest_with_equal_prompts_passes(toy_spec: Callable[..., Any], tokenizer_folder: Path, tmp_path: Path):
    decoder = {"decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}}
    other = copy_of(tokenizer_folder, tmp_path / "small", tokenizer=decoder)
    ready = prepare(toy_spec("toy_sums", compressed=[other]))
    assert len({tokenizer.digest for tokenizer in ready.tokenizers.values()}) == 2


def test_templates_matter_only_with_chat(toy_spec: Callable[..., Any], tokenizer_folder: Path, tmp_path: Path):
    other = copy_of(tokenizer_folder, tmp_path / "small")
    (tmp_path / "small" / "chat_template.jinja").write_text("other{{ messages[0]['content'] }}")
    prepare(toy_spec("toy_sums", compressed=[other]))
    with pytest.raises(UserError, match="read different prompts"):
        prepare(toy_spec("toy_sums", compressed=[other], chat_template=True))


def test_no_template(toy_spec: Callable[..., Any], tokenizer_folder: Path, tmp_path: Path):
    other = copy_of(tokenizer_folder, tmp_path / "small")
    (tmp_path / "small" / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match="small has no chat template"):
        prepare(toy_spec("toy_sums", compressed=[other], chat_template=True))


def test_chat_turns_reach_the_ids(toy_spec: Callable[..., Any]):
    ready = prepare(toy_spec("toy_sums", chat_template=True, fewshot_as_multiturn=True, system="Be brief."))
    request = ready.items["toy_sums"][0].requests[0]
    assert request.prompt.count("<|user|>") == 4 and request.prompt.count("<|assistant|>") == 4
    assert request.prompt.startswith("<s><|system|>Be brief.") and request.prompt_ids.count(0) == 1
    assert ready.tasks[0].record.chat_template


def test_the_shortest_model_and_all_stop_ids_hold_for_each(
    toy_spec: Callable[..., Any], tokenizer_folder: Path, tmp_path: Path
):
    changes = {"config": {"max_position_embeddings": 300}, "generation_config": {"eos_token_id": [9]}}
    other = copy_of(tokenizer_folder, tmp_path / "small", **changes)
    ready = prepare(toy_spec("toy_sums", compressed=[other]))
    assert ready.max_model_len == 300
    assert ready.items["toy_sums"][0].requests[0].stop_ids == (1, 2, 9)
    assert any("end answers with different tokens" in note for note in ready.notes)
    assert prepare(toy_spec("toy_sums", compressed=[other], max_model_len=400)).max_model_len == 400


def test_a_prompt_that_does_not_fit(toy_spec: Callable[..., Any]):
    """The garbage collector, which rests meanwhile, is at work again."""
    with pytest.raises(UserError, match="12 of 12 prompts do not fit the model's 20 tokens .*: item 0"):
        prepare(toy_spec("toy_sums", max_model_len=20))
    assert gc.isenabled()


class TestLongPrompts:
    def test_all_tasks_come_in_one_error_with_the_length_that_suffices(self, toy_spec: Callable[..., Any]):
        with pytest.raises(UserError) as error:
            prepare(toy_spec("toy_all", max_model_len=40))
        said = str(error.value)
        assert all(f"task {name}: " in said for name in ("toy_colours", "toy_shapes", "toy_sums"))
        assert said.count("--max-model-len") == 1 and "fewer shots with --num-fewshot" in said
        length = int(re.search(r"--max-model-len (\d+)", said)[1])  # type: ignore[index]
        assert prepare(toy_spec("toy_all", max_model_len=length)).num_samples == 26
        with pytest.raises(UserError, match="do not fit"):
            prepare(toy_spec("toy_all", max_model_len=length - 1))

    @pytest.mark.parametrize("given", [{"drop_shots": True}, {"num_fewshot": 0}])
    def test_without_shots_the_question_alone_is_too_long(self, toy_spec: Callable[..., Any], given: dict[str, Any]):
        with pytest.raises(UserError) as error:
            prepare(toy_spec("toy_sums", max_model_len=8, **given))
        said = str(error.value)
        assert re.search(r"the question alone is too long \(\d+ tokens of 8\): give --max-model-len \d+ if", said)
        assert "--num-fewshot" not in said and "--drop-shots" not in said


def test_shots_of_a_data_file_come_from_itself(toy_spec: Callable[..., Any], tmp_path: Path):
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps({"question": f"{i} + 1?", "answer": i + 1}) + "\n" for i in range(4)))
    said = "own: the worked examples come from the evaluated file itself, with their answers"
    spec = toy_spec("toy_sums").model_copy(update={"tasks": (str(path),)})
    assert said in prepare(spec.model_copy(update={"num_fewshot": 1})).notes
    assert said not in prepare(spec).notes


class TestLimit:
    def test_a_total_is_spread_over_a_row_and_alone_in_document_order(self, toy_spec: Callable[..., Any]):
        whole, part = prepare(toy_spec("toy_all")), prepare(toy_spec("toy_all", limit=7))
        counts = {name: len(items) for name, items in part.items.items()}
        assert counts == {"toy_colours": 2, "toy_shapes": 5, "toy_sums": 7}  # Webster: 5 : 9 of 7
        for task in part.tasks:
            items, record = part.items[task.name], task.record
            ids = [item.item_id for item in items]
            assert ids == sorted(ids) == record.item_ids == list(task.positions) and record.items_selected == len(ids)
            assert list(items) == [item for item in whole.items[task.name] if item.item_id in ids]
        texts = {task.name: task.record.selection for task in part.tasks}
        assert texts["toy_shapes"] == "seeded, 7 of the row's 14" and texts["toy_sums"] == "seeded"
        assert whole.tasks[0].record.item_ids is None and whole.tasks[0].record.selection == "all"

    def test_a_row_keeps_only_tasks_that_have_items(self, toy_spec: Callable[..., Any]):
        ready = prepare(toy_spec("toy_mc", limit=1))
        assert len(ready.tasks) == 1 and ready.num_samples == 1
        assert [row.tasks for row in ready.rows] == [[ready.tasks[0].name]]
        assert any("none of its items is in the subset" in note for note in ready.notes)
        assert ready.rows[0].items_total == 14 == ready.rows[0].total([ready.tasks[0].record]), "of the whole row"
        assert prepare(toy_spec("toy_mc")).rows[0].items_total is None

    def test_a_seed_of_its_own(self, toy_spec: Callable[..., Any]):
        found = {tuple(prepare(toy_spec("toy_sums", limit=4, seed=seed)).tasks[0].positions) for seed in range(5)}
        assert len(found) > 2


class TestRecord:
    def test_repeats_and_decoding_as_run(self, toy_spec: Callable[..., Any]):
        ready = prepare(toy_spec("toy_all", temperature=0.6, repeats=4))
        records = {task.name: task.record for task in ready.tasks}
        assert records["toy_sums"].repeats == 4 and records["toy_sums"].decoding.startswith("sampled, temperature 0.6")
        assert records["toy_shapes"].repeats == 1 and records["toy_shapes"].decoding == "scored"
        assert len(ready.items["toy_sums"]) == 48 and ready.num_samples == 48 + 14
        assert any("toy_colours, toy_shapes: scored by log-probabilities" in note for note in ready.notes)

    def test_shots_as_run(self, toy_spec: Callable[..., Any]):
        ready = prepare(toy_spec("toy_sums", num_fewshot=1))
        assert ready.tasks[0].record.num_fewshot == 1
        assert ready.items["toy_sums"][0].requests[0].prompt.count("Question:") == 2

    def test_prompts_that_end_inside_a_thinking_block(
        self, toy_spec: Callable[..., Any], tokenizer_folder: Path, tmp_path: Path
    ):
        folder = copy_of(tokenizer_folder, tmp_path / "thinker")
        template = (tmp_path / "thinker" / "chat_template.jinja").read_text()
        asks = "{% if add_generation_prompt and enable_thinking is not false %}<think>\n{% endif %}"
        (tmp_path / "thinker" / "chat_template.jinja").write_text(template + asks)
        spec = {"baseline": folder, "chat_template": True}
        assert prepare(toy_spec("toy_sums", **spec)).tasks[0].record.opens_thinking
        without = prepare(toy_spec("toy_sums", **spec, chat_template_args={"enable_thinking": "false"}))
        assert not without.tasks[0].record.opens_thinking
        assert not without.items["toy_sums"][0].requests[0].prompt.endswith("<think>\n")

    def test_the_date_a_template_prints(self, toy_spec: Callable[..., Any], tokenizer_folder: Path, tmp_path: Path):
        folder = copy_of(tokenizer_folder, tmp_path / "dated")
        template = (tmp_path / "dated" / "chat_template.jinja").read_text()
        (tmp_path / "dated" / "chat_template.jinja").write_text("{{ strftime_now('%d %b %Y') }}" + template)
        ready = prepare(toy_spec("toy_sums", baseline=folder, chat_template=True))
        assert ready.tasks[0].record.template_date == "2024-07-26"
        assert ready.items["toy_sums"][0].requests[0].prompt.startswith("26 Jul 2024")
        assert any("prints a date: it is 2024-07-26 in every prompt" in note for note in ready.notes)
        assert prepare(toy_spec("toy_sums", baseline=folder)).tasks[0].record.template_date is None

    def test_a_tokenizer_that_does_not_do_what_it_says(
        self, toy_spec: Callable[..., Any], tokenizer_folder: Path, tmp_path: Path
    ):
        changes = {"tokenizer": {"post_processor": None}, "tokenizer_config": {"add_bos_token": True}}
        folder = copy_of(tokenizer_folder, tmp_path / "small", **changes)
        ready = prepare(toy_spec("toy_sums", compressed=[folder]))  # equal prompts, or it would be refused
        assert any("small: as its tokenizer_config.json says, prompts begin with BOS" in note for note in ready.notes)


def test_variables_that_a_template_does_not_have(toy_spec: Callable[..., Any]):
    with pytest.raises(UserError, match="no variable enable_thinking"):
        prepare(toy_spec("toy_sums", chat_template=True, chat_template_args={"enable_thinking": "false"}))


def test_notes(toy_spec: Callable[..., Any]):
    notes = prepare(toy_spec("toy_sums", "toy_texts", num_fewshot=1)).notes
    assert any("1 shots instead of its own 3" in note for note in notes)
    assert any("word_perplexity is no mean" in note for note in notes)


def test_notes_of_many_tasks_are_one():
    notes = [f"t{i}: zero-shot" for i in range(5)] + ["t0: other", "no task here", "t1: zero-shot"]
    assert gather(notes) == ["t0, t1, t2 and 2 more: zero-shot", "t0: other", "no task here"]


def test_the_tokenizer_may_be_named_apart(toy_spec: Callable[..., Any], tokenizer_folder: Path):
    spec = toy_spec("toy_sums", baseline={"source": "http://host/v1", "args": {"tokenizer": str(tokenizer_folder)}})
    assert prepare(spec).num_samples == 12


def test_tasks_alone_need_no_model(toy_spec: Callable[..., Any]):
    tasks, rows, notes = prepare_tasks(toy_spec("toy_mc", baseline="no/such-model"))
    assert [task.name for task in tasks] == ["toy_colours", "toy_shapes"] and rows[0].rule == "size" and not notes
