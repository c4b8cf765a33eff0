"""What a card says of a model, and how a model is used: from its config and tensors alone."""

import ast
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from evalcard.card.environment import card_environment
from evalcard.card.options import CardOptions
from evalcard.card.overview import LeftView, overview_of
from evalcard.card.usage import creation_of, usage_of
from evalcard.card.view import card_view
from evalcard.resources import demo_model
from evalcard.results.records import PlainLayers

MIXTRAL = {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 32768, "num_local_experts": 8, "num_experts_per_tok": 2,
    "tie_word_embeddings": False,
}  # fmt: skip


def changed(case, **facts):
    """The case with other facts of its compressed model."""
    run, comparison = case
    model = run.models[1].model_copy(update=facts)
    return run.model_copy(update={"models": [run.models[0], model]}), comparison


def model_of(case, **facts):
    return changed(case, **facts)[0].models[1]


def checkpoint(case, method="compressed-tensors", **facts):
    config = {"quantization_config": {"quant_method": method}} if method else {}
    given = {"scheme": None, "hub_id": "acme/toy-w8a8", "name": "acme/toy-w8a8", "config": config, **facts}
    return changed(case, **given)


def section(case, macro, options=None):
    """What one macro of templates/usage.md.j2 makes of a card."""
    view = card_view(*case, "toy-1b-w8a8", options)
    module = card_environment().get_template("usage.md.j2").module
    return getattr(module, macro)(view if macro == "usage" else view.creation)


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def test_a_mixture_of_experts(make_case):
    own = overview_of(model_of(make_case(), config=MIXTRAL, num_parameters=46_702_792_704))
    assert (own.architecture, own.layers, own.hidden, own.kv_heads) == ("MixtralForCausalLM", "32", "4,096", "8")
    assert (own.experts, own.experts_used) == ("8", "2")
    assert (own.parameters, own.active) == ("46.70 billion", "12.88 billion")


def test_the_text_part_of_a_larger_model_and_odd_values(make_case):
    config = {
        "architectures": [],
        "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 26, "vocab_size": "x"},
    }
    own = overview_of(model_of(make_case(), config=config))
    assert (own.architecture, own.model_type, own.layers, own.vocabulary) == (None, "gemma3_text", "26", None)
    odd = overview_of(model_of(make_case(), config={"num_hidden_layers": True, "num_experts": 4, "model_type": "new"}))
    assert (odd.layers, odd.experts, odd.active) == (None, "4", None)
    assert overview_of(model_of(make_case())).architecture is None


def test_what_stays_in_full_precision(make_case):
    plain = [
        PlainLayers(kind="embed_tokens", count=1, of=1, dtype="bf16"),
        PlainLayers(kind="down_proj", count=2, of=24, dtype="f32"),
        PlainLayers(kind="lm_head", count=1, of=1, dtype="bf16", shares="embed_tokens"),
    ]
    own = overview_of(model_of(make_case(), left_plain=plain))
    assert own.left == (
        LeftView("embed_tokens", "1", "bf16", None),
        LeftView("down_proj", "2 of 24", "f32", None),
        LeftView("lm_head", "1", "bf16", "embed_tokens"),
    )
    assert overview_of(model_of(make_case())).left is None


def test_a_scheme_made_on_the_fly_has_no_snippet_but_evalcards(make_case):
    text = section(make_case(), "usage")
    assert "vllm" not in text.lower() and "transformers" not in text
    (command,) = blocks(text, "bash")
    source = "acme/toy-1b@0123abc"
    assert command == f"evalcard run --baseline {source} --compressed {source}:w8a8 --tasks arc --limit 100\n"
    assert "on at most one hundred items of each task:" in text, "a name may stand for several tasks"


def test_a_checkpoint_is_named_by_the_id_it_is_published_as(make_case):
    case = checkpoint(make_case(), revision="0123abc")
    use = usage_of(case[0], case[0].models[1], CardOptions())
    assert (use.name, use.revision, use.with_vllm, use.needs) == (
        "acme/toy-w8a8",
        "0123abc",
        True,
        "compressed-tensors",
    )
    use = usage_of(case[0], case[0].models[1], CardOptions(repo="me/other"))
    assert (use.name, use.revision) == ("me/other", None) and "--baseline me/other --tasks" in use.command
    local = checkpoint(make_case(), hub_id=None, name="toy-w8a8", revision=None)
    assert "is the folder with the weights" in section(local, "usage")
    assert "is the folder" not in section(local, "usage", CardOptions(repo="me/other"))


def test_a_repository_is_that_of_one_model(make_case):
    run, _ = make_case(2)
    models = [run.models[0], *(one.model_copy(update={"scheme": None}) for one in run.models[1:])]
    run = run.model_copy(update={"models": models})
    assert usage_of(run, run.models[1], CardOptions(repo="me/other")).name == "acme/toy-1b"


@pytest.mark.parametrize(
    ("method", "vllm", "transformers"),
    [(None, 1, 1), ("compressed-tensors", 1, 1), ("gptq", 1, 1), ("modelopt", 1, 0), ("quark", 0, 0), ("gguf", 0, 0)],
)
def test_only_programs_that_read_the_format_are_named(make_case, method, vllm, transformers):
    title = "gguf: q4_0" if method == "gguf" else None
    text = section(checkpoint(make_case(), method, scheme_title=title), "usage")
    assert (text.count("from vllm"), text.count("from transformers")) == (vllm, transformers)
    assert "evalcard run --baseline acme/toy-w8a8" in text


@pytest.mark.parametrize("name", ["acme/toy-w8a8", 'odd"name\\', "a`b"])
@pytest.mark.parametrize("is_chat", [False, True])
def test_the_vllm_snippet_runs(make_case, monkeypatch, name, is_chat):
    """Against a stand-in with the two calls' own parameters."""
    run, _ = make_case()
    tasks = [task.model_copy(update={"chat_template": is_chat}) for task in run.tasks]
    resolved = run.resolved | {"max_model_len": 4096}
    case = checkpoint(make_case(tasks=tasks, resolved=resolved), hub_id=None, name=name, scheme="kv=fp8", revision=None)
    asked = {}

    class LLM:
        def __init__(self, model, kv_cache_dtype="auto", max_model_len=None):
            asked.update(model=model, kv=kv_cache_dtype, longest=max_model_len)

        def generate(self, prompts, sampling_params=None):
            asked.update(prompts=prompts, sampling=sampling_params)
            return [types.SimpleNamespace(outputs=[types.SimpleNamespace(text="blue")])]

        chat = generate

    stand_in = types.ModuleType("vllm")
    stand_in.LLM, stand_in.SamplingParams = LLM, dict
    monkeypatch.setitem(sys.modules, "vllm", stand_in)
    (snippet,) = [one for one in blocks(section(case, "usage"), "python") if "vllm" in one]
    exec(compile(snippet, "snippet", "exec"), {"__name__": "__main__"})  # noqa: S102 - it is what readers do
    assert (asked["model"], asked["kv"], asked["longest"]) == (name, "fp8", 4096)
    assert asked["sampling"] == {"temperature": 0, "max_tokens": 128}
    assert isinstance(asked["prompts"][0], dict if is_chat else str)


def test_the_transformers_snippet_runs(make_case, tmp_path):
    """As a reader would run it, beside the folder with the weights."""
    (tmp_path / "toy").symlink_to(demo_model(), target_is_directory=True)
    case = checkpoint(make_case(), None, hub_id=None, name="toy", revision=None)
    (snippet,) = [one for one in blocks(section(case, "usage"), "python") if "transformers" in one]
    ast.parse(snippet)
    snippet = snippet.replace("max_new_tokens=128", "max_new_tokens=4")
    done = subprocess.run(
        [sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


RECIPE = "made_by: evalcard quantize\nmethod: rtn\nscheme: w8a8\nmodel: acme/toy-1b\nrevision: 0123abc\n"


def test_a_recipe_of_ours_is_a_command(make_case):
    case = checkpoint(make_case(), recipe=RECIPE)
    made = creation_of(case[0], case[0].models[1])
    assert made.command == "evalcard quantize acme/toy-1b@0123abc --scheme w8a8 --out toy-w8a8"
    text = section(case, "creation")
    assert RECIPE in text and '"quant_method": "compressed-tensors"' in text


def test_a_calibrated_recipe_and_a_strange_one_are_only_shown(make_case):
    case = checkpoint(make_case(), recipe=RECIPE.replace("rtn", "gptq"))
    made = creation_of(case[0], case[0].models[1])
    assert made.made_by_evalcard and made.command is None
    for recipe in (
        "quant_stage:\n  x: [",
        "- 1",
        "made_by: me\nmethod: rtn\nmodel: x\nscheme: w8a8",
        "````\n<!-- evalcard:end -->",
    ):
        case = checkpoint(make_case(), recipe=recipe)
        assert creation_of(case[0], case[0].models[1]).command is None
        assert "<!-- evalcard" not in section(case, "creation")
    assert creation_of(make_case()[0], make_case()[0].models[1]) is None


def test_no_path_in_recipe_or_config(make_case):
    config = {"quantization_config": {"quant_method": "gptq", "dataset": "/mnt/secret/texts.jsonl"}}
    case = checkpoint(make_case(), recipe="data: /mnt/secret/calib.jsonl\n", config=config)
    text = section(case, "creation")
    assert "secret" not in text and "calib.jsonl" in text and "texts.jsonl" in text
    assert Path("/mnt").as_posix() not in text
