"""A real model on real data says what lm-eval's hf model says. Needs both; downloads neither."""

import os
from pathlib import Path

import pytest

MODEL, DATA = os.environ.get("EVALCARD_TEST_MODEL"), os.environ.get("EVALCARD_TEST_DATA")
BENCHMARKS = Path(__file__).parents[2] / "engine" / "benchmarks"

pytestmark = [
    pytest.mark.skipif(not MODEL, reason="EVALCARD_TEST_MODEL names no model folder"),
    pytest.mark.skipif(not DATA, reason="EVALCARD_TEST_DATA names no data folder"),
]


@pytest.mark.parametrize(("tasks", "limit"), [(["mmlu_abstract_algebra", "mmlu_anatomy", "mmlu_marketing"], 4),
                                              (["gsm8k"], 2)])  # fmt: skip
def test_agrees_with_lm_eval_hf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: list[str], limit: int):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import agreement_hf
    import peer_lm_eval

    model, data = Path(MODEL), Path(DATA)
    theirs = peer_lm_eval.run_peer(model, tasks, data, tmp_path / "peer", batch=4, limit=limit, threads=2)
    ours = agreement_hf.our_samples(model, tasks, data, tmp_path / "ours", limit, threads=2)
    found = agreement_hf.agreement(ours, theirs)
    assert found.scored_items + found.generated_items == limit * len(tasks)
    assert found.same_choice == found.scored_items
    assert found.largest_difference < 1e-3
    assert found.same_text == found.generated_items, found.other_texts
