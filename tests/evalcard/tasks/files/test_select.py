"""What is asked for under --tasks is found: ours first, the harness's, patterns, files."""

import subprocess
import sys
from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.tasks.files import catalog
from evalcard.tasks.files import select as files


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_ours_first_and_the_harness_by_force(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    ours = write(tmp_path, gsm8k="task: gsm8k\n")
    monkeypatch.setattr(catalog, "task_files", lambda: ours)
    (plain,) = files.select(["gsm8k"])
    (forced,) = files.select(["lm_eval/gsm8k"])
    assert (plain.source, forced.source) == ("evalcard", "lm_eval")
    assert plain.file.path == str(ours / "gsm8k.yaml") and "lm_eval" in str(forced.file.path)
    assert forced.catalog["gsm8k"] == forced.file


def test_a_task_of_our_groups_is_asked_alone_as_in_the_group():
    subject, forced, other = files.select(["mmlu_anatomy", "lm_eval/mmlu_anatomy", "gsm8k"])
    assert subject.source == "lm_eval" and subject.group is not None and subject.group.name == "mmlu_stem"
    assert forced.group is None and other.group is None


def test_a_path_sees_its_own_folder(tmp_path: Path):
    write(tmp_path, team="group: team\ntask: [leaf]\n", leaf="task: leaf\n")
    (found,) = files.select([str(tmp_path / "team.yaml")])
    assert found.source == "file" and found.file.kind == "group" and "leaf" in found.catalog


def test_a_data_file_is_a_task(tmp_path: Path):
    path = tmp_path / "invoices.jsonl"
    path.write_text('{"question": "1 + 1?", "answer": "2"}\n')
    plain, judged = files.select([str(path), f"{path}:contains"])
    assert (plain.file.name, plain.file.kind, plain.source) == ("invoices", "data", "file")
    assert plain.data is not None and plain.data.path == path and plain.data.judge is None
    assert judged.data is not None and judged.data.judge == "contains"


def test_patterns():
    found = files.select(["lm_eval/mmlu_*_law"])
    assert {"mmlu_international_law", "mmlu_professional_law"} <= {one.file.name for one in found}
    assert all(one.group is None for one in found)
    (law,) = [one for one in files.select(["mmlu_*_law"]) if one.file.name == "mmlu_professional_law"]
    assert law.group is not None and law.group.name == "mmlu_humanities"


def test_unknown_names_come_in_one_message():
    with pytest.raises(UserError) as error:
        files.select(["gsm8kk", "demo", "hellaswagg"])
    assert "'gsm8kk' (did you mean gsm8k" in str(error.value) and "'hellaswagg'" in str(error.value)
    assert "evalcard list" in str(error.value) and "'demo'" not in str(error.value)


def test_files_that_are_no_tasks(tmp_path: Path):
    write(tmp_path, nothing="output_type: generate_until\n")
    with pytest.raises(UserError, match="names no task"):
        files.select([str(tmp_path / "nothing.yaml")])
    with pytest.raises(UserError, match="no task file"):
        files.select([str(tmp_path / "missing.yaml")])


def test_a_file_that_is_no_yaml_is_said_with_its_line(tmp_path: Path):
    """The scan, as the harness's, sees only that it names a task."""
    write(tmp_path, broken="task: broken\ndoc_to_text: 'never closed\nmetric_list: [\n")
    with pytest.raises(UserError, match=r"broken\.yaml, line \d+, column \d+: this is no YAML"):
        files.select([str(tmp_path / "broken.yaml")])


def test_a_file_written_as_json_on_one_line(tmp_path: Path):
    write(tmp_path, t='{"dataset_path": "a/b", "task": "inner"}', g='{"task": ["inner"], "group": "team"}')
    one, two = files.select([str(tmp_path / "t.yaml"), str(tmp_path / "g.yaml")])
    assert (one.file.name, one.file.kind, two.file.name, two.file.kind) == ("inner", "task", "team", "group")


def test_a_broken_neighbour_does_not_matter(tmp_path: Path):
    write(tmp_path, broken="task: broken\nx: [\n", fine="task: fine\n")
    assert files.select([str(tmp_path / "fine.yaml")])[0].file.name == "fine"


def test_of_two_files_of_one_name_the_asked_path_wins(tmp_path: Path):
    write(tmp_path, a="task: same\n", b="task: same\ntag: t\n", c="group: same\ntask: [other]\n", d="task: other\n")
    for name, kind in (("a", "task"), ("b", "task"), ("c", "group")):
        (found,) = files.select([str(tmp_path / f"{name}.yaml")])
        assert (found.file.name, found.file.kind) == ("same", kind)
        assert found.file.path == str(tmp_path / f"{name}.yaml") and found.catalog["same"] == found.file


def test_two_files_of_one_name(tmp_path: Path):
    """A group that lists its own name means the other file, and a name stands for one of them."""
    write(tmp_path, a="task: same\n", b="group: same\ntask: [same]\n")
    with pytest.raises(UserError, match="two task files in one folder have the name same"):
        files.select([str(tmp_path / "b.yaml")])


def test_every_listed_name_can_be_asked_for():
    names = files.list_names()
    assert "my_task" not in names and {"mmlu", "reasoning", "gsm8k", "hellaswag"} <= set(names)
    assert len(names) == len(set(names)) and names.index("reasoning") < names.index("hellaswag")
    assert {one.file.name for one in files.select(names[:40])} == set(names[:40])


def test_names_need_neither_torch_nor_the_harness():
    code = (
        "import sys; from evalcard.tasks.files.select import select, list_names;"
        "select(['demo', 'mmlu', 'mmlu_anatomy']);"
        "list_names();"
        "print({n.partition('.')[0] for n in sys.modules} & {'torch', 'transformers', 'lm_eval', 'datasets', 'numpy',"
        " 'pandas'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()", done.stdout
