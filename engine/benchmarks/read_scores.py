"""The scores of both sides, read from what they wrote, and printed side by side: speed counts only for equal work."""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from ab_rounds import Scores  # beside this file


def of_evalcard(root: Path) -> Scores:
    """Of the one run below a results root, which answered with one model: the mean over items of each stored score."""
    (folder,) = (path.parent for path in root.glob("*/run.json"))
    values: dict[str, float] = {}
    items: dict[str, int] = {}
    for path in sorted(folder.glob("verdicts/*/*.jsonl")):
        verdicts = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        assert path.stem not in items, ("more than one model", str(path))
        items[path.stem] = len(verdicts)
        values |= means(path.stem, verdicts)
    assert items, ("no verdicts", str(folder))
    return Scores(values, items)


def means(task: str, verdicts: list[dict]) -> dict[str, float]:
    """By ``task metric,filter``; an item without a score of its own, such as one that failed, counts as 0."""
    sums: dict[str, float] = defaultdict(float)
    for verdict in verdicts:
        for score in verdict["scores"]:
            sums[f"{task} {score['metric']},{score['filter']}"] += score["value"] or 0.0
    return {name: total / len(verdicts) for name, total in sums.items()}


def output_tokens(root: Path) -> int | None:
    """Generated tokens of a run; None where all its tasks are scored by log-probabilities."""
    counts = [
        json.loads(line)["output_tokens"]
        for path in root.glob("*/samples/*/*.jsonl")
        for line in path.read_text(encoding="utf-8").split("\n")
        if line
    ]
    return sum(counts) or None


def of_lm_eval(out: Path, prefix: str = "") -> Scores:
    """Of lm-eval's results file below ``out``; ``prefix`` is taken off the names of its tasks."""
    (path,) = out.rglob("results_*.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    values: dict[str, float] = {}
    for task, entries in found["results"].items():
        for name, value in entries.items():
            metric, comma, filter_name = name.partition(",")
            is_score = comma and not metric.endswith("_stderr") and isinstance(value, (int, float))
            if is_score:
                values[f"{task.removeprefix(prefix)} {metric},{filter_name}"] = float(value)
    items = {task.removeprefix(prefix): count["effective"] for task, count in found["n-samples"].items()}
    return Scores(values, items)


def side_by_side(ours: Scores, peer: Scores) -> list[str]:
    """A line for each score that both sides have, with the difference.

    Raises ValueError where the sides answered other items, or share no score.
    """
    if dict(ours.items) != dict(peer.items):
        raise ValueError(f"the sides answered other items: evalcard {_counts(ours.items)}, peer {_counts(peer.items)}")
    shared = sorted(ours.values.keys() & peer.values.keys())
    if not shared:
        raise ValueError(f"no score in common: evalcard has {sorted(ours.values)}, the peer {sorted(peer.values)}")
    width = max(map(len, shared))
    return [
        f"{name:{width}s}  evalcard {ours.values[name]:.4f}  peer {peer.values[name]:.4f}  "
        f"difference {ours.values[name] - peer.values[name]:+.4f}  ({ours.items[name.split(' ')[0]]} items)"
        for name in shared
    ]


def _counts(items: Mapping[str, int]) -> str:
    return ", ".join(f"{task} {count}" for task, count in sorted(items.items()))
