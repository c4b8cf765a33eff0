"""The names and shapes that published checkpoints have: each tensor claimed once, and the same bits come out."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.errors import EngineError
from evalcard_engine.inspection import open_claims, tensors_of

MIXTURES = ["mixtral", "qwen2_moe", "qwen3_moe", "granitemoe", "gpt_oss", "llama4_text", "deepseek_v3"]
FUSED = {"gate_up_proj", "down_proj", "gate_up_proj_bias", "down_proj_bias"}


def apart(tensor: torch.Tensor) -> list[dict[str, torch.Tensor]]:
    """[experts, 2 * width, hidden] -> the two halves of each expert."""
    return [dict(zip(("gate", "up"), one.chunk(2), strict=True)) for one in tensor]


def published(name: str, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A module's tensors as the files on the Hub name and shape them."""
    found: dict[str, torch.Tensor] = {}
    names = {"gate": "w1", "up": "w3", "down": "w2"} if name == "mixtral" else {}
    for key, tensor in state.items():
        layer, _, leaf = key.rpartition(".")
        if name in ("gpt_oss", "llama4_text") or leaf not in FUSED or not layer.endswith(".experts"):
            found[key.replace(".mlp.", ".block_sparse_moe.") if name == "mixtral" and ".gate." in key else key] = tensor
        elif name == "granitemoe":
            part = "input_linear" if leaf == "gate_up_proj" else "output_linear"
            found[f"{layer.removesuffix('.experts')}.{part}.weight"] = tensor
        else:
            layer = layer.replace(".mlp.", ".block_sparse_moe.") if name == "mixtral" else layer
            shares = apart(tensor) if leaf == "gate_up_proj" else [{"down": one} for one in tensor]
            for expert, parts in enumerate(shares):
                for part, share in parts.items():
                    found[f"{layer}.{expert}.{names.get(part, f'{part}_proj')}.weight"] = share
    if name == "granitemoe":
        found = {key.replace(".router.weight", ".router.layer.weight"): tensor for key, tensor in found.items()}
    return found


def write(folder: Path, tensors: dict[str, torch.Tensor], config: dict) -> Path:
    save_file({key: tensor.clone().contiguous() for key, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def assert_claimed_once(folder: Path) -> None:
    """Every tensor of the files belongs to one source, and every source to one parameter unless they are tied."""
    opened = open_claims(str(folder))
    assert opened.faults == ()
    used = [tensor for one in {id(s): s for s in opened.claims.sources.values()}.values() for tensor in tensors_of(one)]
    assert len(used) == len(set(used))
    there = {tensor for tensor in opened.checkpoint.tensors if opened.family.module_name(tensor) is not None}
    assert set(used) == there


def assert_same(packed, folder: Path, family, ids: torch.Tensor) -> None:
    models = (family.open_at(folder), family.open())
    (found,), (expected,) = (packed(model, [ids], 16).step((0, 0, len(ids))) for model in models)
    assert torch.equal(found, expected)


def test_what_save_pretrained_writes(family) -> None:
    assert_claimed_once(family.folder)


@pytest.mark.parametrize("name", MIXTURES)
def test_what_is_published(made, packed, some_tokens, tmp_path: Path, name: str) -> None:
    family = made(name)
    tensors = published(name, family.eager.state_dict())
    assert set(tensors) != set(family.eager.state_dict()) or name in ("gpt_oss", "llama4_text")
    write(tmp_path, tensors, config_of(family.folder))
    assert_claimed_once(tmp_path)
    assert_same(packed, tmp_path, family, *some_tokens(40))


@pytest.mark.parametrize("name", MIXTURES)
def test_experts_in_one_tensor_as_the_modules_have_them(made, packed, some_tokens, tmp_path: Path, name: str) -> None:
    family = made(name)
    write(tmp_path, family.eager.state_dict(), config_of(family.folder))
    assert_claimed_once(tmp_path)
    assert_same(packed, tmp_path, family, *some_tokens(40))


def test_llama_4_inside_a_model_that_sees(made, packed, some_tokens, tmp_path: Path) -> None:
    family = made("llama4_text")
    tensors = {f"language_model.{key}": tensor for key, tensor in family.eager.state_dict().items()}
    tensors["vision_model.class_embedding"] = torch.ones(4)
    tensors["multi_modal_projector.linear_1.weight"] = torch.ones(4, 4)
    write(tmp_path, tensors, {"model_type": "llama4", "text_config": config_of(family.folder)})
    assert_claimed_once(tmp_path)
    assert_same(packed, tmp_path, family, *some_tokens(40))


def test_deepseek_s_layer_that_guesses_further_tokens(made, packed, some_tokens, tmp_path: Path) -> None:
    family = made("deepseek_v3")
    tensors = published("deepseek_v3", family.eager.state_dict())
    extra = family.eager.config.num_hidden_layers
    tensors |= {f"model.layers.{extra}.{leaf}.weight": torch.ones(4) for leaf in ("enorm", "self_attn.o_proj")}
    write(tmp_path, tensors, config_of(family.folder) | {"num_nextn_predict_layers": 1})
    assert_claimed_once(tmp_path)
    assert_same(packed, tmp_path, family, *some_tokens(40))


def test_missing_and_surplus_experts_are_named(made, tmp_path: Path) -> None:
    family = made("mixtral")
    tensors = published("mixtral", family.eager.state_dict())
    lost, extra = (
        "model.layers.2.block_sparse_moe.experts.3.w2.weight",
        "model.layers.1.block_sparse_moe.experts.5.w1.weight",
    )
    tensors[extra] = tensors.pop(lost)
    write(tmp_path, tensors, config_of(family.folder))
    with pytest.raises(EngineError) as caught:
        family.open_at(tmp_path)
    assert "model.layers.2.mlp.experts.3.down_proj.weight" in str(caught.value) and extra in str(caught.value)


def test_a_missing_shard_is_told_and_not_its_experts_one_by_one(made, tmp_path: Path) -> None:
    family = made("gpt_oss")
    tensors = dict(family.eager.state_dict())
    shards = {key: "b.safetensors" if key.endswith("1.mlp.experts.down_proj") else "a.safetensors" for key in tensors}
    kept = {key: tensor.clone() for key, tensor in tensors.items() if shards[key] == "a.safetensors"}
    save_file(kept, tmp_path / "a.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    (tmp_path / "config.json").write_text(json.dumps(config_of(family.folder)))
    with pytest.raises(EngineError) as caught:
        family.open_at(tmp_path)
    assert "1 of 2 files are missing: b.safetensors" in str(caught.value)
    assert "tensors missing" not in str(caught.value) and "not part of the model" not in str(caught.value)


def test_fused_experts_of_another_number_are_refused(made, tmp_path: Path) -> None:
    family = made("granitemoe")
    tensors = published("granitemoe", family.eager.state_dict())
    key = "model.layers.0.block_sparse_moe.output_linear.weight"
    tensors[key] = tensors[key][:4]
    write(tmp_path, tensors, config_of(family.folder))
    with pytest.raises(EngineError, match=r"missing.*layers\.0\.block_sparse_moe\.experts\.4\.down_proj"):
        family.open_at(tmp_path)


def test_mxfp4_experts_as_gpt_oss_is_published(made, packed, some_tokens, tmp_path: Path) -> None:
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    family, generator = made("gpt_oss"), torch.Generator().manual_seed(0)
    state = dict(family.eager.state_dict())
    eager = type(family.eager)(family.eager.config).eval()
    for key in [key for key in state if key.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, width, out = state.pop(key).shape
        blocks = torch.randint(0, 256, (experts, out, width // 32, 16), dtype=torch.uint8, generator=generator)
        scales = torch.randint(121, 124, (experts, out, width // 32), dtype=torch.uint8, generator=generator)
        state |= {f"{key}_blocks": blocks, f"{key}_scales": scales}
        eager.get_parameter(key).data = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    eager.load_state_dict({key: tensor for key, tensor in state.items() if tensor.dtype != torch.uint8}, strict=False)
    settings = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    write(tmp_path, state, config_of(family.folder) | {"quantization_config": settings})
    assert_claimed_once(tmp_path)
    schemes = open_claims(str(tmp_path)).claims.schemes
    assert set(schemes.values()) == {"w4a16 (mxfp4, groups of 32)"}
    assert len(schemes) == 2 * eager.config.num_local_experts * eager.config.num_hidden_layers
    model, (ids,) = family.open_at(tmp_path), some_tokens(300)
    (found,) = packed(model, [ids], 256).step((0, 0, 300))
    with torch.no_grad():
        expected = eager(ids[None], use_cache=False).logits[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))
