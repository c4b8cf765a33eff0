"""The peer: lm-eval's own command with one of its models, on data sets read from a local folder.

Task files that include the harness's own and change nothing but where the documents come from are written to a
scratch folder, so the peer is the plain command with plain flags.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from ab_rounds import Measured, Side  # beside this file
from machine_load import run_command
from read_scores import of_lm_eval
from suites import Suite

HARNESS_TASKS = Path(importlib.util.find_spec("lm_eval").submodule_search_locations[0]) / "tasks"
PREFIX = "local_"
GSM8K = ("gsm8k", "gsm8k_cot")
"""Tasks on the documents of gsm8k."""


@dataclass(frozen=True)
class PeerRun:
    """A finished run of the peer: its samples by task, in document order."""

    samples: dict[str, list[dict]]


def task_path(name: str) -> Path:
    """The harness's YAML file of mmlu_<subject>, gsm8k or gsm8k_cot."""
    folder, file = ("gsm8k", name.replace("_", "-")) if name in GSM8K else ("mmlu/default", name)
    path = HARNESS_TASKS / folder / f"{file}.yaml"
    assert path.is_file(), f"no task file {path}"
    return path


def write_local_task(name: str, data_root: Path, folder: Path) -> str:
    """A task file beside no data of its own; returns the task's local name."""
    path = task_path(name)
    text = yaml.safe_load(path.read_text())
    dataset, subset = ("openai/gsm8k", "main") if name in GSM8K else ("cais/mmlu", text["dataset_name"])
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


@dataclass(frozen=True)
class Peer:
    """A backend of lm-eval, as one plain command runs it."""

    backend: str = "hf"
    dtype: str = "float32"
    batch: int | str = 8
    python: str = sys.executable
    """Interpreter of the environment that has the backend."""
    model_args: str = ""
    """More of them, as the command takes them."""
    takes_device: bool = True
    env: tuple[tuple[str, str], ...] = ()

    @property
    def setting(self) -> str:
        return ", ".join(part for part in (f"{self.dtype}, batch {self.batch}", self.model_args) if part)


def command_of(
    peer: Peer, model: Path, tasks: Sequence[str], data_root: Path, scratch: Path, *, limit: int | None, threads: int,
    num_fewshot: int = 5, device: str = "cpu", max_new_tokens: int | None = None,
) -> tuple[list[str], dict[str, str]]:  # fmt: skip
    """The whole command and its environment; results land in ``scratch/out``."""
    scratch.mkdir(parents=True, exist_ok=True)
    names = [write_local_task(task, data_root, scratch) for task in tasks]
    model_args = ",".join(part for part in (f"pretrained={model}", f"dtype={peer.dtype}", peer.model_args) if part)
    command = [
        peer.python, "-m", "lm_eval", "run", "--model", peer.backend, "--model_args", model_args, "--tasks",
        ",".join(names), "--include_path", str(scratch), "--num_fewshot", str(num_fewshot), "--batch_size",
        str(peer.batch), "--output_path", str(scratch / "out"), "--log_samples",
    ]  # fmt: skip
    if peer.takes_device:
        command += ["--device", device]
    if limit is not None:
        command += ["--limit", str(limit)]
    if max_new_tokens is not None:
        command += ["--gen_kwargs", f"max_gen_toks={max_new_tokens}"]
    env = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(scratch / "cache"),
        "OMP_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
    }
    if peer.python != sys.executable:
        env.pop("PYTHONPATH", None)
    return command, env | dict(peer.env)


def peer_command(
    model: Path, tasks: list[str], data_root: Path, scratch: Path, *, batch: int, **options
) -> tuple[list[str], dict[str, str]]:
    """`command_of` lm-eval ``hf`` in float32."""
    return command_of(Peer(batch=batch), model, tasks, data_root, scratch, **options)


def lm_eval_side(
    args: argparse.Namespace, peer: Peer, suite: Suite, limit: int | None, cap_s: float | None = None
) -> Side:
    """lm-eval's whole command on the first ``limit`` items of each task of ``suite``; beyond ``cap_s`` it is ended and
    has no scores."""

    def run() -> Measured:
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            command, env = command_of(
                peer, args.model, suite.tasks, args.data_root, scratch, limit=limit, threads=args.threads,
                num_fewshot=suite.num_fewshot,
            )  # fmt: skip
            done = run_command(command, env, cap_s)
            if done.is_cut:
                return Measured(done.usage, is_cut=True)
            return Measured(done.usage, of_lm_eval(scratch / "out", PREFIX))

    return run


def versions(python: str, *packages: str) -> str:
    """Of packages in the environment of an interpreter, as ``name version``; ends the program where one is missing."""
    code = (
        "import sys; from importlib.metadata import version as v; print(', '.join(f'{p} {v(p)}' for p in sys.argv[1:]))"
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, env=env)
    except OSError as error:
        raise SystemExit(f"the peer's interpreter {python} does not run ({error.strerror}); name another.") from None
    if done.returncode:
        said = done.stderr.strip().split("\n")[-1]
        raise SystemExit(f"{python} lacks one of {', '.join(packages)} ({said}); install it there, or name another.")
    return done.stdout.strip()


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
