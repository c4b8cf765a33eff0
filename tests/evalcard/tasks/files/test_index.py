"""The catalog as the harness's index, and the members of a group."""

from pathlib import Path

import pytest
from lm_eval.tasks._index import Entry, Kind

from evalcard.tasks.files.catalog import TaskFile
from evalcard.tasks.files.index import Registry, reference_of, spread

FILES = {
    "one": TaskFile("one", "task", "/x/one.yaml"), "team": TaskFile("team", "group", "/x/team.yaml"),
    "many": TaskFile("many", "tag", None, ("two", "one")), "own": TaskFile("own", "class", "/x/own.yaml"),
}  # fmt: skip


def test_entries_are_made_when_they_are_asked_for():
    registry = Registry(FILES)
    assert "one" in registry and "gone" not in registry and len(registry) == 0
    assert registry["one"] == Entry("one", Kind.TASK, Path("/x/one.yaml"))
    assert registry["many"] == Entry("many", Kind.TAG, None, tags={"one", "two"})
    assert [registry[name].kind for name in ("team", "own")] == [Kind.GROUP, Kind.PY_TASK]
    with pytest.raises(KeyError):
        registry["gone"]


def test_what_is_added_stays_out_of_the_catalog_and_wins():
    registry = Registry(FILES)
    registry["new"] = Entry("team::new", Kind.TASK, None)
    registry["one"] = Entry("team::one", Kind.TASK, None)
    assert "new" in registry and registry["one"].name == "team::one" and "new" not in FILES


def test_members():
    assert reference_of("one") == reference_of({"task": "one", "num_fewshot": 1}) == "one"
    assert reference_of({"group": "inner", "task": ["one"]}) is None and reference_of(5) is None
    registry = Registry(FILES)
    assert spread({"task": "one", "repeats": 2}, registry["one"]) == [{"task": "one", "repeats": 2}]
    assert spread({"task": "many", "repeats": 2}, registry["many"]) == [
        {"task": "one", "repeats": 2},
        {"task": "two", "repeats": 2},
    ]
    assert spread({"task": "team", "repeats": 2}, registry["team"]) == [{"group": "team", "repeats": 2}]
