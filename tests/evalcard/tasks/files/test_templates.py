"""Templates give the harness's text, cannot reach Python, and are blamed by task, field, item and variable."""

import json
from pathlib import Path
from typing import Any

import jinja2
import lm_eval.utils
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcard.errors import UserError
from evalcard.tasks.build import build
from evalcard.tasks.files.select import select
from evalcard.tasks.files.templates import render
from evalcard.tasks.prompts.requests import Chat

DOC = {
    "q": " What is {{7 * 7}}?\n", "choices": ["a {% raw %}", "b", "c \u2028 d"], "n": 3, "empty": "", "none": None,
    "row": {"key": "value", "items": [1, 2]}, "html": "<b> & 'x'", "tags": ["x", "y"],
}  # fmt: skip
TEMPLATES = [
    "{{q.strip()}}\nA. {{choices[0]}}\nAnswer:", "{{ q|trim }}\n", "{{ q|upper|replace('WHAT', 'Who') }}",
    "{% for one in choices %}{{ loop.index0 }}{{ 'ABC'[loop.index0] }}. {{ one }}\n{% endfor %}\n",
    "{%- if n > 2 -%} big {%- else -%} small {%- endif -%}\n\n", "{{ q|regex_replace('[0-9]', '#') }}",
    "{% set ns = namespace(t=0) %}{% for i in range(n) %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}",
    "{{ '%s of %03d'|format(n, 9) }} {{ '{:>5}|{!r}'.format(n, empty) }}",
    "{{ row.key }} {{ row['items'][-1] }} {{ none }}",
    "{{ html }}{{ html|e }}", "{{ choices|join(', ') }} {{ choices|length }} {{ (n / 2)|round(1) }} {{ n is odd }}",
    "{{ q.split('?')[0].split()[-1] }}", "{{ ['A', 'B', 'C', 'D'][n] }}", "{# a comment #}{{ tags|sort|last }}\n",
    "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(n) }}", "{{ row.items() | list }}", "{{ choices }}", "{{ dict(a=n) }}",
]  # fmt: skip


@pytest.mark.parametrize("template", TEMPLATES)
def test_texts_equal_the_harness(template: str):
    assert render(template, DOC) == lm_eval.utils.apply_template(template, DOC)


@given(st.text(), st.lists(st.text(), min_size=1), st.integers())
def test_any_data_comes_out_as_the_harness_puts_it(text: str, texts: list[str], number: int):
    doc = {"t": text, "many": texts, "n": number}
    template = "{{t}}|{{many|join('\n')}}|{% for m in many %}{{m.strip()}}{{n}}{% endfor %}\n"
    assert render(template, doc) == lm_eval.utils.apply_template(template, doc)


@pytest.mark.parametrize(
    "template",
    ["{{ q.__class__.__mro__[1].__subclasses__() }}", "{{ q.__class__ }}", "{{ ''.format.__globals__ }}",
     "{{ '{0.__class__}'.format(q) }}", "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
     "{{ lipsum.__globals__['os'] }}", "{{ choices.append('x') }}", "{{ row.update({'a': 1}) }}",
     "{{ range(10**9)|list }}",
     "{% for i in [].__class__.__base__.__subclasses__() %}{% endfor %}"],
)  # fmt: skip
def test_a_template_cannot_reach_python_or_change_the_document(template: str):
    """The harness's own environment renders every one of these but the last two's excess."""
    doc = json.loads(json.dumps(DOC))
    with pytest.raises((jinja2.TemplateError, OverflowError)):
        render(template, doc)
    assert doc == DOC


def task_of(folder: Path, docs: list[dict[str, Any]], **fields: Any) -> Any:
    (folder / "toy" / "t").mkdir(parents=True)
    (folder / "toy" / "t" / "test.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    config = {
        "task": "t", "dataset_path": "toy/t", "test_split": "test", "output_type": "generate_until",
        "doc_to_text": "{{q}}", "doc_to_target": "{{a}}", "generation_kwargs": {"until": ["\n"]}, **fields,
    }  # fmt: skip
    (folder / "t.yaml").write_text(json.dumps(config))
    (task,) = build(select([str(folder / "t.yaml")]), (folder,)).tasks
    task.set_fewshot(None, 1)
    return task


DOCS = [{"id": f"law-{12 + i}", "q": f"Is {i} {{{{a}}}} {{% x %}}?", "a": str(i)} for i in range(3)]


def test_a_description_over_the_document_and_braces_in_data(tmp_path: Path):
    """Case 176: a description is a template, and what it puts in is not rendered again."""
    task = task_of(tmp_path, DOCS, description="Questions on {{id.split('-')[0]}}.\n\n", gen_prefix="So {{q}}:")
    (prompt,) = task.prompts([0], Chat())
    assert prompt.arguments[0][0] == "Questions on law.\n\nIs 0 {{a}} {% x %}? So Is 0 {{a}} {% x %}?:"
    assert task.prompts([2], Chat())[0].arguments[0][0].startswith("Questions on law.\n\nIs 2 {{a}} {% x %}?")


@pytest.mark.parametrize(
    ("fields", "field", "variable"),
    [({"doc_to_text": "{{qq}}"}, "doc_to_text", "'qq' is undefined (did you mean q"),
     ({"doc_to_target": "{{answer}}"}, "doc_to_target", "'answer' is undefined"),
     ({"output_type": "multiple_choice", "doc_to_choice": "{{options}}", "generation_kwargs": None}, "doc_to_choice",
      "'options' is undefined"),
     ({"description": "On {{subject}}."}, "description", "'subject' is undefined"),
     ({"gen_prefix": "{{prefix}}"}, "gen_prefix", "'prefix' is undefined"),
     ({"doc_to_text": "{{q.words}}"}, "doc_to_text", "'str object' has no attribute 'words'"),
     ({"doc_to_text": "{{q"}, "doc_to_text", "no valid template"),
     ({"doc_to_text": "{{q.__class__}}"}, "doc_to_text", "cannot be rendered")],
)  # fmt: skip
def test_a_variable_that_does_not_exist(tmp_path: Path, fields: dict[str, Any], field: str, variable: str):
    with pytest.raises(UserError) as error:
        task = task_of(tmp_path, DOCS, **{key: value for key, value in fields.items() if value is not None})
        task.prompts(range(3), Chat())
    said = str(error.value)
    assert said.startswith(f"task t, item 0: {field} ") and variable in said
    assert "undefined" not in variable or "The document has: id, q, a." in said


def test_one_that_only_a_later_item_lacks_is_said_with_its_id(tmp_path: Path):
    """A missing value is null in the data; a missing key of a nested value exists for other items only."""
    docs = [{"nr": f"law-{i}", "q": "x", "a": "y", "extra": {"k": "v"} if i != 2 else None} for i in range(4)]
    settings = {"version": 1.0, "evalcard": {"id_field": "nr"}}
    task = task_of(tmp_path, docs, doc_to_text="{{q}} {{extra.k.upper()}}", metadata=settings)
    with pytest.raises(UserError, match="task t, item law-2: doc_to_text uses what is not there: 'None' has no"):
        task.prompts(range(4), Chat())


def test_one_of_a_worked_example(tmp_path: Path):
    shots = [{"q": "s", "a": "t"}] * 2
    task = task_of(tmp_path, DOCS, num_fewshot=1, fewshot_config={"samples": shots, "doc_to_text": "{{id}}"})
    with pytest.raises(UserError, match="task t, in a worked example: doc_to_text uses .*'id' is undefined.*: q, a"):
        task.prompts([0], Chat())
