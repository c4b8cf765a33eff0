"""Several models and dates in one folder."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.results.imported.load import import_results

OLD, NEW = "2026-01-01T00-00-00.000001", "2026-02-01T00-00-00.000001"


@pytest.fixture
def put(written: tuple[Path, dict[str, Any]], tmp_path: Path) -> Callable[..., Path]:
    """Put a copy of what lm-eval wrote into a folder, under another date, model or choice of tasks."""

    def copy(model: str, date: str, *, tasks: list[str] | None = None, **changes: Any) -> Path:
        folder = tmp_path / "all" / model.replace("/", "__")
        folder.mkdir(parents=True, exist_ok=True)
        (source,) = written[0].rglob("results_*.json")
        data = json.loads(source.read_text())
        kept = tasks or list(data["configs"])
        data |= {"model_name": model, "date": None}
        data["config"]["model_sha"] = "abc"
        data["config"]["model_args"] = {"pretrained": model} | changes
        data["configs"] = {name: one for name, one in data["configs"].items() if name in kept}
        (folder / f"results_{date}.json").write_text(json.dumps(data))
        for name in kept:
            (samples,) = written[0].rglob(f"samples_{name}_*.jsonl")
            shutil.copy(samples, folder / f"samples_{name}_{date}.jsonl")
        return tmp_path / "all"

    return copy


def test_one_for_each_model(put: Callable[..., Path]):
    put("org/Base", OLD)
    folder = put("org/Base-w4a16", OLD)
    assert [one.model.slug for one in import_results(folder)] == ["Base", "Base-w4a16"]
    for name in ("Base-w4a16", "org/Base-w4a16"):
        (found,) = import_results(folder, name)
        assert found.model.name == "org/Base-w4a16"


def test_a_name_that_is_not_there(put: Callable[..., Path]):
    with pytest.raises(UserError, match="no model called 'Bass'. It holds: Base"):
        import_results(put("org/Base", OLD), "Bass")


def test_the_newest_counts(put: Callable[..., Path]):
    put("org/Base", OLD)
    (stored,) = import_results(put("org/Base", NEW))
    assert f"results_{NEW}.json (2026-02-01T00:00:00); 1 older or unfinished file of it not used" in stored.origin
    assert stored.created == "2026-02-01T00:00:00.000001"


def test_tasks_of_older_files_are_added(put: Callable[..., Path]):
    put("org/Base", OLD)
    (stored,) = import_results(put("org/Base", NEW, tasks=["toy_sums"]))
    assert sorted(stored.tasks) == ["toy_colours", "toy_last", "toy_shapes", "toy_sums"]
    assert OLD in stored.origin and NEW in stored.origin and "not used" not in stored.origin
    assert [row.name for row in stored.rows] == ["toy_sums", "toy_mc", "toy_last"]


def test_a_group_in_two_files_is_listed_by_its_tasks(put: Callable[..., Path]):
    put("org/Base", OLD, tasks=["toy_colours"])
    (stored,) = import_results(put("org/Base", NEW, tasks=["toy_shapes"]))
    assert [(row.name, row.rule) for row in stored.rows] == [("toy_shapes", "task"), ("toy_colours", "task")]


def test_a_model_that_was_loaded_in_two_ways_is_two(put: Callable[..., Path]):
    """Quantized on the fly it has the same name, and is not the same model."""
    put("org/Base", OLD)
    found = import_results(put("org/Base", NEW, load_in_4bit=True))
    assert len(found) == 2 and len({one.model.slug for one in found}) == 2
    assert all(one.model.slug.startswith("Base-") and one.model.name == "org/Base" for one in found)


def test_two_harnesses_in_one_folder(put: Callable[..., Path]):
    folder = put("org/Base", OLD)
    log = {"version": 2, "status": "success", "eval": {"task": "t", "task_id": "x"}, "plan": {}}
    (folder / "a.json").write_text(json.dumps(log))
    with pytest.raises(UserError, match="holds results of inspect and lm_eval. Name the folder"):
        import_results(folder)


def test_importing_needs_no_harness():
    """Only reading lighteval's parquet, or zstd, takes pyarrow, and then at that time."""
    import subprocess
    import sys

    code = "import evalcard.results.imported.load, sys; print(' '.join({n.partition('.')[0] for n in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "lm_eval", "lighteval", "inspect_ai", "pandas", "pyarrow", "numpy", "scipy"}
    assert not set(done.stdout.split()) & heavy
