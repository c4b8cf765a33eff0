"""A run.json that does not agree with itself is named before any command trips over it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke
from evalcard.errors import UserError
from evalcard.results.consistency import check_run
from evalcard.results.store import RUN_FILE, RunFolder


def _set(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Puts ``value`` at a path of keys and numbers."""

    def change(run: dict[str, Any]) -> None:
        *above, last = [int(part) if part.isdecimal() else part for part in place.split(".")]
        for part in above:
            run = run[part]
        run[last] = value

    return change


def _twice(table: str) -> Callable[[dict[str, Any]], None]:
    return lambda run: run[table].append(run[table][-1])


def _swapped(run: dict[str, Any]) -> None:
    run["models"].reverse()


EARLY = {"row": "z", "limit": 95.0, "confidence": 0.95, "items": 9, "used": 8, "decision": None, "low": None,
         "high": None}  # fmt: skip
DAMAGE = {
    "unknown task": (_set("rows.0.tasks", ["nope"]), "the row 'a' is made of the task 'nope'"),
    "no tasks": (_set("tasks", []), "the row 'a' is made of the task 'a', which it does not describe"),
    "empty row": (_set("rows.0.tasks", []), "the row 'a' has no tasks"),
    "a task twice in a row": (_set("rows.0.tasks", ["a", "a"]), "the row 'a' has the task 'a' twice"),
    "rule": (_set("rows.0.tasks", ["a", "b"]), "the row 'a' is of one task by its rule, and has 2"),
    "no baseline": (_set("models.0.role", "compressed"), "model 1, 'tiny', has the role 'compressed'"),
    "two baselines": (_set("models.1.role", "baseline"), "model 2, 'tiny-w8a8', has the role 'baseline'"),
    "order": (_swapped, "model 1, 'tiny-w8a8', has the role 'compressed', not 'baseline'"),
    "no models": (_set("models", []), "it is finished and names no model"),
    "model twice": (_twice("models"), "the model 'tiny-w8a8' twice"),
    "task twice": (_twice("tasks"), "the task 'b' twice"),
    "row twice": (_twice("rows"), "the row 'b' twice"),
    "items": (_set("tasks.0.items_selected", 99), "the task 'a' has 99 of 4 items"),
    "negative": (_set("tasks.0.items_selected", -1), "the task 'a' has -1 of 4 items"),
    "repeats": (_set("tasks.0.repeats", 0), "0 answers an item"),
    "chance": (_set("tasks.0.chance", 1.5), "the chance level of the task 'a' is 1.5"),
    "stopped row": (_set("sequential", [EARLY]), "stopped early on the row 'z'"),
    "confidence": (_set("sequential", [EARLY | {"row": "a", "confidence": 2.0}]), "a confidence of 2"),
}  # fmt: skip


@pytest.mark.parametrize("which", DAMAGE)
def test_what_a_hand_edited_is_told_by_every_reader(
    stored_run: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], which: str
):
    change, said = DAMAGE[which]
    folder = stored_run().add("a", [1, 0, 1, 1], [1, 0, 0, 1]).add("b", [1, 1, 0, 1], [1, 1, 1, 1]).write()
    path = folder / RUN_FILE
    run = json.loads(path.read_text())
    change(run)
    path.write_text(json.dumps(run))
    with pytest.raises(UserError) as error:
        RunFolder(folder).read_run()
    assert f"{path} is damaged: " in str(error.value) and said in str(error.value)
    for command in ("compare", "gate", "card"):
        assert invoke([command, str(folder)]) == 2, command
        assert "is damaged: " in capsys.readouterr().err


def test_what_a_run_writes_agrees(stored_run: Callable[..., Any]):
    run = stored_run(is_finished=False).add("a", [1, 0], [1, 0])
    check_run(run.record(), "here")
    check_run(run.record().model_copy(update={"models": []}), "here")
