"""What lies beside the weights, without any place on this machine."""

import json
from pathlib import Path

import pytest

from evalcard.backends.backend import Description
from evalcard.backends.described import described, described_files, without_places
from evalcard.backends.inspect import left_plain, look_into
from evalcard.modelspec import ModelSpec, parse_model
from evalcard_engine.inspection import Layer
from evalcard_engine.quant.scheme import parse_scheme


def files(folder: Path, **contents: str) -> Path:
    for name, text in contents.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


def test_config_without_paths(tmp_path):
    config = {
        "_name_or_path": "/home/someone/llama", "model_type": "llama", "rope_scaling": None, "num_hidden_layers": 2,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "id2label": {"0": "a"},
        "quantization_config": {"quant_method": "gptq", "dataset": ["/data/c4.jsonl", "wikitext2"],
                                "ignore": ["lm_head", "re:.*mlp/gate.*"], "tokenizer": "./tok"},
        "auto_map": {"AutoModel": "acme/code--modeling.Toy"},
    }  # fmt: skip
    kept = described_files(files(tmp_path, config_json=json.dumps(config))).config
    assert kept == {
        "model_type": "llama", "rope_scaling": None, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "quantization_config": {"quant_method": "gptq", "dataset": ["wikitext2"],
                                "ignore": ["lm_head", "re:.*mlp/gate.*"]},
        "auto_map": {"AutoModel": "acme/code--modeling.Toy"},
    }  # fmt: skip


@pytest.mark.parametrize("place", ["/a/b", "~/x", "./rel", "../up/x", r"C:\Users\me", "file:///a/b", "see '/mnt/x y'"])
def test_places(place):
    assert without_places({"x": place, "y": 1}) == {"y": 1}


@pytest.mark.parametrize("word", ["https://example.org/a/b", "acme/toy", "and/or", "re:.*/x", "", "a: b"])
def test_what_is_no_place(word):
    assert without_places([word]) == [word]


def test_a_recipe_keeps_its_words_and_loses_its_places(tmp_path):
    text = "data: /home/someone/calib.jsonl\nmodel: acme/toy\nurl: https://example.org/a/b\npath=C:\\Users\\me\\x.txt\n"
    recipe = described_files(files(tmp_path, recipe_yaml=text)).recipe
    assert recipe == "data: calib.jsonl\nmodel: acme/toy\nurl: https://example.org/a/b\npath=x.txt\n"


def test_what_the_readme_states(tmp_path):
    keys = "license: other\nlicense_name: acme-1.0\nlicense_link: /home/me/LICENSE\nlanguage: [en, de]\ntags: [x]"
    front = f"---\n{keys}\n---\n# x"
    assert described_files(files(tmp_path, README_md=front)).stated == {
        "license": "other", "license_name": "acme-1.0", "language": ["en", "de"],
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "# no front matter\nlicense: mit", "---\n: [\n---\n", "---\n- a\n---\n", "---\nlanguage: no\n---\n"]
)
def test_a_readme_that_states_nothing(tmp_path, text):
    assert described_files(files(tmp_path, README_md=text)).stated is None


def test_an_empty_folder_and_files_that_cannot_be_read(tmp_path):
    assert described_files(tmp_path) == described_files(None) == Description()
    (tmp_path / "config.json").write_bytes(b"\xff{")
    (tmp_path / "recipe.yaml").write_text("x" * 30_000, encoding="utf-8")
    assert described_files(tmp_path) == Description()


def test_a_hub_model_that_was_never_fetched(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert described(ModelSpec(source="acme/not-there")) == Description()
    assert described(ModelSpec(source=str(tmp_path / "nowhere"))) == Description()


def layer(name: str, scheme: str | None = None, tied_to: str | None = None) -> Layer:
    return Layer(name, (8, 8), scheme, "" if scheme else "BF16", 64, tied_to)


LAYERS = [layer("model.embed_tokens"), layer("model.layers.0.mlp.up_proj"), layer("model.layers.1.mlp.up_proj"),
          layer("lm_head")]  # fmt: skip


@pytest.mark.parametrize(
    ("scheme", "left"),
    [
        (None, None),
        ("kv=fp8", None),
        ("w8a8", [("embed_tokens", 1, 1), ("lm_head", 1, 1)]),
        ("w4a16+head=w8", [("embed_tokens", 1, 1)]),
    ],
)
def test_what_a_scheme_leaves(scheme, left):
    found = left_plain(LAYERS, parse_scheme(scheme) if scheme else None)
    assert (found if found is None else [(one.kind, one.count, one.of) for one in found]) == left


def test_what_a_checkpoint_left():
    layers = [
        LAYERS[0],
        layer("model.layers.0.mlp.up_proj", "w8a8"),
        LAYERS[2],
        layer("lm_head", tied_to="model.embed_tokens"),
    ]
    told = left_plain(layers, None)
    assert [(one.kind, one.count, one.of, one.dtype, one.shares) for one in told] == [
        ("embed_tokens", 1, 1, "bf16", None), ("up_proj", 1, 2, "bf16", None),
        ("lm_head", 1, 1, "bf16", "embed_tokens"),
    ]  # fmt: skip


def test_the_demo_model_with_a_scheme():
    words, told = look_into(parse_model("@demo:w8a8"))
    assert words is None and told.config["model_type"] == "llama" and told.stated["license"] == "apache-2.0"
    assert [one.kind for one in told.left_plain] == ["embed_tokens", "lm_head"]
