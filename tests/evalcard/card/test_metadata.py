"""Front matter as the Hub's own client reads it."""

import logging
import math
import warnings

import pytest
import yaml

from evalcard.card.metadata import front_matter, metadata, stored_scheme
from evalcard.card.view import card_view
from evalcard.results.records import SourceRecord


@pytest.fixture
def sound_case(make_case):
    """The made-up run without the task whose baseline guesses, so that nothing blocks."""
    run, _ = make_case()
    return make_case(rows=run.rows[:3])


def of(case):
    run, comparison = case
    return metadata(run, comparison, card_view(run, comparison, "toy-1b-w8a8"))


def test_keys(sound_case):
    data = of(sound_case)
    assert data["base_model"] == "acme/toy-1b" and data["base_model_relation"] == "quantized"
    assert data["library_name"] == "transformers" and data["pipeline_tag"] == "text-generation"
    assert data["tags"] == ["evalcard", "w8a8"]
    assert "license" not in data and None not in data.values()


def test_the_model_index_is_in_percent_and_names_data_set_and_subset(sound_case):
    (entry,) = of(sound_case)["model-index"]
    assert entry["name"] == "toy-1b w8a8"
    arc, facts, sums = entry["results"]
    assert arc["dataset"] == {"type": "allenai/ai2_arc", "name": "arc", "config": "ARC-Challenge", "split": "test"}
    assert arc["metrics"] == [{"type": "accuracy", "value": 72.5, "name": "arc (0-shot, acc)"}]
    assert facts["dataset"] == {"type": "facts", "name": "facts"}
    assert sums["dataset"]["name"] == "sums, 40 of 500 (first 40)"
    assert sums["metrics"][0]["value"] == 52.5


def test_tasks_on_one_data_set_share_a_result(make_case):
    run, _ = make_case()
    same = {"dataset": "acme/data", "dataset_config": None, "dataset_split": "test"}
    tasks = [task.model_copy(update=same) for task in run.tasks]
    (entry,) = of(make_case(rows=run.rows[:3], tasks=tasks))["model-index"]
    (result,) = entry["results"]
    assert [metric["name"].split()[0] for metric in result["metrics"]] == ["arc", "facts", "sums"]


def test_a_data_set_that_is_a_path_is_left_out(make_case):
    run, _ = make_case()
    tasks = [run.tasks[0].model_copy(update={"dataset": "/var/data/arc"}), *run.tasks[1:]]
    (entry,) = of(make_case(rows=run.rows[:3], tasks=tasks))["model-index"]
    assert entry["results"][0]["dataset"] == {"type": "arc", "name": "arc"}


def test_a_blocked_comparison_publishes_no_scores(make_case):
    assert "model-index" not in of(make_case())


def test_no_tasks_no_model_index(make_case):
    data = of(make_case(rows=[], tasks=[]))
    assert "model-index" not in data and data["base_model"] == "acme/toy-1b"


def test_local_models_name_no_base_model(sound_case):
    run, comparison = sound_case
    models = [model.model_copy(update={"hub_id": None, "name": "toy"}) for model in run.models]
    data = of((run.model_copy(update={"models": models}), comparison))
    assert "base_model" not in data and "base_model_relation" not in data


def test_the_hub_client_reads_it_without_a_word_and_writes_it_back(sound_case, caplog):
    from huggingface_hub import ModelCard

    run, comparison = sound_case
    text = f"---\n{front_matter(run, comparison, card_view(run, comparison, 'toy-1b-w8a8'))}---\n\n# Title\n"
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        card = ModelCard(text)
    assert caplog.records == []
    assert card.data.model_name == "toy-1b w8a8"
    values = [result.metric_value for result in card.data.eval_results]
    assert values == [72.5, 50.0, 52.5]
    assert all(isinstance(value, float) and math.isfinite(value) for value in values)
    identities = [result.unique_identifier for result in card.data.eval_results]
    assert len(set(identities)) == len(identities)
    again = yaml.safe_load(str(card).split("---")[1])
    assert again == of(sound_case)


def test_words_that_yaml_would_turn_are_quoted(sound_case):
    run, comparison = sound_case
    tasks = [run.tasks[0].model_copy(update={"dataset_config": "no", "dataset_split": "1e3"}), *run.tasks[1:]]
    run = run.model_copy(update={"tasks": tasks})
    loaded = yaml.safe_load(front_matter(run, comparison, card_view(run, comparison, "toy-1b-w8a8")))
    dataset = loaded["model-index"][0]["results"][0]["dataset"]
    assert (dataset["config"], dataset["split"]) == ("no", "1e3")


@pytest.mark.parametrize(
    ("title", "scheme"),
    [
        ("compressed-tensors: w8a8 (int8, per channel)", "w8a8"),
        ("compressed-tensors: w4a16 (int4, groups of 128) in 90, w8a8 (int8) in 30 layers", None),
        ("gguf: Q4_1 (int4, groups of 32, asymmetric)", None),
        (None, None),
    ],
)
def test_a_checkpoint_is_tagged_by_its_one_scheme(title: str | None, scheme: str | None):
    assert stored_scheme(title) == scheme


def test_what_a_model_of_another_program_is_opened_with_is_not_known(make_case):
    run, comparison = make_case(1)
    run = run.model_copy(update={"sources": {model.slug: SourceRecord(program="lm_eval") for model in run.models}})
    view = card_view(run, comparison, run.models[1].slug)
    assert view.is_unread and not (view.usage.with_vllm or view.usage.with_transformers)
    assert "library_name" not in metadata(run, comparison, view)
