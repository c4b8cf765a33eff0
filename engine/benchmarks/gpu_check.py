"""Kernels on one GPU beside torch's own, and whole models by kernels beside the CPU: right first, then how fast.

    python engine/benchmarks/gpu_check.py --part kernels [--seconds 220] [--csv results/gpu_kernels.csv]
    python engine/benchmarks/gpu_check.py --part model --model DIR [--schemes plain,fp8] [--csv results/gpu_models.csv]
    python engine/benchmarks/gpu_check.py --part speed [--seconds 420] [--csv results/gpu_speed.csv]
    python engine/benchmarks/gpu_check.py --part kernels|model|speed --rehearse

``kernels``: the roof is measured in the same run: torch's large products in bf16, int8 and fp8, and a copy. A kernel
cannot be faster than the greater of its operations at the one and its bytes at the other; ``roof`` is that time over
its own. ``model``: a folder is opened in several schemes, its logits are held against the CPU's float32 ones, and the
engine is timed on prompts and on answers. ``speed``: a model of Llama-3.1-8B's shape,
random weights made on the device, in bf16, fp8, w8a8 and w4a16: decoding at 1, 16, 64 and 256 sequences and prompts as
shares of the same roof, beside transformers' ``generate`` and its continuous batching. Rows go to the file as they are
measured.

Exits with 1 where anything is wrong. ``--rehearse`` runs tiny shapes through Triton's interpreter on the CPU, which
shows that the script works and says nothing about speed.
"""

import argparse
import csv
import datetime
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

if "--rehearse" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is loaded

import torch
import triton

sys.path.insert(0, str(Path(__file__).parent))
import gpu_kernels  # noqa: E402
import gpu_model  # noqa: E402
import gpu_speed  # noqa: E402
from gpu_bench import Bench  # noqa: E402

COMMON = ("date", "commit", "machine", "torch", "triton")
ROWS = {"kernels": gpu_kernels.Row, "model": gpu_model.Row, "speed": gpu_speed.Row}


def columns(part: str) -> list[str]:
    return [*COMMON, *(field.name for field in fields(ROWS[part]))]


def check_csv(path: Path, part: str) -> None:
    """Before anything is measured: rows of one kind to a file."""
    if path.exists() and path.open().readline().strip().split(",") != columns(part):
        raise SystemExit(f"{path} holds other columns than --part {part} has; give another file to --csv")


def append_csv(path: Path, part: str, rows: list[Any], bench: Bench) -> None:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    machine = platform.machine() if bench.is_rehearsal else torch.cuda.get_device_name()
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ")
    common = dict(zip(COMMON, (date, commit, machine, torch.__version__, triton.__version__), strict=True))
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns(part), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(common | asdict(row) for row in rows)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=sorted(ROWS), required=True)
    parser.add_argument("--model", type=Path, help="folder of an uncompressed or a compressed model")
    parser.add_argument("--schemes", help=f"applied on the fly, plain for none (default: {gpu_model.SCHEMES}; for a "
                        "compressed model plain)")  # fmt: skip
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes in the interpreter, without a GPU")
    parser.add_argument("--seconds", type=float, help="no case is begun later than this (default: 220; of speed 420)")
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    args = parser.parse_args()
    args.seconds = args.seconds or (420 if args.part == "speed" else 220)
    if not args.rehearse and not torch.cuda.is_available():
        raise SystemExit("no CUDA device here; --rehearse shows that the script works without one")
    if args.part == "model" and args.model is None and not args.rehearse:
        raise SystemExit("--part model needs --model DIR")
    if args.csv:
        check_csv(args.csv, args.part)
    return args


def main() -> None:
    args = arguments()
    bench, deadline = Bench(args.rehearse), time.monotonic() + args.seconds
    rows: list[Any]
    if args.part == "kernels":
        rows, faults = gpu_kernels.kernels(bench, deadline)
    elif args.part == "model":
        rows, faults = gpu_model.models(bench, deadline, args.model, args.schemes)
    else:
        keep = partial(append_csv, args.csv, "speed") if args.csv else None
        rows, faults = gpu_speed.speeds(bench, deadline, args.schemes, lambda row: keep([row], bench) if keep else None)
    if args.csv and args.part != "speed":
        append_csv(args.csv, args.part, rows, bench)
    if args.part == "speed":
        print("\n".join(faults) or f"{len(rows)} rows measured")
    else:
        print("\n".join(faults) or f"{len(rows)} cases, every one right; exact mode keeps rows apart")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
