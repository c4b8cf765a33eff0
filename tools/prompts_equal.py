"""Are the token ids that evalcard sends those that lm-eval's own ``hf`` model would send?

    python tools/prompts_equal.py MODEL_FOLDER DATA_ROOT [--tasks mmlu,gsm8k] [--shots 5] [--chat plain,turns]

MODEL_FOLDER holds a tokenizer (no weights are read), DATA_ROOT the data sets by their Hub ids (cais/mmlu,
openai/gsm8k). On one side evalcard's own preparation; on the other lm-eval's evaluator with its own task files, which
differ in where the documents come from only, and its HFLM with everything but the forward pass. Every item of every
task is compared, without a chat template (plain), with one and the worked examples as turns (turns), or with one and
a single turn (single). Prints counts and the first difference; exit code 1 on any. Takes minutes: lm-eval compiles a
template anew for every document. Needs the extra ``hf``: the module of lm-eval's HFLM imports accelerate.
"""

import argparse
import importlib.util
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("LMEVAL_LOG_LEVEL", "ERROR")

import lm_eval
import torch
import transformers
import yaml
from lm_eval.api.model import LM
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from evalcard.backends.backend import GenerateRequest, Item
from evalcard.spec import make_spec
from evalcard.tasks.prepare import prepare

HARNESS_TASKS = Path(importlib.util.find_spec("lm_eval").submodule_search_locations[0]) / "tasks"  # type: ignore
DATA_SETS = {"gsm8k": "openai/gsm8k", "mmlu": "cais/mmlu"}
Sent = dict[tuple[str, int], list[tuple[list[int], ...]]]
"""(task, document) -> for each request the prompt's ids, or those of context and continuation."""


class Heard(Exception):
    """The evaluator sent everything; what it would do with answers is not wanted."""


class Listener(HFLM):
    """lm-eval's ``hf`` model with its own encoding and batching, one prompt a batch, and no model inside."""

    def __init__(self, folder: str):
        LM.__init__(self)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self._config = transformers.AutoConfig.from_pretrained(folder)
        self.backend, self.add_bos_token, self.custom_prefix_token_id = "causal", None, None
        self.enable_thinking, self.chat_template_args, self.think_end_token = None, {}, None
        self.truncation, self.batch_size_per_gpu, self._max_length = False, 1, self._config.max_position_embeddings
        self._rank, self._world_size, self._device = 0, 1, torch.device("cpu")
        self._last: list[int] = []
        self.sent: Sent = {}

    @property
    def config(self) -> Any:
        return self._config

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> Any:
        self._requests = requests
        return super().loglikelihood(requests, disable_tqdm=True)

    def _loglikelihood_tokens(self, requests: list[Any], disable_tqdm: bool = False, **_: Any) -> Any:
        for request, (_, context, continuation) in zip(self._requests, requests, strict=True):
            self.sent.setdefault((request.task_name, request.doc_id), []).append((context, continuation))
        raise Heard

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> Any:
        for request in requests:
            super().generate_until([request], disable_tqdm=True)
            self.sent.setdefault((request.task_name, request.doc_id), []).append((self._last,))
        raise Heard

    def _model_generate(self, context: Any, max_length: int, stop: list[str], **_: Any) -> Any:
        """No answer at all, as if the model had ended at once."""
        (self._last,) = context.tolist()
        return torch.cat([context, torch.tensor([[self.eot_token_id]])], dim=1)


def write_task(task: str, path: Path, data_root: Path, folder: Path) -> None:
    """The harness's task with local documents; its include is its own file."""
    stated = yaml.safe_load(path.read_text().replace("!function", ""))
    data = data_root / DATA_SETS[task.split("_")[0]] / (stated["dataset_name"] or "")
    files = {file.stem: str(file) for file in sorted(data.glob("*.jsonl"))}
    assert files, f"no data in {data}"
    local = {"include": str(path), "task": task, "tag": "local", "dataset_path": "json", "dataset_name": None,
             "dataset_kwargs": {"data_files": files, "cache_dir": str(folder / "cache")}}  # fmt: skip
    (folder / f"{task}.yaml").write_text(yaml.safe_dump(local))


def theirs(task: str, model: str, data_root: Path, shots: int, chat: str) -> Sent:
    """What lm-eval's evaluator has its hf model encode for a task or for all subjects of mmlu."""
    paths = [HARNESS_TASKS / "gsm8k" / "gsm8k.yaml"]
    if task == "mmlu":
        paths = sorted(path for path in (HARNESS_TASKS / "mmlu" / "default").glob("mmlu_*.yaml"))
    with tempfile.TemporaryDirectory() as scratch:
        for path in paths:
            write_task(path.stem, path, data_root, Path(scratch))
        manager = TaskManager(include_defaults=False, include_path=scratch)
        listener = Listener(model)
        try:
            lm_eval.simple_evaluate(
                model=listener, tasks=[path.stem for path in paths], task_manager=manager, num_fewshot=shots,
                apply_chat_template=chat != "plain", fewshot_as_multiturn=chat == "turns", bootstrap_iters=0,
            )  # fmt: skip
        except Heard:
            return listener.sent
    raise AssertionError("lm-eval sent nothing")


def ours(task: str, model: str, data_root: Path, shots: int, chat: str) -> Sent:
    """What evalcard's backends are given."""
    wanted = {"baseline": model, "tasks": [task], "num_fewshot": shots, "data_root": str(data_root)}
    if chat != "plain":
        wanted |= {"chat_template": True, "fewshot_as_multiturn": chat == "turns"}
    prepared = prepare(make_spec(wanted))
    places = {one.name: one.task for one in prepared.tasks}
    return {
        (name, places[name].position(item.item_id)): requests_of(item)
        for name, items in prepared.items.items()
        for item in items
    }


def requests_of(item: Item) -> list[tuple[list[int], ...]]:
    return [
        (list(one.prompt_ids),)
        if isinstance(one, GenerateRequest)
        else (list(one.context_ids), list(one.continuation_ids))
        for one in item.requests
    ]


def compare(own: Sent, other: Sent) -> list[str]:
    """One line for each item that differs."""
    missing = [f"{task}, document {place}: only one side has it" for task, place in own.keys() ^ other.keys()]
    found = []
    for task, place in sorted(own.keys() & other.keys()):
        one, two = own[task, place], other[task, place]
        if one != two:
            pairs = itertools.zip_longest(one, two)
            number, (mine, their) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
            found.append(f"{task}, document {place}, request {number}:\n  evalcard {mine}\n  lm-eval  {their}")
    return sorted(missing) + found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data_root", type=Path)
    parser.add_argument("--tasks", default="gsm8k,mmlu")
    parser.add_argument("--shots", type=int, default=5)
    parser.add_argument("--chat", default="plain,turns")
    given = parser.parse_args()
    failed = 0
    for task in given.tasks.split(","):
        for chat in given.chat.split(","):
            start = time.perf_counter()
            own = ours(task, given.model, given.data_root, given.shots, chat)
            middle = time.perf_counter()
            other = theirs(task, given.model, given.data_root, given.shots, chat)
            end = time.perf_counter()
            differences = compare(own, other)
            requests, tokens = sum(map(len, own.values())), sum(len(i) for r in own.values() for p in r for i in p)
            print(f"{task}, {given.shots}-shot, {chat}: {len(own)} items, {requests} requests, {tokens} token ids, "
                  f"{len(differences)} items differ (evalcard {middle - start:.1f} s, lm-eval {end - middle:.1f} s)",
                  flush=True)  # fmt: skip
            for line in differences[:1]:
                print(line)
            failed += len(differences)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
