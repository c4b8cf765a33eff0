"""What the comparisons ask, and evalcard's side of each: the whole ``evalcard run`` of one model."""

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ab_rounds import Limits, Measured, Side  # beside this file
from machine_load import run_command
from read_scores import of_evalcard, output_tokens


@dataclass(frozen=True)
class Suite:
    """Tasks of the harness that are compared together."""

    tasks: tuple[str, ...]
    num_fewshot: int
    limit: int | None
    """First items of each task where no other number is asked for; None is all of them."""
    probe_items: int
    """Items of each task for finding a peer's best setting: enough to fill its largest batch."""
    batches: tuple[int, ...]
    """Batch sizes of lm-eval hf that are tried."""
    title: str


SUITES = {
    "mmlu": Suite(
        ("mmlu_abstract_algebra", "mmlu_anatomy", "mmlu_marketing"), 5, None, 12, (1, 8, 32), "mmlu 3 subjects 5-shot"
    ),
    "gsm8k": Suite(("gsm8k",), 5, 64, 32, (16, 32), "gsm8k 5-shot"),
    "gsm8k_cot": Suite(("gsm8k_cot",), 8, 64, 32, (16, 32), "gsm8k_cot 8 fixed shots"),
}


def evalcard_command(
    suite: Suite, model: str, data_root: Path, out: Path, *, limit: int | None, threads: int, dtype: str = "auto"
) -> list[str]:
    """The plain command; nothing stored is taken, and prompts, grading, comparison and card are part of it."""
    command = [
        sys.executable, "-m", "evalcard", "run", "--baseline", model, "--tasks", ",".join(suite.tasks),
        "--num-fewshot", str(suite.num_fewshot), "--data-root", str(data_root), "--out", str(out), "--fresh", "--quiet",
        "--threads", str(threads), "--dtype", dtype,
    ]  # fmt: skip
    return command if limit is None else [*command, "--limit-per-subtask", str(limit)]


def evalcard_side(
    args: argparse.Namespace, suite: Suite, limit: int | None, scheme: str | None = None, dtype: str = "auto"
) -> Side:
    """evalcard, from the command line to the written card; ``scheme`` is applied on the fly."""
    model = f"{args.model}:{scheme}" if scheme else str(args.model)

    def run() -> Measured:
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch)
            command = evalcard_command(
                suite, model, args.data_root, out, limit=limit, threads=args.threads, dtype=dtype
            )
            env = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(args.threads)}
            done = run_command(command, env)
            return Measured(done.usage, of_evalcard(out), output_tokens(out))

    return run


def common_options(description: str, suites: tuple[str, ...], default: str) -> argparse.ArgumentParser:
    """A parser with what all comparisons take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of the uncompressed model")
    parser.add_argument("--data-root", type=Path, required=True, help="folder with data sets by their Hub ids")
    parser.add_argument("--tasks", choices=suites, default=default)
    parser.add_argument("--limit", type=_count, help="first items of each task; default: the suite's own, 'all': all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--allowed-load", type=float, default=Limits.load, help="load of others before a round")
    parser.add_argument(
        "--allowed-others", type=float, default=Limits.others_share, help="others' share of the CPU time in a round"
    )
    parser.add_argument("--retries", type=int, default=Limits.retries, help="tries after a void round")
    parser.add_argument(
        "--wait", type=float, default=Limits.wait_s, help="seconds that a round waits for a quiet start"
    )
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    return parser


def _count(text: str) -> int:
    """0 stands for all."""
    number = 0 if text == "all" else int(text)
    if number < 0 or (number == 0 and text != "all"):
        raise argparse.ArgumentTypeError(f"{text} is no number of items; give 1 or more, or 'all'")
    return number


def resolved(args: argparse.Namespace) -> argparse.Namespace:
    """Whole paths, checked; ends the program with what is missing, before anything is measured."""
    for name in ("model", "data_root"):
        path = getattr(args, name).resolve()
        if not path.is_dir():
            raise SystemExit(f"--{name.replace('_', '-')} {path} is no folder; give one that exists.")
        setattr(args, name, path)
    if args.rounds < 1:
        raise SystemExit(f"--rounds is {args.rounds}; it must be 1 or more, and 3 for a figure to keep.")
    return args


def limit_of(args: argparse.Namespace, suite: Suite) -> int | None:
    """Items of each task; None is all."""
    return suite.limit if args.limit is None else args.limit or None


def limits_of(args: argparse.Namespace) -> Limits:
    return Limits(args.allowed_load, args.allowed_others, args.retries, args.wait)
