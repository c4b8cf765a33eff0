"""Names resolve by a scan that agrees with the harness's own index."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.tasks import files


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_scan_reads_names_kinds_and_tags_through_includes(tmp_path: Path):
    (tmp_path / "_base").write_text("tag:\n  - big\n  - 'small'  # a comment\noutput_type: multiple_choice\n")
    write(
        tmp_path / "deep",
        one="include: ../_base\n'task': \"one\"\n",
        two="include:\n- ../_base\ntask: two # said twice\ntag: [own]\n",
        three="task: three\nclass: !function task.Three\n",
        team="group: team\ntask:\n  - one\n  - task: two\n    num_fewshot: 1\n",
        template="output_type: generate_until\n",
        indented="group: outer\ntask:\n- group: inner\n  task: three\n",
    )
    found = files.scan_folder(tmp_path)
    assert {name: file.kind for name, file in found.items()} == {
        "one": "task", "two": "task", "three": "class", "team": "group", "outer": "group", "big": "tag", "small": "tag",
        "own": "tag",
    }  # fmt: skip
    assert found["big"].members == ("one",) and found["own"].members == ("two",)
    assert found["one"].path == str(tmp_path / "deep" / "one.yaml")


def test_scan_survives_include_cycles_and_missing_includes(tmp_path: Path):
    write(tmp_path, a="include: b.yaml\ntask: a\n", b="include: [a.yaml, nowhere.yaml]\ntask: b\n")
    assert set(files.scan_folder(tmp_path)) == {"a", "b"}


@pytest.mark.parametrize("part", ["mmlu", "arc", "gsm8k", "squadv2", "toksuite/toksuite_math", "glue", "leaderboard"])
def test_scan_equals_the_harness_index(part: str):
    from lm_eval.tasks._index import TaskIndex

    folder = files.harness_tasks_folder() / part
    index = TaskIndex.build([folder])
    kinds = {"TASK": "task", "PY_TASK": "class", "GROUP": "group", "TAG": "tag"}
    expected = {
        name: (kinds[entry.kind.name], str(entry.yaml_path) if entry.yaml_path else None,
               tuple(sorted(entry.tags)) if entry.kind.name == "TAG" else ())
        for name, entry in index.items()
    }  # fmt: skip
    found = files.scan_folder(folder)
    assert {name: (file.kind, file.path, file.members) for name, file in found.items()} == expected
    assert found


class TestCache:
    @pytest.fixture(autouse=True)
    def _small_harness(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        self.tasks = write(tmp_path / "tasks", one="task: one\ntag: many\n")
        self.cache = tmp_path / "cache"
        monkeypatch.setattr(files, "harness_tasks_folder", lambda: self.tasks)
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))

    def test_second_look_reads_the_cache(self, monkeypatch: pytest.MonkeyPatch):
        first = files.harness_catalog()

        def no_scan(*_: object) -> None:
            raise AssertionError("scanned again")

        monkeypatch.setattr(files, "scan_folder", no_scan)
        assert files.harness_catalog() == first and first["many"].members == ("one",)

    def test_another_version_scans_anew(self, monkeypatch: pytest.MonkeyPatch):
        files.harness_catalog()
        write(self.tasks / "more", two="task: two\n")
        monkeypatch.setattr(files, "harness_version", lambda: "99.0")
        assert "two" in files.harness_catalog()

    @pytest.mark.parametrize("content", ["", "{]", '{"a": 1}', '[["one"]]', "[1, 2]"])
    def test_a_damaged_cache_is_made_again(self, content: str):
        files.harness_catalog()
        (path,) = (self.cache / "evalcard").glob("*.json")
        path.write_text(content)
        assert set(files.harness_catalog()) == {"one", "many"}
        assert len(json.loads(path.read_text())) == 2

    def test_a_folder_that_cannot_be_written(self, monkeypatch: pytest.MonkeyPatch):
        (self.cache).write_text("a file where the folder should be")
        assert set(files.harness_catalog()) == {"one", "many"}
        assert stat.S_ISREG(self.cache.stat().st_mode)


class TestSelect:
    def test_ours_first_and_the_harness_by_force(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        ours = write(tmp_path, gsm8k="task: gsm8k\n")
        monkeypatch.setattr(files, "task_files", lambda: ours)
        (plain,) = files.select(["gsm8k"])
        (forced,) = files.select(["lm_eval/gsm8k"])
        assert (plain.source, forced.source) == ("evalcard", "lm_eval")
        assert plain.file.path == str(ours / "gsm8k.yaml") and "lm_eval" in str(forced.file.path)
        assert forced.catalog["gsm8k"] == forced.file

    def test_a_path_sees_its_own_folder(self, tmp_path: Path):
        write(tmp_path, team="group: team\ntask: [leaf]\n", leaf="task: leaf\n")
        (found,) = files.select([str(tmp_path / "team.yaml")])
        assert found.source == "file" and found.file.kind == "group" and "leaf" in found.catalog

    def test_patterns(self):
        found = files.select(["lm_eval/mmlu_*_law"])
        assert {"mmlu_international_law", "mmlu_professional_law"} <= {one.file.name for one in found}

    def test_unknown_names_come_in_one_message(self):
        with pytest.raises(UserError) as error:
            files.select(["gsm8kk", "demo", "hellaswagg"])
        assert "'gsm8kk' (did you mean gsm8k" in str(error.value) and "'hellaswagg'" in str(error.value)
        assert "evalcard list" in str(error.value) and "'demo'" not in str(error.value)

    def test_files_that_are_no_tasks(self, tmp_path: Path):
        write(tmp_path, nothing="output_type: generate_until\n")
        with pytest.raises(UserError, match="names no task"):
            files.select([str(tmp_path / "nothing.yaml")])
        with pytest.raises(UserError, match="no task file"):
            files.select([str(tmp_path / "missing.yaml")])


def test_names_need_neither_torch_nor_the_harness():
    code = (
        "import sys; from evalcard.tasks.files import select, list_names; select(['demo', 'mmlu']); list_names();"
        "print({n.partition('.')[0] for n in sys.modules} & {'torch', 'transformers', 'lm_eval', 'datasets', 'numpy'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()", done.stdout
