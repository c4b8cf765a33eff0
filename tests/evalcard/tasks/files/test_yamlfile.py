"""Faults of task files are named with file and line, and code beside them runs only when it is trusted."""

from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.resources import task_files
from evalcard.tasks.files.catalog import harness_tasks_folder
from evalcard.tasks.files.yamlfile import check_file
from evalcard.tasks.files.yamlnodes import read_nodes

GOOD = "task: t\ndataset_path: a/b\ntest_split: test\ndoc_to_text: '{{q}}'\ndoc_to_target: a\n"


def file(folder: Path, text: str, name: str = "t.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def message(path: Path, trust: bool = False) -> str:
    with pytest.raises(UserError) as error:
        check_file(path, trust)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [("task: t\ndoc_to_text: 'open\n", 3), ("task: t\n\tdoc: x\n", 2), ("task: t\na: b: c\n", 2),
     ("task: t\nmetric_list: [a, b\nrepeats: 1\n", 3), ("task: *nobody\n", 1), ("a: 1\n---\nb: 2\n", 2)],
)  # fmt: skip
def test_what_is_no_yaml(tmp_path: Path, text: str, line: int):
    with pytest.raises(UserError, match=rf"t\.yaml, line {line}, column \d+: this is no YAML: \w+"):
        read_nodes(file(tmp_path, text))


def test_what_was_never_closed_is_said_where_it_began(tmp_path: Path):
    with pytest.raises(UserError, match=r"t\.yaml, line 4, .* \(in what begins in line 2\)"):
        read_nodes(file(tmp_path, "task: t\ndoc_to_text: 'open\ntest_split: test\n"))


@pytest.mark.parametrize(("text", "found"), [("", "nothing"), ("# only a comment\n", "nothing"), ("- a\n", "a list"),
                                             ("just text\n", "a single value")])  # fmt: skip
def test_what_is_no_mapping(tmp_path: Path, text: str, found: str):
    with pytest.raises(UserError, match=rf"t\.yaml, line 1: .*mapping of keys.*found {found}"):
        read_nodes(file(tmp_path, text))


def test_bytes_that_are_no_text_and_endless_nesting(tmp_path: Path):
    (tmp_path / "latin.yaml").write_bytes("task: t\ndescription: caf\u00e9\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.yaml, line 2: not UTF-8"):
        read_nodes(tmp_path / "latin.yaml")
    with pytest.raises(UserError, match="no YAML"):
        read_nodes(file(tmp_path, "a: " + "[" * 20_000))
    with pytest.raises(UserError, match=r"cannot read the task file .*gone\.yaml"):
        read_nodes(tmp_path / "gone.yaml")


def test_a_good_file_and_its_byte_order_mark(tmp_path: Path):
    check_file(file(tmp_path, GOOD), trust=False)
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    check_file(tmp_path / "bom.yaml", trust=False)


def test_a_key_given_twice(tmp_path: Path):
    """The harness takes the last one and says nothing."""
    path = file(tmp_path, GOOD + "num_fewshot: 5\ngeneration_kwargs:\n  until: a\n  until: b\nnum_fewshot: 0\n")
    said = message(path)
    assert f"{path}, line 10: the key 'num_fewshot' is already given in line 6" in said
    assert f"{path}, line 9: the key 'until' is already given in line 8" in said


def test_a_key_given_twice_in_one_line(tmp_path: Path):
    said = message(file(tmp_path, GOOD + "generation_kwargs: {until: a, until: b}\n"))
    assert "line 6: the key 'until' is already given in line 6" in said


def test_keys_that_are_no_text(tmp_path: Path):
    said = message(file(tmp_path, GOOD + "? [a, b]\n: 1\n5: x\n"))
    assert "line 6: unknown key '<SequenceNode>'" in said and "line 8: unknown key '5'" in said


def test_an_unknown_key_with_its_line_and_what_was_meant(tmp_path: Path):
    said = message(file(tmp_path, GOOD + "num_fewshots: 5\n"))
    assert "t.yaml, line 6: unknown key 'num_fewshots' (did you mean num_fewshot" in said


def test_keys_of_a_group_and_of_the_tasks_written_in_it(tmp_path: Path):
    fine = "group: g\nnum_fewshot: 2\ntask:\n- one\n- task: two\n  dataset_path: a/b\n- group: inner\n  task: [three]\n"
    check_file(file(tmp_path, fine, "fine.yaml"), trust=False)
    path = file(tmp_path, fine.replace("dataset_path", "dataset_pfad") + "aggregate_metrics: []\n")
    said = message(path)
    assert "line 6: unknown key 'dataset_pfad'" in said and "line 9: unknown key 'aggregate_metrics'" in said


def test_keys_under_evalcard(tmp_path: Path):
    said = message(file(tmp_path, GOOD + "metadata:\n  evalcard:\n    judge: math\n    change: 0.25\n"))
    assert "line 9: unknown key 'change' under 'metadata: evalcard:' (did you mean chance" in said


def test_a_class_takes_what_it_likes(tmp_path: Path):
    path = file(tmp_path, "task: t\nclass: !function mine.Task\nanything: 1\n")
    file(tmp_path, "class Task: pass\n", "mine.py")
    check_file(path, trust=True)
    assert "!function mine.Task" in message(path)


def test_anchors_merge_keys_and_a_loop_of_aliases(tmp_path: Path):
    check_file(file(tmp_path, GOOD + "dataset_kwargs: &k {a: 1}\nmetadata:\n  <<: *k\n  b: *k\n"), trust=False)
    check_file(file(tmp_path, GOOD + "metadata: &m\n  again: *m\n"), trust=False)


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system ['true']", "!include x.yaml"])
def test_other_tags_are_refused(tmp_path: Path, tag: str):
    assert "line 6: unknown tag" in message(file(tmp_path, GOOD + f"metadata: {tag}\n"), trust=True)


class TestIncludes:
    def test_faults_of_an_included_file_are_its_own(self, tmp_path: Path):
        path = file(tmp_path, "include: parts/base.yaml\n" + GOOD)
        file(tmp_path, "fewshot_splits: dev\n", "parts/base.yaml")
        assert f"{tmp_path / 'parts' / 'base.yaml'}, line 1: unknown key 'fewshot_splits'" in message(path)

    def test_one_that_does_not_exist(self, tmp_path: Path):
        said = message(file(tmp_path, GOOD + "include:\n- ../_template.yaml\n"))
        assert f"line 7: include '../_template.yaml': there is no file {tmp_path.parent / '_template.yaml'}" in said

    def test_one_inside_a_groups_list(self, tmp_path: Path):
        said = message(file(tmp_path, "group: g\ntask:\n- task: x\n  include: base.yaml\n"))
        assert "line 4: include 'base.yaml': there is no file" in said

    def test_a_circle(self, tmp_path: Path):
        path = file(tmp_path, "include: b.yaml\n" + GOOD)
        file(tmp_path, "include: t.yaml\n", "b.yaml")
        assert "b.yaml, line 1: include 't.yaml' leads back" in message(path)

    def test_the_same_file_by_two_ways_is_no_circle(self, tmp_path: Path):
        path = file(tmp_path, "include: [a.yaml, b.yaml]\n" + GOOD)
        for name in ("a.yaml", "b.yaml"):
            file(tmp_path, "include: base.yaml\n", name)
        file(tmp_path, "repeats: 1\n", "base.yaml")
        check_file(path, trust=False)

    def test_code_reached_by_an_include_needs_trust_too(self, tmp_path: Path):
        path = file(tmp_path, "include: parts/base.yaml\n" + GOOD)
        file(tmp_path, "process_docs: !function utils.f\n", "parts/base.yaml")
        file(tmp_path, "def f(docs): return docs\n", "parts/utils.py")
        said = message(path)
        assert f"base.yaml, line 1: !function utils.f ({tmp_path / 'parts' / 'utils.py'})" in said
        assert "--trust-task-code" in said
        check_file(path, trust=True)


def test_code_that_does_not_look_like_any(tmp_path: Path):
    """The evaluate library runs the script a metric's name leads to, and a pickle runs what it likes."""
    metric = file(tmp_path, GOOD + "metric_list:\n- metric: ./mine\n  hf_evaluate: true\n", "m.yaml")
    assert "line 7: metric './mine' is a script" in message(metric)
    pickled = file(tmp_path, GOOD.replace("a/b", "pandas"), "p.yaml")
    assert "line 2: dataset_path 'pandas' reads pickles" in message(pickled)
    for path in (metric, pickled):
        check_file(path, trust=True)


def test_a_metric_of_the_harness_is_none_though_a_folder_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("exact_match", "strange"):
        (tmp_path / name).mkdir()
    path = file(tmp_path, GOOD + "metric_list:\n- metric: exact_match\n")
    check_file(path, trust=False)
    path.write_text(path.read_text() + "  hf_evaluate: true\n- metric: strange\n")
    said = message(path)
    assert "line 7: metric 'exact_match'" in said and "line 9: metric 'strange'" in said


def test_what_ships_is_taken_as_it_is():
    check_file(harness_tasks_folder() / "gpqa" / "zeroshot" / "gpqa_diamond_zeroshot.yaml", trust=False)
    check_file(task_files() / "reasoning" / "gpqa_diamond.yaml", trust=False)


@pytest.mark.parametrize("path", sorted(task_files().glob("**/*.yaml")), ids=lambda path: path.stem)
def test_our_own_files_would_pass_as_a_users(path: Path, tmp_path: Path):
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    check_file(copy, trust=False)
