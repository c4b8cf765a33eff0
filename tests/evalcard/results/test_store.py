"""The run folder: layout, lock, records."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.results.compared import Comparison
from evalcard.results.runs import find_run
from evalcard.results.store import RunFolder


def test_layout(tmp_path: Path, make_sample, make_verdict):
    with RunFolder.open(tmp_path, "toy-00000000") as folder:
        folder.journal("base", "lm_eval/mmlu").append(make_sample(1))
        folder.write_verdicts("base", "toy", [make_verdict(1)])
        assert folder.path == tmp_path / "toy-00000000" and folder.name == "toy-00000000"
        assert folder.journal("base", "toy") is folder.journal("base", "toy")
    (journal,) = (folder.path / "samples" / "base").iterdir()
    assert journal.name.startswith("lm_eval-mmlu-") and journal.suffix == ".jsonl"
    assert (folder.path / "verdicts" / "base" / "toy.jsonl").is_file()


def test_verdicts_are_replaced_whole(tmp_path: Path, make_verdict):
    with RunFolder.open(tmp_path, "run") as folder:
        assert not folder.has_verdicts("base", "toy")
        with pytest.raises(UserError, match="evalcard run"):
            folder.read_verdicts("base", "toy")
        folder.write_verdicts("base", "toy", [make_verdict(i, extracted="a\u2028\ud800") for i in range(3)])
        shorter = [make_verdict("x", value=float("nan"))]
        folder.write_verdicts("base", "toy", shorter)
        (verdict,) = folder.read_verdicts("base", "toy")
        assert verdict.item_id == "x" and verdict.scores[0].value is None
        folder.write_verdicts("base", "toy", [])
        assert folder.has_verdicts("base", "toy") and folder.read_verdicts("base", "toy") == []


def test_verdicts_name_the_damaged_line(tmp_path: Path, make_verdict):
    with RunFolder.open(tmp_path, "run") as folder:
        folder.write_verdicts("base", "toy", [make_verdict(1), make_verdict(2)])
        path = folder.path / "verdicts" / "base" / "toy.jsonl"
        path.write_bytes(path.read_bytes()[:-5] + b"\n")
        with pytest.raises(UserError, match=r"toy\.jsonl, line 2,"):
            folder.read_verdicts("base", "toy")


def test_records_survive(tmp_path: Path, make_run):
    comparison = Comparison(schema=1, run="r", tasks=[], averages=[], health=[], verdict={"outcome": "PASS"})
    with RunFolder.open(tmp_path, "run") as folder:
        for read in (folder.read_run, folder.read_comparison):
            with pytest.raises(UserError, match="cannot read"):
                read()
        folder.write_run(make_run())
        folder.write_comparison(comparison)
        assert folder.read_run() == make_run()
        assert folder.read_comparison() == comparison
    stored = json.loads((folder.path / "run.json").read_text(encoding="utf-8"))
    assert stored["schema"] == 1 and "schema_version" not in stored


def test_other_files(tmp_path: Path):
    with RunFolder.open(tmp_path, "run") as folder:
        path = folder.write_text("models/a/README.md", "é\n")
        assert path.read_bytes() == "é\n".encode()
        assert folder.write_bytes("figure.png", b"\x89").read_bytes() == b"\x89"
        with pytest.raises(AssertionError):
            folder.write_text("../outside.md", "no")


def test_a_second_process_is_told_who_holds_the_run(tmp_path: Path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom evalcard.errors import UserError\n"
        "from evalcard.results.store import RunFolder\n"
        "try:\n    RunFolder.open(Path(sys.argv[1]), 'run')\nexcept UserError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with RunFolder.open(tmp_path, "run"):
        held = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        again = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    free = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"process {os.getpid()} on " in held and f"process {os.getpid()} on " in again
    assert free == ""


def test_the_lock_is_free_after_close_and_after_a_kill(tmp_path: Path):
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom evalcard.results.store import RunFolder\n"
        "folder = RunFolder.open(Path(sys.argv[1]), 'run')\nos.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)])
    assert killed.returncode == -9
    for _ in range(2):
        folder = RunFolder.open(tmp_path, "run")
        folder.close()
        folder.close()


def test_two_runs_do_not_block_each_other(tmp_path: Path):
    with RunFolder.open(tmp_path, "one"), RunFolder.open(tmp_path, "two"), pytest.raises(UserError):
        RunFolder.open(tmp_path, "one")


def test_a_root_that_is_a_file_is_refused_at_once(tmp_path: Path):
    (tmp_path / "results").write_text("a file")
    with pytest.raises(UserError, match="cannot write results to .*--out"):
        RunFolder.open(tmp_path / "results", "run")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path: Path):
    (tmp_path / "run").mkdir(mode=0o500)
    with pytest.raises(UserError, match="cannot write results to"):
        RunFolder.open(tmp_path, "run")


def test_a_found_run_is_read_only_for_answers(tmp_path: Path, make_run, make_sample):
    with RunFolder.open(tmp_path, "run") as folder:
        folder.write_run(make_run())
    with pytest.raises(AssertionError, match="not locked"):
        find_run(tmp_path, "run").journal("base", "toy").append(make_sample(1))


def test_a_file_system_without_locks_is_refused_at_once(tmp_path: Path, monkeypatch):
    def no_locks(lock: object) -> None:
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr("evalcard.results.lock.FileLock.acquire", no_locks)
    with pytest.raises(UserError, match="does not appear to support flock"):
        RunFolder.open(tmp_path, "run")
