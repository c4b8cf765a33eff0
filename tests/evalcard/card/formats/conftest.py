"""A run whose names hold whatever a format could take for its own."""

from collections.abc import Callable
from typing import Any

import pytest

from evalcard.results.compared import Comparison, Finding
from evalcard.results.records import RunRecord

HOSTILE = "=cmd|' /C calc'!A0 100% _of_ a&b\n\\input{/etc/passwd} $x$ {{7*7}} ~^#<script>`"


@pytest.fixture
def hostile(make_case: Callable[..., tuple[RunRecord, Comparison]]) -> tuple[RunRecord, Comparison]:
    run, comparison = make_case()

    def renamed(name: str) -> str:
        return HOSTILE if name == "arc" else name

    models = [run.models[0].model_copy(update={"name": HOSTILE, "hub_id": None}), *run.models[1:]]
    tasks = [task.model_copy(update={"name": renamed(task.name)}) for task in run.tasks]
    rows: Any = [
        row.model_copy(update={"name": renamed(row.name), "tasks": [renamed(name) for name in row.tasks]})
        for row in run.rows
    ]
    compared = [
        row.model_copy(update={"task": renamed(row.task), "tasks": [renamed(name) for name in row.tasks]})
        for row in comparison.tasks
    ]
    finding = Finding(finding=f"Found {HOSTILE}.", severity="warning", where=HOSTILE, advice="None.", row=HOSTILE)
    run = run.model_copy(update={"name": HOSTILE, "models": models, "tasks": tasks, "rows": rows})
    return run, comparison.model_copy(update={"tasks": compared, "health": [finding], "run": HOSTILE})
