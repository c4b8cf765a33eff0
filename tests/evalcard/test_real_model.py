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


def test_mmlu_is_planned_as_the_tree_of_its_prompts():
    """All 14042 items with five shots, by planning alone: 10.13 million tokens, item by item. 1.57 million are left
    when a subject's shots count once, 1.38 million when whatever is shared does."""
    from evalcard.backends.embedded import _requests
    from evalcard.spec import make_spec
    from evalcard.tasks.prepare import prepare
    from evalcard_engine.intake import sequences_of
    from evalcard_engine.plan import tokens_to_compute

    spec = make_spec({"baseline": MODEL, "tasks": "mmlu", "num_fewshot": 5, "data_root": DATA})
    items = [item for task in prepare(spec).items.values() for item in task]
    assert len(items) == 14042
    sequences = sequences_of([request for number, item in enumerate(items) for request in _requests(number, item)])
    asked, computed = sum(len(one.prompt) for one in sequences), tokens_to_compute(sequences, shares=True)
    assert asked == pytest.approx(10.13e6, rel=0.02) and computed == pytest.approx(1.376e6, rel=0.02)
