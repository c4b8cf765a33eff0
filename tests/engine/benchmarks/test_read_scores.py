"""Scores are read from what both sides wrote, and only equal items are compared."""

import json
from pathlib import Path

import pytest
import read_scores
from ab_rounds import Scores


def write_run(root: Path, values: list[tuple[float, float | None]]) -> None:
    """A run folder with verdicts of one task, (strict, flexible) each; an item of None has no scores at all."""
    folder = root / "gsm8k-12345678"
    (folder / "verdicts" / "model").mkdir(parents=True)
    (folder / "samples" / "model").mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    lines = [
        {"item_id": number, "scores": [] if flexible is None else [
            {"metric": "exact_match", "filter": "strict-match", "value": strict},
            {"metric": "exact_match", "filter": "flexible-extract", "value": flexible}]}
        for number, (strict, flexible) in enumerate(values)
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "verdicts" / "model" / "gsm8k.jsonl").write_text(text)
    samples = "".join(json.dumps({"output_tokens": 10 + number}) + "\n" for number in range(len(values)))
    (folder / "samples" / "model" / "gsm8k.jsonl").write_text(samples)


def write_peer(out: Path, name: str, strict: float, items: int) -> None:
    (out / "model").mkdir(parents=True)
    found = {
        "results": {name: {
            "alias": name, "exact_match,strict-match": strict, "exact_match_stderr,strict-match": 0.1,
            "exact_match,flexible-extract": 0.5, "sample_len": items}},
        "n-samples": {name: {"original": 1319, "effective": items}},
    }  # fmt: skip
    (out / "model" / "results_2026-01-01.json").write_text(json.dumps(found))


def test_evalcards_scores_are_means_and_an_item_without_one_counts(tmp_path: Path) -> None:
    write_run(tmp_path, [(1.0, 1.0), (0.0, 1.0), (0.0, 0.0), (0.0, None)])
    found = read_scores.of_evalcard(tmp_path)
    assert found.values == {"gsm8k exact_match,strict-match": 0.25, "gsm8k exact_match,flexible-extract": 0.5}
    assert found.items == {"gsm8k": 4}
    assert read_scores.output_tokens(tmp_path) == 10 + 11 + 12 + 13


def test_the_harness_scores_lose_their_prefix_and_standard_errors(tmp_path: Path) -> None:
    write_peer(tmp_path, "local_gsm8k", 0.3, 4)
    found = read_scores.of_lm_eval(tmp_path, "local_")
    assert found.values == {"gsm8k exact_match,strict-match": 0.3, "gsm8k exact_match,flexible-extract": 0.5}
    assert found.items == {"gsm8k": 4}


def test_scores_are_shown_with_their_difference() -> None:
    ours = Scores({"gsm8k exact_match,strict-match": 0.25, "only ours,none": 1.0}, {"gsm8k": 4})
    peer = Scores({"gsm8k exact_match,strict-match": 0.5}, {"gsm8k": 4})
    (line,) = read_scores.side_by_side(ours, peer)
    assert line == "gsm8k exact_match,strict-match  evalcard 0.2500  peer 0.5000  difference -0.2500  (4 items)"


def test_other_items_or_no_common_score_are_refused() -> None:
    ours = Scores({"gsm8k acc,none": 0.25}, {"gsm8k": 4})
    with pytest.raises(ValueError, match="other items: evalcard gsm8k 4, peer gsm8k 5"):
        read_scores.side_by_side(ours, Scores({"gsm8k acc,none": 0.25}, {"gsm8k": 5}))
    with pytest.raises(ValueError, match="no score in common"):
        read_scores.side_by_side(ours, Scores({"gsm8k em,none": 0.25}, {"gsm8k": 4}))
