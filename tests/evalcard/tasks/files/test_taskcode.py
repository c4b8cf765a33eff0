"""Python that task files name: found without running it, and run only where it is trusted."""

import sys
from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.tasks.files.yamlfile import check_file

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


def code(folder: Path, reference: str, python: str | None = None) -> Path:
    if python is not None:
        file(folder, python, "utils.py")
    return file(folder, GOOD + f"process_docs: !function {reference}\n")


def test_beside_the_file(tmp_path: Path):
    """Case 172: the function's tag is read, and running it needs a word from the user."""
    path = code(tmp_path, "utils.process_docs", "def process_docs(docs):\n    return docs\n")
    check_file(path, trust=True)
    said = message(path)
    assert f"line 6: !function utils.process_docs ({tmp_path / 'utils.py'})" in said and "--trust-task-code" in said


def test_nothing_is_imported_to_find_it(tmp_path: Path):
    """Case 172: no import of unrelated modules, and none at all before the code is trusted."""
    mark = tmp_path / "ran"
    path = code(tmp_path, "utils.f", f"open({str(mark)!r}, 'w')\ndef f(docs): return docs\n")
    before = set(sys.modules)
    check_file(path, trust=True)
    message(path)
    assert not mark.exists() and "utils" not in set(sys.modules) - before


@pytest.mark.parametrize("trust", [True, False])
def test_one_that_does_not_exist(tmp_path: Path, trust: bool):
    said = message(code(tmp_path, "utils.proces_docs", "def process_docs(docs): return docs\n"), trust)
    assert f"t.yaml, line 6: !function utils.proces_docs: {tmp_path / 'utils.py'} has no function" in said
    said = message(file(tmp_path, GOOD + "process_docs: !function nowhere.f\n", "u.yaml"), trust)
    assert f"u.yaml, line 6: !function nowhere.f: there is no file {tmp_path / 'nowhere.py'}" in said
    assert "names no module" in message(file(tmp_path, GOOD + "process_docs: !function f\n", "v.yaml"), trust)


@pytest.mark.parametrize(
    "python",
    ["from os.path import join as f\n", "f = g = len\n",
     "try:\n    import json as f\nexcept ImportError:\n    f = 1\n",
     "if True:\n    def f(docs): return docs\n", "from os.path import *\n", "def __getattr__(name): return len\n",
     "class f: pass\n", "(e, f) = (1, len)\n", "async def f(): pass\n"],
)  # fmt: skip
def test_other_ways_to_have_a_name(tmp_path: Path, python: str):
    check_file(code(tmp_path, "utils.f", python), trust=True)


def test_a_name_inside_a_function_is_none_of_the_modules(tmp_path: Path):
    path = code(tmp_path, "utils.inner", "def outer():\n    def inner(): pass\n")
    assert "has no function 'inner'" in message(path, trust=True)


def test_python_that_is_none(tmp_path: Path):
    said = message(code(tmp_path, "utils.f", "def f(docs):\n  return (\n"), trust=True)
    assert "utils.py, line 2, is no Python" in said


@pytest.mark.parametrize(
    "reference",
    [
        "evalcard.tasks.gpqa.process_docs",
        "lm_eval.api.metrics.mean",
    ],
)
def test_plain_functions_of_evalcard_and_the_harness_need_no_trust(tmp_path: Path, reference: str):
    check_file(code(tmp_path, reference), trust=False)


@pytest.mark.parametrize(
    "reference",
    ["os.system", "subprocess.run", "sys.exit", "builtins.exec", "yaml.unsafe_load",
     "evalcard.tasks.files.factory.load_yaml",
     "lm_eval.tasks._yaml_loader.load_yaml", "evalcard.run.run", "lm_eval.utils.simple_evaluate_user_model",
     "lm_eval.tasks.cruxeval.utils.pass_at_k", "lm_eval.tasks.gpqa.zeroshot.utils.process_docs",
     "lm_eval.api.task.ConfigurableTask", "lm_eval.api.registry.get_metric", "lm_eval.api.metrics._bootstrap_internal",
     "evalcard.tasks.files.factory.Factory"],
)  # fmt: skip
def test_any_other_function_is_code(tmp_path: Path, reference: str):
    """A loader of the harness would run any file its YAML names, its task classes any metric, and its tasks' functions
    run or evaluate what the documents hold; what a module only imports is not its own."""
    assert reference in message(code(tmp_path, reference))


def test_a_folder_with_the_harness_name_is_not_the_harness(tmp_path: Path):
    path = code(tmp_path, "lm_eval.tasks.mine.utils.f")
    file(tmp_path, "def f(docs): return docs\n", "lm_eval/tasks/mine/utils.py")
    assert "--trust-task-code" in message(path)
    check_file(path, trust=True)


def test_all_are_named_at_once(tmp_path: Path):
    path = code(tmp_path, "utils.f", "def f(docs): return docs\ndef g(doc): return doc\n")
    path.write_text(path.read_text() + "doc_to_choice: !function utils.g\n")
    assert "utils.f" in message(path) and "utils.g" in message(path)


@pytest.mark.parametrize(
    "text", ["' lm_eval.api.metrics.mean'", "'lm_eval.api.metrics.mean '", '"lm_eval.api\\tmetrics.mean"']
)
def test_the_name_is_checked_as_the_harness_reads_it(tmp_path: Path, text: str):
    """With a space before it, the module is a file in a folder " lm_eval" beside the task file."""
    file(tmp_path, "def mean(x): return x\n", " lm_eval/api/metrics.py")
    assert "holds a space or another odd character" in message(code(tmp_path, text), trust=True)
