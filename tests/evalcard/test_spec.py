"""RunSpec: strictness, names of runs."""

import re
from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.spec import RunSpec, load_spec, make_spec


def test_known_keys_are_listed_for_unknown_ones_only():
    with pytest.raises(UserError) as error:
        spec_with(limit=1.5)
    assert "a share below 1" in str(error.value) and "Known keys" not in str(error.value)


def test_unknown_key_names_the_known_ones():
    with pytest.raises(UserError, match=r"unknown key 'tsks'.*Known keys: .*tasks"):
        make_spec({"baseline": "org/m", "tasks": "a", "tsks": "b"})


def test_all_faults_in_one_message():
    with pytest.raises(UserError) as caught:
        make_spec({"baseline": "org/m", "tasks": "a", "limit_per_subtask": 0, "x": 1})
    assert "limit_per_subtask" in str(caught.value) and "'x'" in str(caught.value)


@pytest.mark.parametrize("text", ["/data/models/llama", "llama", "a/b/c", "."])
def test_a_base_model_is_a_hub_id(text: str):
    with pytest.raises(UserError, match="base_model.*never a folder"):
        make_spec({"baseline": "org/m", "tasks": "a", "base_model": text})


def test_no_tasks_is_an_error():
    with pytest.raises(UserError, match="tasks"):
        make_spec({"baseline": "org/m", "tasks": ","})


def test_flags_win_over_the_file(tmp_path: Path):
    path = tmp_path / "spec.yaml"
    path.write_text("baseline: org/m\ncompressed: [org/m:w8a8]\ntasks: [a, b]\nnum_fewshot: 5\n")
    spec = load_spec(path, {"num_fewshot": 0})
    assert spec.num_fewshot == 0 and spec.tasks == ("a", "b") and spec.compressed[0].scheme == "w8a8"


@pytest.mark.parametrize("text", ["- a\n", "a: [\n", ""])
def test_spec_that_is_no_mapping(tmp_path: Path, text: str):
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="spec"):
        load_spec(path, {})


def test_missing_spec_file(tmp_path: Path):
    with pytest.raises(UserError, match="cannot read the spec"):
        load_spec(tmp_path / "none.yaml", {})


def test_run_name_ignores_what_changes_no_answer():
    one = make_spec({"baseline": "org/m", "tasks": "a", "out": "x", "threads": 1, "fresh": True})
    two = make_spec({"baseline": "org/m", "tasks": "a"})
    assert make_spec({"baseline": "org/m", "tasks": "a", "weights": "packed"}).run_name == two.run_name
    other = make_spec({"baseline": "org/m", "tasks": "a", "num_fewshot": 1})
    assert one.run_name == two.run_name != other.run_name
    assert one.run_name.startswith("a-") and len(one.run_name) == len("a-") + 8


def test_the_form_of_weights_is_our_engines_business():
    assert spec_with(weights="packed").weights == "packed" and spec_with().weights == "auto"
    with pytest.raises(UserError, match="weights is a choice of the evalcard backend, and backend is vllm"):
        spec_with(weights="packed", backend="vllm")
    assert spec_with(backend="vllm").weights == "auto"
    with pytest.raises(UserError, match="weights: .*got 'tiny'"):
        spec_with(weights="tiny")


def spec_with(**changes: object) -> RunSpec:
    return make_spec({"baseline": "org/m", "tasks": "a", **changes})


@pytest.mark.parametrize("limit", [1, 300, 300.0, 0.1, 0.999])
def test_a_limit_counts_items_or_is_a_share(limit: float):
    assert spec_with(limit=limit).limit == limit


@pytest.mark.parametrize("limit", [1.5, 0, -3, float("inf"), float("nan")])
def test_other_limits_are_refused(limit: float):
    with pytest.raises(UserError, match="limit: "):
        spec_with(limit=limit)


def test_one_limit_at_a_time():
    with pytest.raises(UserError, match=r"limit counts the items of a whole row, .*; give one\.$"):
        spec_with(limit=3, limit_per_subtask=3)


def test_chat_options_need_a_chat_template():
    with pytest.raises(UserError, match="fewshot_as_multiturn needs chat_template"):
        spec_with(fewshot_as_multiturn=True)
    with pytest.raises(UserError, match="chat_template_args needs chat_template"):
        spec_with(chat_template_args={"enable_thinking": "false"})
    assert spec_with(fewshot_as_multiturn=False).fewshot_as_multiturn is False
    assert spec_with(chat_template=True, fewshot_as_multiturn=True).fewshot_as_multiturn


def test_template_arguments_are_read_as_what_they_say():
    given = {"a": "true", "b": "False", "c": "3", "d": "0.5", "e": "low", "f": False, "g": 7}
    found = spec_with(chat_template=True, chat_template_args=given).chat_template_args
    expected = {"a": True, "b": False, "c": 3, "d": 0.5, "e": "low", "f": False, "g": 7}
    assert found == expected and {k: type(v) for k, v in found.items()} == {k: type(v) for k, v in expected.items()}


def test_the_name_of_a_run_goes_with_what_changes_answers():
    names = {spec_with(**one).run_name for one in ({}, {"limit": 3}, {"repeats": 2}, {"temperature": 0.5},
                                                   {"drop_shots": True}, {"chat_template": True})}  # fmt: skip
    assert len(names) == 6
    assert spec_with(limit=300).run_name == spec_with(limit=300.0).run_name


@pytest.mark.parametrize(
    "wrong",
    [{"repeats": 0}, {"temperature": -1}, {"temperature": 1e-30}, {"top_p": 0}, {"top_p": 1.1}, {"min_p": 2}],
)
def test_sampling_out_of_range(wrong: dict[str, float]):
    with pytest.raises(UserError, match=next(iter(wrong))):
        spec_with(**wrong)


def test_the_least_temperature_is_the_engines():
    from evalcard_engine import intake

    assert spec_with(temperature=intake._MIN_TEMPERATURE).temperature == intake._MIN_TEMPERATURE
    with pytest.raises(UserError, match="temperature: must be 0, which is greedy, or from 0.001 to 100, got 0.000999"):
        spec_with(temperature=intake._MIN_TEMPERATURE * 0.999)


def test_a_sweep_is_the_baseline_with_each_scheme():
    spec = make_spec({"baseline": "org/m@v1", "tasks": "a", "sweep": "FP8, w8a8,w4a16,int8,nf4"})
    assert [(model.source, model.revision, model.scheme) for model in spec.compressed] == [
        ("org/m", "v1", scheme) for scheme in ("fp8", "w8a8", "w4a16", "nf4")
    ]


def test_a_sweep_is_another_spelling_of_the_same_run():
    swept = make_spec({"baseline": "org/m", "compressed": ["org/c"], "tasks": "a", "sweep": ["w8a8", "fp8"]})
    spelled = make_spec({"baseline": "org/m", "compressed": ["org/c", "org/m:w8a8", "org/m:fp8"], "tasks": "a"})
    assert swept == spelled and swept.run_name == spelled.run_name
    assert RunSpec.model_validate(swept.model_dump(mode="json")) == swept


def test_a_sweep_in_a_file(tmp_path: Path):
    path = tmp_path / "spec.yaml"
    path.write_text("baseline: {source: org/m, args: {page_size: '8'}}\ntasks: a\nsweep: [w4a16-g64, sparse24+fp8]\n")
    spec = load_spec(path, {})
    assert [model.scheme for model in spec.compressed] == ["w4a16-g64", "sparse24+fp8"]
    assert all(model.args == {"page_size": "8"} for model in spec.compressed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sweep": "w8a8,w9"}, "sweep: unknown scheme 'w9'"),
        ({"sweep": 8}, "sweep is 8; it must be schemes"),
        ({"sweep": "w8a8", "baseline": "org/m:fp8"}, "m:fp8 has one already"),
        ({"sweep": "w8a8", "baseline": None}, "sweep needs a baseline"),
        ({"sweep": "w8a8", "compressed": "org/m:w8a8"}, "org/m:w8a8 is given twice"),
        ({"sweep": "w8a8", "baseline": {"sauce": "x"}}, "baseline.sauce"),
        ({"tsks": "b"}, "Known keys: .*sweep"),
    ],
)
def test_sweeps_that_cannot_be(changes: dict[str, object], message: str):
    with pytest.raises(UserError, match=message):
        make_spec({"baseline": "org/m", "tasks": "a"} | changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"min_recovery": 0.99}, "min_recovery: is in percent, got 0.99; write 99"),
        ({"min_recovery": 1e-9}, "write 0, or a number above 1"),
        ({"min_recovery": 99, "confidence": 0.9999999999999999}, "give a fraction above 0.5 and below 1"),
        ({"min_recovery": 99, "confidence": float("nan")}, "give a fraction"),
        ({"min_recovery": 99, "confidence": 95}, "write 0.95"),
    ],
)
def test_a_fraction_is_no_percentage_and_a_percentage_no_fraction(changes: dict[str, float], said: str):
    with pytest.raises(UserError, match=re.escape(said)):
        spec_with(**changes)
    assert spec_with(min_recovery=0).min_recovery == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("min_recovery: 1:30", "is read as 90 by YAML"),
        ("[" * 20_000, "nested too deeply"),
        ("a: 1\na: 2", "given twice"),
    ],
)
def test_a_spec_is_read_as_it_is_written(text: str, said: str, tmp_path: Path):
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        load_spec(path, {})
