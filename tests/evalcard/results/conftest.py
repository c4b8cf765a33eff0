"""Small records for the tests of the store."""

from collections.abc import Callable
from typing import Any

import pytest

from evalcard.results.records import ItemScore, ModelRecord, RunRecord, Sample, Verdict


@pytest.fixture
def make_sample() -> Callable[..., Sample]:
    def make(item_id: int | str = 0, **changes: Any) -> Sample:
        facts = {"schema": 1, "key": f"key-{item_id}", "task": "toy", "task_version": "1", "item_id": item_id,
                 "item_hash": "i", "repeat": 0, "prompt_hash": "p", "prompt_tokens": 3, "text": "four",
                 "finish": "stop", "output_tokens": 1}  # fmt: skip
        return Sample.model_validate({**facts, **changes})

    return make


@pytest.fixture
def make_verdict() -> Callable[..., Verdict]:
    def make(item_id: int | str = 0, value: float | None = 1.0, **changes: Any) -> Verdict:
        facts = {"item_id": item_id, "repeat": 0, "extracted": "4", "target": "4", "outcome": "correct",
                 "scores": [ItemScore(metric="acc", filter="none", value=value)]}  # fmt: skip
        return Verdict.model_validate({**facts, **changes})

    return make


@pytest.fixture
def make_run() -> Callable[..., RunRecord]:
    def make(
        name: str = "toy-00000000", finished: str | None = "2026-01-02T00:00:00+00:00", **changes: Any
    ) -> RunRecord:
        model = ModelRecord(slug="base", role="baseline", name="base", hub_id=None, revision=None, scheme=None,
                            weights_digest="w", tokenizer_digest="t", template_digest=None, numerics="n")  # fmt: skip
        facts = {"schema": 1, "name": name, "created": "2026-01-01T00:00:00+00:00", "finished": finished, "asked": {},
                 "resolved": {}, "models": [model], "tasks": [], "rows": [], "progress": [], "versions": {},
                 "hardware": {}, "seed": 1, "command": ["evalcard", "run"], "git": None}  # fmt: skip
        return RunRecord.model_validate({**facts, **changes})

    return make
