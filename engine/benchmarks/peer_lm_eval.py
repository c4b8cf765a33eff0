"""The peer: lm-eval's own command with its ``hf`` model, on data sets read from a local folder.

Task files that include the harness's own and change nothing but where the documents come from are written to a
scratch folder, so the peer is the plain command with plain flags.
"""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

HARNESS_TASKS = Path(importlib.util.find_spec("lm_eval").submodule_search_locations[0]) / "tasks"
PREFIX = "local_"


@dataclass(frozen=True)
class PeerRun:
    """A finished run of the peer: its samples by task, in document order."""

    samples: dict[str, list[dict]]


def task_path(name: str) -> Path:
    """The harness's YAML file of mmlu_<subject> or gsm8k."""
    if name == "gsm8k":
        return HARNESS_TASKS / "gsm8k" / "gsm8k.yaml"
    path = HARNESS_TASKS / "mmlu" / "default" / f"{name}.yaml"
    assert path.is_file(), f"no task file {path}"
    return path


def write_local_task(name: str, data_root: Path, folder: Path) -> str:
    """A task file beside no data of its own; returns the task's local name."""
    path = task_path(name)
    text = yaml.safe_load(path.read_text())
    dataset, subset = ("openai/gsm8k", "main") if name == "gsm8k" else ("cais/mmlu", text["dataset_name"])
    files = {file.stem: str(file) for file in sorted((data_root / dataset / subset).glob("*.jsonl"))}
    assert files, f"no data in {data_root / dataset / subset}"
    task = {
        "include": str(path),
        "task": PREFIX + name,
        "tag": "local",
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": files},
    }
    (folder / f"{PREFIX}{name}.yaml").write_text(yaml.safe_dump(task))
    return PREFIX + name


def peer_command(
    model: Path, tasks: list[str], data_root: Path, scratch: Path, *, batch: int, limit: int | None, threads: int,
    device: str = "cpu", max_new_tokens: int | None = None,
) -> tuple[list[str], dict[str, str]]:  # fmt: skip
    """The whole command and its environment; results land in ``scratch/out``."""
    scratch.mkdir(parents=True, exist_ok=True)
    names = [write_local_task(task, data_root, scratch) for task in tasks]
    command = [
        sys.executable, "-m", "lm_eval", "run", "--model", "hf", "--model_args", f"pretrained={model},dtype=float32",
        "--tasks", ",".join(names), "--include_path", str(scratch), "--num_fewshot", "5", "--batch_size", str(batch),
        "--device", device, "--output_path", str(scratch / "out"), "--log_samples",
    ]  # fmt: skip
    if limit is not None:
        command += ["--limit", str(limit)]
    if max_new_tokens is not None:
        command += ["--gen_kwargs", f"max_gen_toks={max_new_tokens}"]
    cache = scratch / "cache"
    env = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(cache),
        "OMP_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
    }
    return command, env


def run_peer(model: Path, tasks: list[str], data_root: Path, scratch: Path, **options) -> PeerRun:
    """Run the peer and read its samples; raises with the end of its log where it failed."""
    command, env = peer_command(model, tasks, data_root, scratch, **options)
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"lm_eval failed with {done.returncode}:\n{done.stderr[-3000:]}")
    return PeerRun({task: read_samples(scratch / "out", task) for task in tasks})


def read_samples(out: Path, task: str) -> list[dict]:
    """Samples of one task; a task with several filters logs a line per filter, of which the first is kept."""
    (path,) = out.rglob(f"samples_{PREFIX}{task}_*.jsonl")
    by_document: dict[int, dict] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        by_document.setdefault(sample["doc_id"], sample)
    return [by_document[key] for key in sorted(by_document)]
