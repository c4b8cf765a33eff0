"""AWQ checkpoints of version gemm, packed here nibble by nibble as AutoAWQ's files have them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.batch import Batch, Span
from evalcard_engine.checkpoint.claiming import claim_all
from evalcard_engine.checkpoint.claims import Claims, Plain, Quantized
from evalcard_engine.checkpoint.formats import format_of
from evalcard_engine.checkpoint.packing import unpack_awq
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import open_checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.families import FAMILIES
from evalcard_engine.models import open_model
from evalcard_engine.quant.weight import QuantizedWeight

NAME = "model.layers.0.mlp.up_proj"
CONFIG = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
COLUMN_OF_NIBBLE = [0, 2, 4, 6, 1, 3, 5, 7]
"""Which of a word's eight columns each nibble holds, from the low end."""


def words(codes: list[int]) -> list[int]:
    """Eight columns a word, as signed 32-bit words."""
    found = []
    for start in range(0, len(codes), 8):
        value = sum(codes[start + COLUMN_OF_NIBBLE[nibble]] << 4 * nibble for nibble in range(8))
        found.append(value - 2**32 if value >= 2**31 else value)
    return found


def packed(codes: torch.Tensor, zeros: torch.Tensor, scales: torch.Tensor) -> dict[str, torch.Tensor]:
    """codes [out, in], zeros and scales [out, groups] -> AWQ's tensors."""
    return {
        "qweight": torch.tensor([words(column.tolist()) for column in codes.t()], dtype=torch.int32),
        "qzeros": torch.tensor([words(group.tolist()) for group in zeros.t()], dtype=torch.int32),
        "scales": scales.t().contiguous(),
    }


def slow(codes: torch.Tensor, zeros: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """(code - zero point) * scale in float32, one element after the other."""
    out, width = codes.shape
    size = width // scales.shape[1]
    value = torch.empty(out, width)
    for row in range(out):
        for column in range(width):
            group = column // size
            value[row, column] = (codes[row, column] - zeros[row, group]).float() * scales[row, group].float()
    return value


def rand(seed: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, 16, shape, generator=torch.Generator().manual_seed(seed))


def rand_scales(seed: int, *shape: int) -> torch.Tensor:
    return (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 0.02 + 0.005).half()


def claim(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], wanted: dict) -> Claims:
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": dict(config)}))
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    opened = open_checkpoint(str(folder))
    matrices = {name.removesuffix(".weight"): shape for name, shape in wanted.items() if len(shape) == 2}
    return claim_all(opened, FAMILIES["llama"], format_of(opened), wanted, matrices, {})


def read(
    folder: Path, config: Mapping[str, Any], parts: Mapping[str, torch.Tensor], shape: tuple[int, int], name: str = NAME
) -> QuantizedWeight:
    claims = claim(folder, config, {f"{name}.{leaf}": part for leaf, part in parts.items()}, {f"{name}.weight": shape})
    source, reader = claims.sources[f"{name}.weight"], TensorReader(open_checkpoint(str(folder)))
    assert isinstance(source, Quantized)
    weight = source.read({leaf: reader[tensor] for leaf, tensor in source.tensors.items()})
    assert isinstance(weight, QuantizedWeight) and weight.activations is None and weight.group_index is None
    return weight


def test_case_101_the_order_of_a_word() -> None:
    assert unpack_awq(torch.tensor([[0x75316420]], dtype=torch.int32)).tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    codes = rand(1, 3, 24)
    assert torch.equal(unpack_awq(torch.tensor([words(row.tolist()) for row in codes], dtype=torch.int32)), codes)


@pytest.mark.parametrize("group_size", [16, 32, 64, -1])
@pytest.mark.parametrize("out", [8, 40])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_group_size_by_the_slow_definition(tmp_path: Path, group_size: int, out: int, dtype: torch.dtype) -> None:
    width = 64
    groups = 1 if group_size == -1 else width // group_size
    codes, zeros, scales = rand(1, out, width), rand(2, out, groups), rand_scales(3, out, groups).to(dtype)
    weight = read(tmp_path, {**CONFIG, "group_size": group_size}, packed(codes, zeros, scales), (out, width))
    assert torch.equal(weight.dequantize(), slow(codes, zeros, scales))
    shared = "per channel" if group_size == -1 else f"groups of {group_size}"
    assert weight.scheme == f"w4a16 (int4, {shared}, asymmetric, AWQ)"


@pytest.mark.parametrize("how", [{"zero_point": False}, {"zero_point": False, "sym": True}])
def test_symmetric_weights_store_a_zero_point_of_8(tmp_path: Path, how: dict) -> None:
    codes, zeros, scales = rand(1, 8, 64), torch.full((8, 2), 8), rand_scales(3, 8, 2)
    weight = read(tmp_path, {**CONFIG, **how}, packed(codes, zeros, scales), (8, 64))
    assert weight.zero_points is None and torch.equal(weight.dequantize(), slow(codes, zeros, scales))
    assert weight.scheme == "w4a16 (int4, groups of 32, AWQ)"
    zeros[5, 1] = 7
    with pytest.raises(EngineError, match=f"{NAME}: the config says symmetric .* must be 8, but the file holds 7, 8"):
        read(tmp_path, {**CONFIG, **how}, packed(codes, zeros, scales), (8, 64))


def test_case_83_what_has_no_packed_tensors_is_plain(tmp_path: Path) -> None:
    tensors = {f"{NAME}.{leaf}": part for leaf, part in good_parts().items()}
    tensors |= {"lm_head.weight": torch.ones(97, 64).half(), "model.embed_tokens.weight": torch.zeros(97, 64).half()}
    wanted = {f"{NAME}.weight": (16, 64), "lm_head.weight": (97, 64), "model.embed_tokens.weight": (97, 64)}
    claims = claim(tmp_path, CONFIG, tensors, wanted)
    assert claims.sources["lm_head.weight"] == Plain("lm_head.weight")
    assert list(claims.schemes) == [NAME]


def test_modules_not_to_convert_may_not_be_packed(tmp_path: Path) -> None:
    """Case 86's like: mlp.gate is not mlp.gate_proj."""
    gate = "model.layers.0.mlp.gate_proj"
    config = {**CONFIG, "modules_to_not_convert": ["mlp.gate", "lm_head"]}
    assert read(tmp_path, config, good_parts(), (16, 64), gate).scheme.startswith("w4a16")
    for entry in ("mlp.gate_proj", gate, "model.layers.0"):
        with pytest.raises(EngineError, match=f"{gate} is packed .*but the config leaves it in full precision"):
            read(tmp_path, {**config, "modules_to_not_convert": [entry]}, good_parts(), (16, 64), gate)


def test_gptqmodels_overrides_hold_for_awq_too(tmp_path: Path) -> None:
    codes, zeros, scales = rand(1, 8, 64), rand(2, 8, 4), rand_scales(3, 8, 4)
    config = {**CONFIG, "dynamic": {r".*\.up_proj": {"group_size": 16}}}
    weight = read(tmp_path, config, packed(codes, zeros, scales), (8, 64))
    assert torch.equal(weight.dequantize(), slow(codes, zeros, scales))


def good_parts() -> dict[str, torch.Tensor]:
    """A weight [16, 64] in two groups of 32."""
    return packed(rand(1, 16, 64), rand(2, 16, 2), rand_scales(3, 16, 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"qweight": torch.zeros(16, 8).int()}, r"qweight is I32 \[16, 8\], not I32 \[64, 2\]"),
        ({"qweight": torch.zeros(64, 2).short()}, r"qweight is I16 \[64, 2\], not I32"),
        ({"qzeros": torch.zeros(2, 16).int()}, r"qzeros is I32 \[2, 16\], not I32 \[2, 2\]"),
        ({"scales": torch.ones(16, 2).half()}, r"scales is F16 \[16, 2\], not F32 or BF16 or F16 \[2, 16\]"),
        ({"qzeros": None}, "qzeros missing"),
        ({"weight": torch.ones(16, 64)}, "is stored twice, as weight and as qweight, qzeros, scales"),
        ({"g_idx": torch.zeros(64).int()}, f"not part of the model .*{NAME}.g_idx"),
        ({"scales": torch.full((2, 16), float("nan"))}, "scales is not finite"),
    ],
)
def test_tensors_that_cannot_be_right_are_refused(
    tmp_path: Path, changes: dict[str, torch.Tensor | None], message: str
) -> None:
    parts = {leaf: part for leaf, part in {**good_parts(), **changes}.items() if part is not None}
    with pytest.raises(EngineError, match=message) as caught:
        read(tmp_path, CONFIG, parts, (16, 64))
    assert NAME in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bits": 3}, "bits is 3; 4 are read"),
        ({"group_size": 48}, rf"{NAME} \[16, 64\]: 64 columns do not divide into groups of 48"),
        ({"version": "gemv"}, "version is 'gemv'; gemm is read"),
        ({"version": "gemv_fast"}, "version is 'gemv_fast'"),
        ({"version": "marlin"}, "version is 'marlin'"),
        ({"backend": "llm-awq"}, "version is 'llm-awq'"),
        ({"version": "GEMM", "checkpoint_format": "gemv"}, "format is 'gemm', and as checkpoint_format it is 'gemv'"),
        ({"w_bit": 8}, "bits is 4, and as w_bit it is 8"),
        ({"zero_point": "no"}, "zero_point is 'no'; it must be true or false"),
        ({"sym": True}, "zero_point is True and sym is True; one is the opposite of the other"),
        ({"desc_act": True}, "desc_act is true, which AWQ has no tensors for"),
        ({"modules_to_not_convert": "lm_head"}, "modules_to_not_convert is 'lm_head'; it must be a list"),
        ({"rotation": "random"}, "rotation is 'random'"),
        ({"dynamic": {"x": {"bits": 8}}}, r"dynamic\['x'\].bits is 8"),
        ({"wrong": 1}, "unknown setting 'wrong'"),
    ],
)
def test_settings_that_cannot_be_honoured_are_named(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        read(tmp_path, {**CONFIG, **changes}, good_parts(), (16, 64))


def test_what_another_tool_would_write_is_understood(tmp_path: Path) -> None:
    """The settings of AutoAWQ 0.2 and its own spelling, of transformers and of GPTQModel 7.7."""
    own = {"quant_method": "awq", "w_bit": 4, "q_group_size": 32, "zero_point": True, "version": "GEMM"}
    autoawq = {**CONFIG, "version": "GEMM", "modules_to_not_convert": None}
    transformers = {**CONFIG, "format": "gemm", "backend": "autoawq", "do_fuse": False, "modules_to_fuse": None,
                    "fuse_max_seq_len": None, "exllama_config": None}  # fmt: skip
    model = {**CONFIG, "method": "awq", "format": "gemm", "checkpoint_format": "gemm", "pack_dtype": "int32",
             "desc_act": False, "sym": False, "lm_head": False, "meta": {"quantizer": ["gptqmodel:7.7.0"]}}  # fmt: skip
    codes = [read(tmp_path, one, good_parts(), (16, 64)).dequantize() for one in (CONFIG, own, autoawq, transformers,
                                                                                  model)]  # fmt: skip
    assert all(torch.equal(codes[0], other) for other in codes)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_whole_model_answers_as_its_dequantized_weights_do(tmp_path: Path, family: str) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(3)
    settings = AutoConfig.for_model(
        family, vocab_size=61, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.2, tie_word_embeddings=False,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(settings, dtype=torch.float32, attn_implementation="eager").eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
        parameter.data = parameter.data.half().float()
    tensors = {name: tensor.half() for name, tensor in model.state_dict().items()}
    for name, linear in model.model.layers.named_modules(prefix="model.layers"):
        if isinstance(linear, torch.nn.Linear):
            out, width = linear.weight.shape
            codes, zeros, scales = (
                rand(out, out, width),
                rand(width, out, width // 16),
                rand_scales(out, out, width // 16),
            )
            del tensors[f"{name}.weight"]
            tensors |= {f"{name}.{leaf}": part for leaf, part in packed(codes, zeros, scales).items()}
            linear.weight.data = slow(codes, zeros, scales)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, tmp_path / "model.safetensors")
    config = {**settings.to_dict(), "quantization_config": {**CONFIG, "group_size": 16}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    opened = open_model(str(tmp_path), dtype="float32", device="cpu", scheme=None)
    ids, places = rand(8, 13), torch.arange(13)
    batch = Batch(ids, places, places, places, (Span(0, 13, 0, (0,)),), page_size=16)
    with torch.no_grad():
        expected = model(ids[None]).logits[0]
    torch.testing.assert_close(opened.forward(batch, opened.make_pool(1, 16)), expected, rtol=0, atol=1e-4)
    assert opened.info.bits_per_weight == 4 + (16 + 4) / 16
