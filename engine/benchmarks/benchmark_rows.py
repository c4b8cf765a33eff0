"""Rows of results/benchmarks.csv: one for each round and side of evalcard, void rounds included.

The first columns are those of the file's first rows, in their order; later ones follow. A file with fewer of them is
given the others once, its rows unchanged and empty there.
"""

import csv
import datetime
import io
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ab_rounds import Measured, Round  # beside this file

FIRST_COLUMNS = [
    "date", "commit", "machine", "torch", "what", "items_per_subject", "peer_batch", "round", "evalcard_s", "peer_s",
    "ratio", "load_before",
]  # fmt: skip
COLUMNS = [
    *FIRST_COLUMNS, "peer", "peer_version", "peer_setting", "side", "items", "is_at_least", "void", "others_share",
    "evalcard_tokens", "peer_tokens", "evalcard_scores", "peer_scores", "threads", "model",
]  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """What all rows of one comparison share."""

    what: str
    peer: str
    peer_version: str
    peer_setting: str
    """Batch, dtype and the like, in words; for a peer whose head has another precision, that as well."""
    threads: int
    model: str
    """The last part of its path only."""
    items_per_task: int | str
    peer_batch: int | str = ""


def keeper(path: Path | None, facts: Facts) -> Callable[[Round], None]:
    """What appends the rows of a round that is over to ``path``; nothing where there is none."""

    def keep(turn: Round) -> None:
        if path is not None:
            append_rows(path, rows_of([turn], facts))

    return keep


def rows_of(rounds: Iterable[Round], facts: Facts) -> list[dict[str, object]]:
    return [_row(turn, name, facts) for turn in rounds for name in turn.ours]


def _row(turn: Round, name: str, facts: Facts) -> dict[str, object]:
    mine, peer = turn.ours[name], turn.peer
    return {
        "what": facts.what,
        "items_per_subject": facts.items_per_task,
        "peer_batch": facts.peer_batch,
        "round": turn.number,
        "evalcard_s": round(mine.seconds, 3),
        "peer_s": round(peer.seconds, 3),
        "ratio": round(turn.ratio(name), 3),
        "load_before": round(turn.load_before, 2),
        "peer": facts.peer,
        "peer_version": facts.peer_version,
        "peer_setting": facts.peer_setting,
        "side": name,
        "items": sum(mine.scores.items.values()),
        "is_at_least": int(peer.is_cut),
        "void": turn.void,
        "others_share": "" if turn.others_share is None else round(turn.others_share, 4),
        "evalcard_tokens": _or_empty(mine),
        "peer_tokens": _or_empty(peer),
        "evalcard_scores": _scores(mine),
        "peer_scores": _scores(peer),
        "threads": facts.threads,
        "model": facts.model,
    }


def _or_empty(side: Measured) -> int | str:
    return "" if side.output_tokens is None else side.output_tokens


def _scores(side: Measured) -> str:
    values = {name: round(value, 4) for name, value in side.scores.values.items()}
    return json.dumps(values, sort_keys=True) if values else ""


def check_table(path: Path) -> None:
    """Ends the program where ``path`` holds rows of another kind; before anything is measured."""
    if not path.parent.is_dir():
        raise SystemExit(f"--csv {path}: there is no folder {path.parent}; make it, or name another file.")
    found = _header(path)
    if found is not None and not _is_ours(found):
        raise SystemExit(f"--csv {path} holds other columns ({', '.join(found[:6])} ...); name another file.")


def append_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Append rows, with date, machine, torch and commit, to a file that passed `check_table`; it is written whole."""
    before = _header(path)
    kept: list[dict[str, str]] = []
    if before is not None:
        with path.open(newline="", encoding="utf-8") as file:
            kept = list(csv.DictReader(file))
    common = common_facts()
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(kept)
    writer.writerows(common | dict(row) for row in rows)
    draft = path.with_name(path.name + ".new")
    draft.write_text(text.getvalue(), encoding="utf-8")
    draft.replace(path)


def _header(path: Path) -> list[str] | None:
    """None for a file that does not exist or is empty."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file))


def _is_ours(header: Sequence[str]) -> bool:
    return len(header) >= len(FIRST_COLUMNS) and list(header) == COLUMNS[: len(header)]


def common_facts() -> dict[str, object]:
    """When, where and with what; nothing that names the machine or a path on it."""
    import torch

    from evalcard_engine.arithmetic.cpu_plans import cpu_features

    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "commit": commit(),
        "machine": f"{platform.machine()} {cpu_features()} {os.cpu_count()} cores",
        "torch": torch.__version__,
    }


def commit(folder: Path = Path(__file__).parent) -> str:
    """The checkout's that ``folder`` is in, with ``+changes`` where tracked files differ from it; empty outside one.

    Results do not count as changes: rows that were just appended are among them.
    """
    found = _git(folder, "rev-parse", "--short", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)results")
    return f"{found}+changes" if found and changes else found


def _git(folder: Path, *command: str) -> str:
    return subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True).stdout.strip()
