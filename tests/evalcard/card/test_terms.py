"""Licence and languages: as said, else as the baseline's files state; never guessed, never what the Hub refuses."""

import yaml

from evalcard.card.metadata import front_matter
from evalcard.card.options import CardOptions
from evalcard.card.terms import Terms, terms_of
from evalcard.card.view import card_view


def with_stated(case, stated):
    run, comparison = case
    models = [run.models[0].model_copy(update={"stated": stated}), *run.models[1:]]
    return run.model_copy(update={"models": models}), comparison


def terms(case, stated, base="acme/toy-1b", **options):
    return terms_of(with_stated(case, stated)[0], CardOptions(**options), base)


def test_nobody_says(make_case):
    assert terms(make_case(), None) == Terms()


def test_the_baseline_states_it(make_case):
    stated = {"license": "llama3.1", "license_link": "LICENSE", "language": ["en", "xx-bad", "de"]}
    link = "https://huggingface.co/acme/toy-1b/blob/main/LICENSE"
    assert terms(make_case(), stated) == Terms("llama3.1", None, link, ("en", "de"), is_stated=True)
    assert terms(make_case(), stated, base=None).link is None


def test_the_users_word_wins(make_case):
    stated = {"license": "mit", "language": "en"}
    assert terms(make_case(), stated, license="gemma", language=["fr"]) == Terms("gemma", languages=("fr",))


def test_what_the_hub_does_not_know_is_not_passed_on(make_case):
    assert terms(make_case(), {"license": "proprietary", "license_name": "x"}) == Terms()
    assert terms(make_case(), {"license": "other", "license_name": "x"}) == Terms()
    whole = {"license": "other", "license_name": "acme-1.0", "license_link": "https://example.org/l"}
    assert terms(make_case(), whole) == Terms("other", "acme-1.0", "https://example.org/l", is_stated=True)


def front(case, **options):
    run, comparison = case
    text = front_matter(run, comparison, card_view(run, comparison, "toy-1b-w8a8", CardOptions(**options)))
    return text, yaml.safe_load(text)


def test_front_matter_has_the_keys_that_have_values(make_case):
    text, data = front(make_case(), license="mit", language=["no"])
    assert data["license"] == "mit" and data["language"] == "no" and "language: 'no'" in text
    assert "license_name" not in data and None not in data.values()
    _, data = front(make_case(), language=["en", "de"])
    assert data["language"] == ["en", "de"] and "license" not in data


def test_the_base_model_of_local_folders_is_asked_for(make_case):
    run, comparison = make_case()
    local = [model.model_copy(update={"hub_id": None, "name": "toy"}) for model in run.models]
    case = run.model_copy(update={"models": local}), comparison
    assert not {"base_model", "base_model_relation"} & front(case)[1].keys()
    data = front(case, base_model="acme/toy")[1]
    assert (data["base_model"], data["base_model_relation"]) == ("acme/toy", "quantized")


def test_a_checkpoint_is_tagged_with_its_format(make_case):
    run, comparison = make_case()
    config = {"quantization_config": {"quant_method": "compressed-tensors"}}
    made = run.models[1].model_copy(update={"config": config, "scheme": None})
    data = front((run.model_copy(update={"models": [run.models[0], made]}), comparison))[1]
    assert data["tags"] == ["evalcard", "compressed-tensors"] and data["library_name"] == "transformers"
    gguf = made.model_copy(update={"config": {"quantization_config": {"quant_method": "gguf"}}})
    assert "library_name" not in front((run.model_copy(update={"models": [run.models[0], gguf]}), comparison))[1]


def test_a_run_without_an_end_publishes_no_scores(make_case):
    run, _ = make_case()
    assert "model-index" in front(make_case(rows=run.rows[:3]))[1]
    assert "model-index" not in front(make_case(rows=run.rows[:3], finished=None))[1]
