"""What schemes.py measured: a line of its table, and a row of a CSV file with machine, commit and date."""

import csv
import datetime
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from evalcard_engine.arithmetic.cpu_plans import cpu_features

MEASURES = ("prefill", "decode_1", "decode_32", "linears")
SPEEDS = MEASURES[:3]
"""Those that are told in tokens a second as well."""
COLUMNS = [
    "date", "commit", "machine", "torch", "what", "model", "scheme", "weights", "threads", "rounds", "linear_bytes",
    "share_of_bf16", "loaded_bytes", "prefill_tokens_s", "prefill_ratio", "decode_1_tokens_s", "decode_1_ratio",
    "decode_32_tokens_s", "decode_32_ratio", "linears_ratio", "load_before",
]  # fmt: skip


@dataclass
class Row:
    """One scheme in one form; seconds of the baseline and of this model by measure, one a round."""

    scheme: str
    form: str
    linear_bytes: int
    bf16_bytes: int
    memory_bytes: int
    """Growth of the process while the model was loaded, embeddings and head included."""
    tokens: dict[str, int]
    """Tokens of a round of each measure."""
    load_before: float
    baseline: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})

    @property
    def share(self) -> float:
        """Of the bytes that the linears take in bf16."""
        return self.linear_bytes / self.bf16_bytes

    def speed(self, measure: str) -> float:
        """Tokens a second, median."""
        return self.tokens[measure] / statistics.median(self.seconds[measure])

    def ratio(self, measure: str) -> float:
        pairs = zip(self.baseline[measure], self.seconds[measure], strict=True)
        return statistics.median(before / now for before, now in pairs)


def header(linear_bytes: int, memory_bytes: int) -> str:
    """What the baseline takes, and the titles of the columns."""
    linears = linear_bytes / 2**20
    memory = f"linears {linears:.0f} MiB in float32, {linears / 2:.0f} in bf16; loaded {memory_bytes >> 20} MiB"
    names = ("scheme", "form", "linears MiB", "of bf16", "loaded MiB", "prefill tok/s", "x fp32", "decode 1", "x fp32",
             "decode 32", "x fp32", "linears x fp32", "load")  # fmt: skip
    return f"baseline: {memory}\n{' | '.join(names)}"


def line(row: Row) -> str:
    """One row of the table."""
    cells = [row.scheme, row.form.split(" (")[0], f"{row.linear_bytes / 2**20:.1f}", f"{row.share:.3f}"]
    cells.append(str(row.memory_bytes >> 20))
    for name in SPEEDS:
        cells += [f"{row.speed(name):.1f}", f"{row.ratio(name):.2f}"]
    return " | ".join([*cells, f"{row.ratio('linears'):.2f}", f"{row.load_before:.2f}"])


def check_table(path: Path) -> None:
    """Ends the program where ``path`` holds rows of another kind; before anything is measured."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open(newline="") as file:
        found = next(csv.reader(file))
    if found != COLUMNS:
        raise SystemExit(f"{path} holds other columns ({', '.join(found[:6])} ...); name another file.")


def append_rows(path: Path, model: str, threads: int, rounds: int, rows: Sequence[Row]) -> None:
    """Append to ``path``, which passed `check_table`."""
    is_new = not path.exists() or path.stat().st_size == 0
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    common = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "commit": commit,
        "machine": f"{platform.machine()} {cpu_features()} {os.cpu_count()} cores",
        "torch": torch.__version__,
        "what": "schemes beside fp32",
        "model": model,
        "threads": threads,
        "rounds": rounds,
    }
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        for row in rows:
            writer.writerow(common | _values(row))


def _values(row: Row) -> dict[str, object]:
    values: dict[str, object] = {
        "scheme": row.scheme,
        "weights": row.form,
        "linear_bytes": row.linear_bytes,
        "share_of_bf16": round(row.share, 4),
        "loaded_bytes": row.memory_bytes,
        "linears_ratio": round(row.ratio("linears"), 3),
        "load_before": row.load_before,
    }
    for name in SPEEDS:
        values |= {f"{name}_tokens_s": round(row.speed(name), 2), f"{name}_ratio": round(row.ratio(name), 3)}
    return values
