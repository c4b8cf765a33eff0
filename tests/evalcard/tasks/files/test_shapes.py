"""Values of the wrong kind are said with file and line."""

from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.tasks.files.yamlfile import check_file

GOOD = "task: t\ndataset_path: a/b\ntest_split: test\ndoc_to_text: '{{q}}'\ndoc_to_target: a\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [("num_fewshot: -1", "'num_fewshot:' takes a whole number from 0; got '-1'"),
     ("metadata: 5", "'metadata:' takes a mapping of keys such as version; got '5'"),
     ("class: evil.f", "'class:' takes !function FILE.CLASS; got 'evil.f'"),
     ("include: [[b.yaml]]", "'include:' takes the path of a YAML file"),
     ("include: 5", "'include:' takes the path of a YAML file"),
     ("generation_kwargs: 5", "'generation_kwargs:' takes a mapping such as {until"),
     ("metric_list: {metric: acc}", "'metric_list:' takes a list of mappings"),
     ("process_docs: utils.f", "'process_docs:' takes !function FILE.FUNCTION; got 'utils.f'")],
)  # fmt: skip
def test_values_of_the_wrong_kind(tmp_path: Path, text: str, said: str):
    path = tmp_path / "t.yaml"
    path.write_text(GOOD + text + "\n")
    with pytest.raises(UserError) as error:
        check_file(path, trust=True)
    assert f"{path}, line 6: {said}" in str(error.value)


def test_values_of_the_right_kind_and_none(tmp_path: Path):
    path = tmp_path / "t.yaml"
    path.write_text(GOOD + "num_fewshot: 0\nrepeats: 10\nmetadata: [{version: 1.0}]\ngeneration_kwargs:\n")
    check_file(path, trust=False)
