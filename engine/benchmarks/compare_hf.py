"""evalcard against lm-eval's ``hf`` model on MMLU: whole commands, the same items, in one run.

    python engine/benchmarks/compare_hf.py --model DIR --data-root DIR [--csv results/benchmarks.csv]

The peer's best batch size is looked for first, on a few items. Then the two commands take turns: a few rounds on the
first items of each subject for the spread, and one round on all of them, which is the figure that counts.
"""

import argparse
import csv
import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from peer_lm_eval import peer_command  # noqa: E402

TASKS = ["mmlu_abstract_algebra", "mmlu_anatomy", "mmlu_marketing"]
COLUMNS = [
    "date",
    "commit",
    "machine",
    "torch",
    "what",
    "items_per_subject",
    "peer_batch",
    "round",
    "evalcard_s",
    "peer_s",
    "ratio",
    "load_before",
]


def timed(command: list[str], env: dict[str, str]) -> float:
    """Wall-clock seconds of a whole command, interpreter start included."""
    start = time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nfailed with {done.returncode}:\n{done.stderr[-3000:]}")
    return seconds


def peer_seconds(args: argparse.Namespace, batch: int, limit: int | None) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        command, env = peer_command(
            args.model, TASKS, args.data_root, Path(scratch), batch=batch, limit=limit, threads=args.threads
        )
        return timed(command, env)


def our_seconds(args: argparse.Namespace, limit: int | None) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            sys.executable,
            "-m",
            "evalcard",
            "run",
            "--baseline",
            str(args.model),
            "--tasks",
            ",".join(TASKS),
            "--num-fewshot",
            "5",
            "--data-root",
            str(args.data_root),
            "--out",
            scratch,
            "--fresh",
            "--quiet",
            "--threads",
            str(args.threads),
        ]
        if limit is not None:
            command += ["--limit-per-subtask", str(limit)]
        return timed(command, os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(args.threads)})


def best_batch(args: argparse.Namespace) -> int:
    """The peer's fastest batch size on the first items of each subject."""
    seconds = {batch: peer_seconds(args, batch, args.probe_items) for batch in args.batches}
    for batch, value in seconds.items():
        print(f"lm_eval hf, batch {batch:3d}, {args.probe_items} items a subject: {value:7.1f} s", flush=True)
    return min(seconds, key=seconds.__getitem__)


def one_round(args: argparse.Namespace, batch: int, limit: int | None, number: int) -> dict:
    """Both commands once, evalcard first in even rounds, so that neither always meets a warm file cache."""
    load = os.getloadavg()[0]
    order = [("evalcard_s", lambda: our_seconds(args, limit)), ("peer_s", lambda: peer_seconds(args, batch, limit))]
    row = {name: run() for name, run in (order if number % 2 == 0 else reversed(order))}
    row |= {"round": number, "items_per_subject": limit or "all", "peer_batch": batch, "load_before": round(load, 2)}
    row["ratio"] = row["peer_s"] / row["evalcard_s"]
    times = f"evalcard {row['evalcard_s']:.1f} s, lm_eval hf {row['peer_s']:.1f} s, ratio {row['ratio']:.2f}"
    print(f"round {number} ({row['items_per_subject']} items a subject, load {load:.2f}): {times}", flush=True)
    return row


def append_csv(path: Path, rows: list[dict]) -> None:
    import torch

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    common = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "commit": commit,
        "machine": f"{platform.machine()} {os.cpu_count()} cores",
        "torch": torch.__version__,
        "what": "mmlu 3 subjects 5-shot, whole commands",
    }
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        for row in rows:
            writer.writerow(common | {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()})


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--batches", type=lambda text: [int(part) for part in text.split(",")], default=[1, 8, 32])
    parser.add_argument("--probe-items", type=int, default=12, help="items a subject for finding the best batch")
    parser.add_argument("--spread-items", type=int, default=40, help="items a subject in the rounds for the spread")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    return parser.parse_args()


def main() -> None:
    args = parse()
    args.model, args.data_root = args.model.resolve(), args.data_root.resolve()
    batch = best_batch(args)
    rows = [one_round(args, batch, args.spread_items, number) for number in range(args.rounds)]
    if rows:
        ratios = sorted(row["ratio"] for row in rows)
        print(f"spread: ratio {ratios[0]:.2f} to {ratios[-1]:.2f}, median {statistics.median(ratios):.2f}")
    rows.append(one_round(args, batch, None, args.rounds))
    print(f"on all items: evalcard is {rows[-1]['ratio']:.2f} times as fast as lm_eval hf (batch {batch})")
    if args.csv:
        append_csv(args.csv, rows)


if __name__ == "__main__":
    main()
