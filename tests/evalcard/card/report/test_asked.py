"""Prompts as they were answered: built again, held against the hashes of the answers, or said to be missing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends.backend import ChoiceAnswer, GenerateRequest, Identity, ItemAnswer
from evalcard.card.report.asked import Asked, Hashes, read_asked
from evalcard.errors import UserError
from evalcard.plan import plan_run
from evalcard.progress import Silent
from evalcard.results.records import RunRecord
from evalcard.results.store import RunFolder
from evalcard.run import run_plan
from evalcard.spec import make_spec


class Answering:
    """Keeps the prompts that it was sent, by task and item."""

    sent: dict[tuple[str, Any], str] = {}

    def identity(self) -> Identity:
        return Identity("w", "fake")

    def answer(self, items: Any, on_answer: Callable[[Any, ItemAnswer], None]) -> None:
        for item in items:
            request = item.requests[0]
            is_text = isinstance(request, GenerateRequest)
            self.sent[item.task, item.item_id] = request.prompt if is_text else request.context
            choices = tuple(ChoiceAnswer(-1.0 - i, 1, i == 0) for i in range(4))
            on_answer(
                item, ItemAnswer("stop", text="7", output_tokens=1) if is_text else ItemAnswer("stop", choices=choices)
            )

    def facts(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        """Nothing is held."""


def evaluated(toys: Any, source: Path, out: Path, **changes: Any) -> RunFolder:
    given = {"baseline": str(source), "tasks": [toys.path("toy_mc"), toys.path("toy_sums")],
             "out": str(out), "data_root": str(toys.data_root), **changes}  # fmt: skip
    spec = make_spec(given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalcard.plan.make_backends", lambda spec, _: [Answering() for _ in spec.models])
        run_plan(plan_run(spec, Silent()), Silent(), command=["evalcard", "run"])
    return RunFolder(out / spec.run_name)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "chat"])
def folder(request: pytest.FixtureRequest, toys: Any, tokenizer_folder: Path, tmp_path_factory: Any) -> RunFolder:
    out = tmp_path_factory.mktemp("results")
    return evaluated(toys, tokenizer_folder, out, chat_template=request.param)


def wanted_of(folder: RunFolder, run: RunRecord) -> dict[str, dict[Any, Hashes]]:
    slug = run.models[0].slug
    samples = {task.name: folder.journal(slug, task.name).read().values() for task in run.tasks}
    return {
        task: {one.item_id: Hashes(one.item_hash, one.prompt_hash) for one in given} for task, given in samples.items()
    }


def asked(folder: RunFolder, data_root: str | None = None) -> Asked:
    run = folder.read_run()
    return read_asked(run, wanted_of(folder, run), data_root, False)


def test_prompts_are_those_that_were_sent(folder: RunFolder):
    found, run = asked(folder), folder.read_run()
    assert (found.missing, found.is_checked) == ([], True)
    shown = {(task, item): "".join(parts) for task, of_task in found.prompts.items() for item, parts in of_task.items()}
    items = [(task.name, item) for task in run.tasks for item in wanted_of(folder, run)[task.name]]
    assert shown == {address: Answering.sent[address] for address in items}
    assert found.questions["toy_sums"][0] == "Question: What is 40 plus 43?\nAnswer:"


def test_what_all_prompts_of_a_task_begin_with_is_one_part(folder: RunFolder):
    heads = {parts[0] for parts in asked(folder).prompts["toy_shapes"].values() if len(parts) == 2}
    assert len(heads) == 1
    assert "About shapes." in heads.pop()


def test_a_document_that_changed_is_not_shown(folder: RunFolder, toys: Any, tmp_path: Path):
    data = Path(shutil.copytree(toys.data_root, tmp_path / "data"))
    file = data / "toy" / "sums" / "test.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0].replace("plus", "and"), *lines[1:]]) + "\n")
    found = asked(folder, str(data))
    assert 0 not in found.questions["toy_sums"] and 0 not in found.prompts["toy_sums"]
    assert len(found.prompts["toy_sums"]) == 11
    assert found.missing == ["the documents of 1 items of toy_sums changed since"]


def test_a_prompt_with_other_examples_is_not_shown(folder: RunFolder, toys: Any, tmp_path: Path):
    data = Path(shutil.copytree(toys.data_root, tmp_path / "data"))
    file = data / "toy" / "choice" / "shapes" / "dev.jsonl"
    docs = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({**doc, "question": "Another example?"}) + "\n" for doc in docs))
    found = asked(folder, str(data))
    assert found.prompts["toy_shapes"] == {}
    assert len(found.questions["toy_shapes"]) == 9
    assert found.missing == ["the prompts of 9 items of toy_shapes cannot be built again as they were answered"]


def test_without_the_tokenizer_plain_prompts_are_shown_unchecked(folder: RunFolder, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any) -> None:
        raise UserError("cannot load a tokenizer from /home/somebody/models/tiny: gone.")

    monkeypatch.setattr("evalcard.tasks.prompts.tokenizer.shared_tokenizer", refuse)
    found, run = asked(folder), folder.read_run()
    assert not found.is_checked and found.questions["toy_sums"]
    if run.resolved["chat_template"]:
        assert found.prompts == {}
        assert found.missing == ["cannot load a tokenizer from tiny: gone."]
    else:
        assert "".join(found.prompts["toy_sums"][0]) == Answering.sent["toy_sums", 0]
        assert found.missing == []


def test_without_task_files_it_is_said_and_without_paths(folder: RunFolder):
    run = folder.read_run()
    gone = run.model_copy(update={"resolved": run.resolved | {"tasks": ["/home/somebody/tasks/gone.yaml"]}})
    found = read_asked(gone, wanted_of(folder, run), None, False)
    assert (found.questions, found.prompts) == ({}, {})
    assert len(found.missing) == 1 and "gone.yaml" in found.missing[0] and "/home/somebody" not in found.missing[0]
