"""Our engine's view of checkpoints as evalcard uses it: kinds of layers, and the words that a card prints."""

import json
from pathlib import Path

import pytest
from safetensors.torch import save_file
from transformers import Gemma3Config, Gemma3ForCausalLM, Gemma3TextConfig

from evalcard.backends.embedded import EmbeddedBackend
from evalcard.backends.inspect import calibrated_settings, inspect_model, kind_rows, look_into
from evalcard.errors import UserError
from evalcard.evaluate import evaluate
from evalcard.modelspec import ModelSpec
from evalcard.progress import Silent
from evalcard.quantize import Job, quantize
from evalcard.results.store import RunFolder
from evalcard.tasks.prepare import prepare


@pytest.fixture
def compressed(tiny_model: Path, tmp_path: Path) -> ModelSpec:
    out = tmp_path / "compressed"
    quantize(Job(ModelSpec(source=str(tiny_model)), "w8a8", out), Silent())
    return ModelSpec(source=str(out))


def test_layers_that_are_stored_alike_share_a_row(compressed: ModelSpec):
    rows = {row.kind: row for row in kind_rows(inspect_model(compressed))}
    assert list(rows) == ["embed_tokens", "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
                          "lm_head"]  # fmt: skip
    assert rows["down_proj"].names == ("model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj")
    assert (rows["q_proj"].count, rows["q_proj"].of, rows["q_proj"].is_compressed) == (2, 2, True)
    assert rows["down_proj"].bits_per_weight == round(8 + 32 / 96, 4)  # int8 and a float32 scale a row of 96
    assert (rows["lm_head"].stored, rows["lm_head"].inputs, rows["lm_head"].is_compressed) == ("F32", None, False)


def test_a_scheme_that_is_in_no_file():
    with pytest.raises(UserError, match="doctor looks at files.*:w8a8.*evalcard quantize"):
        inspect_model(ModelSpec(source="org/m", scheme="w8a8"))


def test_settings_of_a_calibration(tiny_model: Path):
    found = calibrated_settings(ModelSpec(source=str(tiny_model)), "w4a16", ["re:.*o_proj"])
    assert found.folder == tiny_model and found.max_positions == 512 and found.ignore == ("re:.*o_proj", "lm_head")
    sizes = [group["weights"]["group_size"] for group in found.config_groups.values()]
    assert sizes == [64, 96] and found.config_groups["group_1"]["targets"] == [
        f"model.layers.{n}.mlp.down_proj" for n in range(2)
    ]


def test_a_text_model_inside_a_larger_one_is_not_calibrated(tmp_path: Path):
    text = Gemma3TextConfig(
        vocab_size=40, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4, head_dim=16,
        num_key_value_heads=2,
    )  # fmt: skip
    tensors = Gemma3ForCausalLM(text).state_dict()
    del tensors["lm_head.weight"]
    save_file({f"language_model.{name}": tensor for name, tensor in tensors.items()}, tmp_path / "model.safetensors")
    config = Gemma3Config(text_config=text.to_dict()).to_dict() | {"model_type": "gemma3"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = ModelSpec(source=str(tmp_path))
    assert inspect_model(model).faults == ()
    with pytest.raises(UserError, match="inside a larger one .language_model.model.layers.0.*--method rtn"):
        calibrated_settings(model, "w8a8", [])


def test_words_for_cards(compressed: ModelSpec, tiny_model: Path):
    assert look_into(compressed)[0] == "compressed-tensors: w8a8 (int8, per channel)"
    assert look_into(ModelSpec(source=str(tiny_model)))[0] is None


def test_the_record_of_a_checkpoint_that_is_compressed_already(
    compressed: ModelSpec, tiny_model: Path, toy_spec, tmp_path: Path
):
    """The words are known even where nothing was answered anew; with a scheme on the fly they are the scheme's own."""
    on_the_fly = ModelSpec(source=str(tiny_model), scheme="w4a16-g32")
    both = compressed.model_copy(update={"scheme": "kv=int8"})
    spec = toy_spec("toy_shapes", baseline=str(tiny_model), compressed=[compressed, on_the_fly, both], num_fewshot=0)
    prepared = prepare(spec, Silent())
    titles = []
    with RunFolder.open(tmp_path, "run") as folder:
        for number, model in enumerate(spec.models):
            backend = EmbeddedBackend(spec, model)
            titles.append(evaluate(spec, model, f"m{number}", prepared, backend, folder).model.scheme_title)
            backend.close()
        again = evaluate(spec, compressed, "m1", prepared, EmbeddedBackend(spec, compressed), folder)
    assert titles == [None, "compressed-tensors: w8a8 (int8, per channel)",
                      "int4 weights in groups of 32, activations unquantized",
                      f"{titles[1]}; weights and activations as they are, int8 KV cache"]  # fmt: skip
    assert again.model.weight_bytes is None and again.model.scheme_title == titles[1]
