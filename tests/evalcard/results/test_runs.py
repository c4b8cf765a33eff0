"""Finding a run."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from evalcard.errors import ComparisonRefused, UserError
from evalcard.results.runs import find_run, newer_incomplete, run_folders
from evalcard.results.store import RunFolder


@pytest.fixture
def root(tmp_path: Path, make_run) -> Path:
    """Three complete runs (one of them committed as reference), an incomplete, a damaged one and a stray folder."""
    finished = {"zz-old": "2026-01-01T00:00:00+00:00", "aa-new": "2026-03-01T00:00:00+00:00", "incomplete": None,
                "reference": "2026-09-01T00:00:00+00:00"}  # fmt: skip
    for name, time in finished.items():
        with RunFolder.open(tmp_path, name) as folder:
            folder.write_run(make_run(name, time))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text('{"schema": 1')
    (tmp_path / "stray").mkdir()
    return tmp_path


def test_latest_is_the_newest_complete_run(root: Path):
    assert find_run(root, "latest").name == "aa-new"
    assert find_run(root).read_run().finished == "2026-03-01T00:00:00+00:00"


def test_by_name_and_by_folder(root: Path, tmp_path_factory):
    assert find_run(root, "incomplete").path == root / "incomplete"
    assert find_run(tmp_path_factory.mktemp("other"), str(root / "zz-old")).name == "zz-old"
    assert find_run(root, "reference").name == "reference"


def test_a_damaged_run_is_found_and_says_so_when_read(root: Path):
    with pytest.raises(UserError, match="damaged"):
        find_run(root, "damaged").read_run()


def test_errors_list_what_exists(root: Path):
    with pytest.raises(UserError, match=r"no run 'nope'.*aa-new \(complete\).*incomplete \(incomplete\)") as error:
        find_run(root, "nope")
    assert "stray" not in str(error.value) and "reference (" not in str(error.value)


def test_a_folder_that_may_not_be_looked_into_is_not_said_to_be_missing(root: Path, monkeypatch: pytest.MonkeyPatch):
    real = Path.stat

    def stat(self: Path, **options: bool) -> os.stat_result:
        if self.parent.name == "shut":
            raise PermissionError(13, "Permission denied")
        return real(self, **options)

    monkeypatch.setattr(Path, "stat", stat)
    for which in ("shut", str(root / "shut")):
        with pytest.raises(UserError, match=r"cannot read .*shut: Permission denied\. Make it readable"):
            find_run(root, which)


def test_nothing_there(tmp_path: Path):
    with pytest.raises(UserError, match="holds no runs.*evalcard run"):
        find_run(tmp_path / "missing")
    assert list(run_folders(tmp_path / "missing")) == []


def test_only_incomplete_runs(tmp_path: Path, make_run):
    with RunFolder.open(tmp_path, "half") as folder:
        folder.write_run(make_run("half", None))
    with pytest.raises(ComparisonRefused, match=r"no complete run.*`evalcard run`.*again.*half \(incomplete\)"):
        find_run(tmp_path)
    assert newer_incomplete(tmp_path) is None, "nothing is newer than nothing"


@pytest.mark.parametrize(
    ("created", "written", "is_newer"),
    [("2026-01-01", "2026-01-02", False), ("2026-03-02", "2026-02-01", True), ("2026-01-01", "2026-04-01", True)],
    ids=["older", "begun later", "went on later"],
)
def test_a_newer_incomplete_run(created: str, written: str, is_newer: bool, root: Path, make_run):
    record = make_run("incomplete", None).model_copy(update={"created": f"{created}T00:00:00+00:00"})
    folder = RunFolder(root / "incomplete")
    folder.write_run(record)
    when = datetime.fromisoformat(f"{written}T00:00:00+00:00").timestamp()
    os.utime(root / "incomplete" / "run.json", (when, when))
    done = make_run("aa-new", "2026-03-01T00:00:00+00:00")
    RunFolder(root / "aa-new").write_run(done.model_copy(update={"created": "2026-02-01T00:00:00+00:00"}))
    assert newer_incomplete(root) == ("incomplete" if is_newer else None)
