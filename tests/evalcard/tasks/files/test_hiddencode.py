"""Values of a task file that lead to Python without saying so."""

from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.tasks.files.catalog import harness_tasks_folder
from evalcard.tasks.files.yamlfile import check_file

GOOD = "task: t\ntest_split: test\ndoc_to_text: '{{q}}'\ndoc_to_target: a\n"


def refused(folder: Path, text: str) -> str:
    path = folder / "t.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="--trust-task-code") as error:
        check_file(path, trust=False)
    check_file(path, trust=True)
    return str(error.value)


@pytest.mark.parametrize(
    "text",
    ["task: t\n<<: {include: inc.yaml}\n", "task: t\n<<: [{repeats: 1}, {<<: {include: inc.yaml}}]\n",
     "metadata: {x: &m {include: inc.yaml}}\ntask: t\n<<: *m\n",
     "group: g\ntask:\n- task: a\n  <<: {include: inc.yaml}\n",
     "group: g\n<<: {task: [{task: a, include: inc.yaml}]}\n",
     "task: t\n<<: {doc_to_text: !function utils.f}\ndoc_to_text: hides it\n"],
)  # fmt: skip
def test_what_a_merge_key_brings_in(tmp_path: Path, text: str):
    (tmp_path / "inc.yaml").write_text("doc_to_text: !function utils.f\n")
    (tmp_path / "utils.py").write_text("def f(doc): return doc\n")
    assert "!function utils.f" in refused(tmp_path, text)


def test_metrics_and_documents_of_a_merge_key(tmp_path: Path):
    assert "metric './m' is a script" in refused(tmp_path, GOOD + "metric_list:\n- <<: {metric: ./m}\n")
    assert "metric './m' is a script" in refused(tmp_path, GOOD + "metric_list:\n- !!merge x: {metric: ./m}\n")
    assert "'pandas' reads pickles" in refused(tmp_path, GOOD + "<<: {dataset_path: pandas}\n")


@pytest.mark.parametrize("text", ["a: &a\n  <<: *a\n", "metadata:\n  <<: {a: 1}\n  <<: {b: 1}\n", "<<: 5\n"])
def test_merges_that_cannot_be(tmp_path: Path, text: str):
    (tmp_path / "t.yaml").write_text(GOOD + text)
    with pytest.raises(UserError, match=r"t\.yaml, line \d+: '<<' "):
        check_file(tmp_path / "t.yaml", trust=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [("dataset_path: webdataset\n", "line 5: dataset_path 'webdataset'"),
     ("dataset_path: ./load.py\n", "line 5: 'dataset_path: ./load.py' lets"),
     ("dataset_path: a/b\ndataset_kwargs: {trust_remote_code: true}\n", "line 6: 'trust_remote_code' lets"),
     ("dataset_path: a/b\nuse_prompt: prompts.yaml:one\n", "line 6: use_prompt 'prompts.yaml:one'")],
)  # fmt: skip
def test_other_ways(tmp_path: Path, text: str, said: str):
    assert said in refused(tmp_path, GOOD + text)


def test_a_shipped_file_with_functions_and_documents_of_ones_own(tmp_path: Path):
    """Its functions evaluate what the documents hold, which are the attacker's then."""
    shipped = harness_tasks_folder() / "cruxeval" / "cruxeval_input.yaml"
    said = refused(tmp_path, f"include: {shipped}\ntask: t\ndataset_path: a/b\nunsafe_code: false\n")
    assert f"line 1: include '{shipped}' brings in Python" in said
