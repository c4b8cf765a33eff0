"""Names resolve by a scan that agrees with the harness's own index."""

import json
import stat
from pathlib import Path

import pytest

from evalcard.resources import task_files
from evalcard.tasks.files import catalog


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
    found = catalog.scan_folder(tmp_path)
    assert {name: file.kind for name, file in found.items()} == {
        "one": "task", "two": "task", "three": "class", "team": "group", "outer": "group", "big": "tag", "small": "tag",
        "own": "tag",
    }  # fmt: skip
    assert found["big"].members == ("one",) and found["own"].members == ("two",)
    assert found["one"].path == str(tmp_path / "deep" / "one.yaml")


def test_scan_survives_include_cycles_and_missing_includes(tmp_path: Path):
    write(tmp_path, a="include: b.yaml\ntask: a\n", b="include: [a.yaml, nowhere.yaml]\ntask: b\n")
    assert set(catalog.scan_folder(tmp_path)) == {"a", "b"}


@pytest.mark.parametrize("part", ["mmlu", "arc", "gsm8k", "squadv2", "toksuite/toksuite_math", "glue", "leaderboard"])
def test_scan_equals_the_harness_index(part: str):
    from lm_eval.tasks._index import TaskIndex

    folder = catalog.harness_tasks_folder() / part
    index = TaskIndex.build([folder])
    kinds = {"TASK": "task", "PY_TASK": "class", "GROUP": "group", "TAG": "tag"}
    expected = {
        name: (kinds[entry.kind.name], str(entry.yaml_path) if entry.yaml_path else None,
               tuple(sorted(entry.tags)) if entry.kind.name == "TAG" else ())
        for name, entry in index.items()
    }  # fmt: skip
    found = catalog.scan_folder(folder)
    assert {name: (file.kind, file.path, file.members) for name, file in found.items()} == expected
    assert found


def test_our_names_are_those_of_our_files_but_the_template():
    from lm_eval.tasks._index import TaskIndex

    ours = catalog.our_catalog()
    assert set(ours) == set(TaskIndex.build([task_files()])) - {"my_task"}
    assert {"mmlu", "mmlu_generative", "math500", "aime24", "gpqa_diamond", "reasoning", "demo"} <= set(ours)


def test_the_group_that_lists_a_name_by_itself_or_by_its_tag():
    ours = {"team": catalog.TaskFile("team", "group", None), "leaf": catalog.TaskFile("leaf", "task", "leaf.yaml")}
    assert catalog.our_group_of("leaf", ours, {}) is None
    found = [
        catalog.our_group_of(name, catalog.our_catalog(), catalog.harness_catalog())
        for name in ("mmlu_anatomy", "mmlu_stem_tasks", "mmlu_anatomy_generative", "gsm8k")
    ]
    names = [group.name if group else None for group in found]
    assert names == ["mmlu_stem", "mmlu_stem", "mmlu_generative", None]


class TestCache:
    @pytest.fixture(autouse=True)
    def _small_harness(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        self.tasks = write(tmp_path / "tasks", one="task: one\ntag: many\n")
        self.cache = tmp_path / "cache"
        monkeypatch.setattr(catalog, "harness_tasks_folder", lambda: self.tasks)
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))

    def test_second_look_reads_the_cache(self, monkeypatch: pytest.MonkeyPatch):
        first = catalog.harness_catalog()

        def no_scan(*_: object) -> None:
            raise AssertionError("scanned again")

        monkeypatch.setattr(catalog, "scan_folder", no_scan)
        assert catalog.harness_catalog() == first and first["many"].members == ("one",)

    def test_another_version_scans_anew(self, monkeypatch: pytest.MonkeyPatch):
        catalog.harness_catalog()
        write(self.tasks / "more", two="task: two\n")
        monkeypatch.setattr(catalog, "harness_version", lambda: "99.0")
        assert "two" in catalog.harness_catalog()

    @pytest.mark.parametrize("content", ["", "{]", '{"a": 1}', '[["one"]]', "[1, 2]"])
    def test_a_damaged_cache_is_made_again(self, content: str):
        catalog.harness_catalog()
        (path,) = (self.cache / "evalcard").glob("*.json")
        path.write_text(content)
        assert set(catalog.harness_catalog()) == {"one", "many"}
        assert len(json.loads(path.read_text())) == 2

    def test_a_folder_that_cannot_be_written(self):
        (self.cache).write_text("a file where the folder should be")
        assert set(catalog.harness_catalog()) == {"one", "many"}
        assert stat.S_ISREG(self.cache.stat().st_mode)
