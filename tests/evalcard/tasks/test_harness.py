"""Tasks of the harness: the same prompts as its own evaluator makes, only faster."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalcard.errors import UserError
from evalcard.tasks.build import build
from evalcard.tasks.contexts import compiled_templates, seeded
from evalcard.tasks.data import roots as data
from evalcard.tasks.files.select import select
from evalcard.tasks.harness import HarnessTask
from evalcard.tasks.prompts.requests import Chat

REAL_DATA = os.environ.get("EVALCARD_TEST_DATA")
PLAIN = Chat()


def harness_requests(tasks: list[Any], limit: int, manager: Any = None, **options: Any) -> dict[str, list[tuple]]:
    """Arguments of every request that the harness's own evaluator sends to a model, by task."""
    import lm_eval
    from lm_eval.api.model import LM

    class Listener(LM):
        def __init__(self) -> None:
            super().__init__()
            self.heard: dict[str, list[tuple]] = {}

        def _hear(self, requests: list[Any], answer: Any) -> list[Any]:
            for one in requests:
                self.heard.setdefault(one.task_name, []).append(one.args)
            return [answer] * len(requests)

        def loglikelihood(self, requests: list[Any]) -> list[Any]:
            return self._hear(requests, (-1.0, False))

        def loglikelihood_rolling(self, requests: list[Any]) -> list[Any]:
            return self._hear(requests, -1.0)

        def generate_until(self, requests: list[Any]) -> list[Any]:
            return self._hear(requests, "")

        @property
        def tokenizer_name(self) -> str:
            return "listener"

        def apply_chat_template(self, messages: list[dict], add_generation_prompt: bool = True) -> str:
            return render(messages, add_generation_prompt)

    model = Listener()
    lm_eval.simple_evaluate(
        model=model, tasks=tasks, limit=limit, task_manager=manager, bootstrap_iters=0, log_samples=False, **options
    )
    return model.heard


def render(messages: list[dict], add_generation_prompt: bool = True) -> str:
    return "".join(f"<{m['role']}>{m['content']}" for m in messages) + ("<assistant>" if add_generation_prompt else "")


@pytest.fixture
def toy_tasks(toys: Any) -> Callable[..., dict[str, HarnessTask]]:
    def make(*names: str, shots: int | None = None) -> dict[str, HarnessTask]:
        built = build(select([toys.path(name) for name in names]), (toys.data_root,))
        for task in built.tasks:
            task.set_fewshot(shots, 1234)
        return {task.name: task for task in built.tasks}

    return make


def ours(task: HarnessTask, count: int, chat: Chat = PLAIN) -> list[tuple]:
    return [arguments for prompt in task.prompts(range(count), chat) for arguments in prompt.arguments]


CHATS = [
    (Chat(), {}),
    (Chat(system="Be brief."), {"system_instruction": "Be brief."}),
    (Chat(render, False, "Be brief."), {"apply_chat_template": True, "system_instruction": "Be brief.",
                                        "fewshot_as_multiturn": False}),
    (Chat(render, True), {"apply_chat_template": True, "fewshot_as_multiturn": True}),
]  # fmt: skip


@pytest.mark.parametrize(("chat", "options"), CHATS, ids=["plain", "system", "chat", "turns"])
def test_prompts_equal_the_harness(toys: Any, toy_tasks: Callable, chat: Chat, options: dict[str, Any]):
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_defaults=False, include_path=str(toys.harness_folder))
    heard = harness_requests(["toy_mc", "toy_sums", "toy_texts"], 4, manager, **options)
    tasks = toy_tasks("toy_mc", "toy_sums", "toy_texts")
    assert set(heard) == set(tasks) == {"toy_shapes", "toy_colours", "toy_sums", "toy_texts"}
    for name, task in tasks.items():
        assert ours(task, 4, chat) == heard[name], name


def test_few_shot_number_is_ours_to_say(toys: Any, toy_tasks: Callable):
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_defaults=False, include_path=str(toys.harness_folder))
    heard = harness_requests(["toy_sums"], 3, manager, num_fewshot=1)
    assert ours(toy_tasks("toy_sums", shots=1)["toy_sums"], 3) == heard["toy_sums"]


def test_a_prompt_depends_on_its_position_only(toy_tasks: Callable):
    task = toy_tasks("toy_sums")["toy_sums"]
    whole = task.prompts(range(12), Chat())
    again = toy_tasks("toy_sums", "toy_mc")["toy_sums"]
    assert again.prompts(range(5), Chat()) == whole[:5] == again.prompts(range(5), Chat())
    assert len({prompt.arguments[0][0] for prompt in whole}) == 12


def test_global_generators_are_given_back(toy_tasks: Callable):
    random.seed(5)
    np.random.seed(5)
    task = toy_tasks("toy_sums")["toy_sums"]
    task.prompts(range(3), Chat())
    first = (random.random(), np.random.rand())
    random.seed(5)
    np.random.seed(5)
    assert first == (random.random(), np.random.rand())
    with seeded():
        inside = random.random()
    assert inside == random.Random(0).random()


def test_compiled_templates_render_the_same_and_go_away():
    import lm_eval.utils

    plain = lm_eval.utils.apply_template
    template = "{{q.strip()}} {{ c[1] }}{% if n %}!{% endif %} {{'a-b'|regex_replace('-', '+')}}\n"
    doc = {"q": " x ", "c": [1, "{{q}}"], "n": 1}
    with compiled_templates():
        fast = lm_eval.utils.apply_template(template, doc)
        assert lm_eval.utils.apply_template is not plain
    assert lm_eval.utils.apply_template is plain and fast == plain(template, doc) == "x {{q}}! a+b\n"


def test_notes_on_shots(toy_tasks: Callable, toys: Any, tmp_path: Path):
    task = toy_tasks("toy_sums")["toy_sums"]
    assert task.set_fewshot(None, 1) is None and task.num_fewshot == 3
    assert task.set_fewshot(3, 1) is None
    assert "5 shots instead of its own 3" in str(task.set_fewshot(5, 1)) and task.num_fewshot == 5
    text = Path(toys.path("toy_sums")).read_text().replace("num_fewshot: 3", "num_fewshot: 0")
    (tmp_path / "toy_sums.yaml").write_text(text)
    (fixed,) = build(select([str(tmp_path / "toy_sums.yaml")]), (toys.data_root,)).tasks
    assert "zero-shot by its own definition" in str(fixed.set_fewshot(5, 1)) and fixed.num_fewshot == 0


def test_a_template_that_fails_is_the_users_to_mend(toys: Any, tmp_path: Path):
    text = Path(toys.path("toy_sums")).read_text().replace("{{question}}", "{{question}} {{missing}}")
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(UserError, match="toy_sums"):
        build(select([str(tmp_path / "bad.yaml")]), (toys.data_root,))


def test_shots_never_hold_the_item_itself(tmp_path: Path, toys: Any):
    """Shots from the test split: three documents, two shots, so each prompt must show the two others."""
    import json

    (tmp_path / "toy" / "few").mkdir(parents=True)
    docs = [{"q": f"q{i}", "a": f"a{i}"} for i in range(3)]
    (tmp_path / "toy" / "few" / "test.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (tmp_path / "few.yaml").write_text(
        "task: few\ndataset_path: toy/few\ntest_split: test\nfewshot_split: test\noutput_type: generate_until\n"
        "doc_to_text: '{{q}}:'\ndoc_to_target: '{{a}}'\nnum_fewshot: 2\ngeneration_kwargs: {until: ['x']}\n"
    )
    (task,) = build(select([str(tmp_path / "few.yaml")]), (tmp_path,)).tasks
    task.set_fewshot(None, 1234)
    prompts = task.prompts(range(3), Chat())
    assert all(p.arguments[0][0].count(f"q{i}:") == 1 for p in prompts for i in range(3))
    task.set_fewshot(3, 1234)
    with pytest.raises(UserError, match="few"):
        task.prompts(range(3), Chat())


@pytest.mark.skipif(not REAL_DATA, reason="EVALCARD_TEST_DATA names no data root")
@pytest.mark.parametrize(("name", "shots"), [("mmlu_anatomy", 5), ("mmlu_marketing", None), ("gsm8k", None)])
def test_real_prompts_equal_the_harness(name: str, shots: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    import datasets
    from lm_eval.tasks import TaskManager

    plain = datasets.load_dataset

    def from_files(path: str, name: str | None = None, **_: Any) -> Any:
        folder = Path(str(REAL_DATA)) / path / (name or "")
        files = {one.stem: str(one) for one in folder.glob("*.jsonl")}
        return plain("json", data_files=files, cache_dir=str(tmp_path))

    (task,) = build(select([f"lm_eval/{name}"]), data.data_roots(REAL_DATA)).tasks
    task.set_fewshot(shots, 1234)
    monkeypatch.setattr(datasets, "load_dataset", from_files)
    folder = select([name])[0].file.path
    manager = TaskManager(include_defaults=False, include_path=str(Path(str(folder)).parent))
    heard = harness_requests([name], 12, manager, num_fewshot=shots)
    assert ours(task, 12) == heard[name]
