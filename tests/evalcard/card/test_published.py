"""Names that the user says models have on the Hub, beside those that they were measured under."""

from evalcard.card.environment import card_environment
from evalcard.card.metadata import metadata
from evalcard.card.options import CardOptions
from evalcard.card.view import card_view


def published(case, baseline, model, repo="me/x", base="acme/big"):
    """The case's card where both models were measured from folders."""
    run, comparison = case
    models = [run.models[0].model_copy(update={"hub_id": None, "revision": None, **baseline}),
              run.models[1].model_copy(update={"hub_id": None, "revision": None, "scheme": None, **model})]  # fmt: skip
    run = run.model_copy(update={"models": models})
    view = card_view(run, comparison, "toy-1b-w8a8", CardOptions(repo=repo, base_model=base))
    module = card_environment().get_template("overview.md.j2").module
    return run, comparison, view, str(module.overview(view))


def test_a_published_folder_has_the_repositorys_name_all_over(make_case):
    run, comparison, view, text = published(make_case(), {"name": "big"}, {"name": "big-w8a8"})
    assert view.model.title == "x"
    assert view.folders == (("big", "acme/big"), ("big-w8a8", "me/x"))
    assert "- **Checkpoint:** [`me/x`](https://huggingface.co/me/x), measured from a local folder" in text
    said = "[`acme/big`](https://huggingface.co/acme/big) (as the card's author states), measured from a local folder"
    assert f"- **Baseline:** {said}" in text and "Base model" not in text
    reproduce = card_environment().get_template("reproduce.md.j2").module.commands(view.settings, view.folders)
    assert "part only: `big` stands for one with `acme/big`, `big-w8a8` stands for one with `me/x`." in reproduce
    assert "--compressed acme/toy-1b:w8a8" not in reproduce and "me/x" not in view.settings.command
    sound = comparison.model_copy(update={"health": []})
    (index,) = metadata(run, sound, card_view(run, sound, "toy-1b-w8a8", CardOptions(repo="me/x")))["model-index"]
    assert index["name"] == "x"


def test_a_repository_is_said_beside_the_id_that_was_measured(make_case):
    named = {"name": "acme/toy-w8a8", "hub_id": "acme/toy-w8a8", "revision": "0123abc"}
    _, _, view, text = published(make_case(), {"hub_id": "acme/toy-1b"}, named)
    assert "/me/x), measured as [`acme/toy-w8a8`](https://huggingface.co/acme/toy-w8a8), revision `0123abc`" in text
    assert "- **Base model:** [`acme/big`](https://huggingface.co/acme/big) (as the card's author states)" in text
    assert view.folders == ()
    same = published(make_case(), {"hub_id": "acme/toy-1b"}, named, "acme/toy-w8a8", "acme/toy-1b")[3]
    assert "measured as" not in same and "author states" not in same


def test_a_compressed_baseline_is_not_taken_for_the_base_model(make_case):
    config = {"quantization_config": {"quant_method": "gptq"}}
    _, _, view, text = published(make_case(), {"name": "big-gptq", "config": config}, {"name": "big-w8a8"})
    assert "- **Baseline:** `big-gptq` (a local folder)" in text and "- **Base model:** [`acme/big`]" in text
    assert view.folders == (("big-w8a8", "me/x"),)


def test_folders_of_one_name_are_not_explained(make_case):
    first, second = {"name": "m", "weights_digest": "a"}, {"name": "m", "weights_digest": "b"}
    assert published(make_case(), first, second)[2].folders == ()
    _, _, view, _ = published(make_case(), first, {"name": "m", "weights_digest": "a+w8a8", "scheme": "w8a8"})
    assert view.folders == (("m", "acme/big"),) and view.model.title == "m w8a8"
