"""GPTQ checkpoints, packed here bit by bit as AutoGPTQ's and GPTQModel's documentation and files have it."""

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
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import open_checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.families import FAMILIES
from evalcard_engine.models import open_model
from evalcard_engine.quant.weight import QuantizedWeight

NAME = "model.layers.0.mlp.up_proj"
CONFIG = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False, "desc_act": False}
WORD_8, WORD_7 = -0x77777778, 0x77777777
"""The int32 words 0x88888888 and 0x77777777: eight zero points of 8, and of 7."""


def words(codes: list[int], bits: int) -> list[int]:
    """One stream of bits, each code and each word from its low end, as signed 32-bit words."""
    stream = [code >> place & 1 for code in codes for place in range(bits)]
    stream += [0] * (-len(stream) % 32)
    cut = (stream[start : start + 32] for start in range(0, len(stream), 32))
    values = (sum(bit << place for place, bit in enumerate(word)) for word in cut)
    return [value - 2**32 if value >= 2**31 else value for value in values]


def packed(codes: torch.Tensor, zeros: torch.Tensor, scales: torch.Tensor, bits: int) -> dict[str, torch.Tensor]:
    """codes [out, in], zeros [out, groups] as they are to be stored, scales [out, groups] -> GPTQ's tensors."""
    columns = [words(row.tolist(), bits) for row in codes]
    rows = [words(column.tolist(), bits) for column in zeros.t()]
    return {
        "qweight": torch.tensor(columns, dtype=torch.int32).t().contiguous(),
        "qzeros": torch.tensor(rows, dtype=torch.int32),
        "scales": scales.t().contiguous(),
    }


def slow(codes: torch.Tensor, zeros: torch.Tensor, scales: torch.Tensor, groups: list[int]) -> torch.Tensor:
    """(code - zero point) * scale in float32, one element after the other; groups: the group of each column."""
    out, width = codes.shape
    value = torch.empty(out, width)
    for row in range(out):
        for column, group in enumerate(groups):
            value[row, column] = (codes[row, column] - zeros[row, group]).float() * scales[row, group].float()
    return value


def rand(seed: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


def rand_scales(seed: int, *shape: int) -> torch.Tensor:
    return (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 0.02 + 0.005).half()


def claim(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], wanted: dict) -> Claims:
    folder.mkdir(exist_ok=True)
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
    assert isinstance(weight, QuantizedWeight) and weight.activations is None
    return weight


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("fmt", ["gptq", "gptq_v2", None])
@pytest.mark.parametrize("group_size", [16, 32, -1])
def test_every_width_and_format_by_the_slow_definition(
    tmp_path: Path, bits: int, fmt: str | None, group_size: int
) -> None:
    out, width = 32, 96
    size = width if group_size == -1 else group_size
    codes, zeros = rand(1, 2**bits, out, width), rand(2, 2**bits, out, width // size)
    scales = rand_scales(3, out, width // size)
    stored = zeros if fmt == "gptq_v2" else (zeros - 1) % 2**bits
    config = {**CONFIG, "bits": bits, "group_size": group_size, "checkpoint_format": fmt}
    weight = read(tmp_path, config, packed(codes, stored, scales, bits), (out, width))
    assert torch.equal(weight.dequantize(), slow(codes, zeros, scales, [c // size for c in range(width)]))
    how = "as they are" if fmt == "gptq_v2" else "minus 1"
    shared = "per channel" if group_size == -1 else f"groups of {group_size}"
    assert weight.scheme == f"w{bits}a16 (int{bits}, {shared}, asymmetric, zero points stored {how})"


@pytest.mark.parametrize(("bits", "out", "width"), [(4, 5, 24), (8, 7, 12), (2, 9, 48), (3, 33, 64)])
def test_shapes_that_fill_no_last_word(tmp_path: Path, bits: int, out: int, width: int) -> None:
    size = width // 2
    codes, zeros, scales = rand(4, 2**bits, out, width), rand(5, 2**bits, out, 2), rand_scales(6, out, 2).float()
    config = {**CONFIG, "bits": bits, "group_size": size, "checkpoint_format": "gptq_v2"}
    weight = read(tmp_path, config, packed(codes, zeros, scales, bits), (out, width))
    assert torch.equal(weight.dequantize(), slow(codes, zeros, scales, [c // size for c in range(width)]))


@pytest.mark.parametrize("desc_act", [True, None])
@pytest.mark.parametrize("bits", [3, 4])
def test_act_order_keeps_each_columns_group(tmp_path: Path, bits: int, desc_act: bool | None) -> None:
    out, width, size = 32, 64, 16
    codes, zeros, scales = rand(1, 2**bits, out, width), rand(2, 2**bits, out, 4), rand_scales(3, out, 4)
    groups = (torch.randperm(width, generator=torch.Generator().manual_seed(4)) // size).int()
    parts = {**packed(codes, (zeros - 1) % 2**bits, scales, bits), "g_idx": groups}
    weight = read(tmp_path, {**CONFIG, "bits": bits, "group_size": size, "desc_act": desc_act}, parts, (out, width))
    assert torch.equal(weight.dequantize(), slow(codes, zeros, scales, groups.tolist()))
    assert ("act-order" in weight.scheme) == (desc_act is True)


def test_case_71_two_interleaved_groups(tmp_path: Path) -> None:
    codes, zeros, scales = torch.full((8, 8), 9), torch.full((8, 2), 8), torch.tensor([[1.0, 10.0]] * 8).half()
    parts = {**packed(codes, zeros - 1, scales, 4), "g_idx": torch.tensor([1, 0, 1, 0, 0, 1, 0, 1], dtype=torch.int32)}
    weight = read(tmp_path, {**CONFIG, "group_size": 4, "desc_act": True}, parts, (8, 8)).dequantize()
    assert weight[3].tolist() == [10, 1, 10, 1, 1, 10, 1, 10]


@pytest.mark.parametrize("g_idx", [None, torch.int32, torch.int64])
@pytest.mark.parametrize("desc_act", [False, True, None])
def test_columns_that_stand_in_order(tmp_path: Path, g_idx: torch.dtype | None, desc_act: bool | None) -> None:
    """Case 73's like: g_idx may be missing, unless act-order is said to have moved columns; static groups do not."""
    codes, zeros, scales = rand(1, 16, 8, 64), rand(2, 16, 8, 2), rand_scales(3, 8, 2)
    parts = packed(codes, zeros, scales, 4)
    if g_idx is not None:
        parts["g_idx"] = (torch.arange(64) // 32).to(g_idx)
    config = {**CONFIG, "desc_act": desc_act, "static_groups": True, "checkpoint_format": "gptq_v2"}
    if g_idx is None and desc_act:
        with pytest.raises(EngineError, match=f"{NAME}: g_idx missing"):
            read(tmp_path, config, parts, (8, 64))
        return
    weight = read(tmp_path, config, parts, (8, 64))
    assert weight.group_index is None
    assert torch.equal(weight.dequantize(), slow(codes, zeros, scales, [c // 32 for c in range(64)]))


def test_one_group_has_no_order(tmp_path: Path) -> None:
    codes, zeros, scales = rand(1, 16, 8, 64), rand(2, 16, 8, 1), rand_scales(3, 8, 1)
    config = {**CONFIG, "desc_act": True, "group_size": -1, "checkpoint_format": "gptq_v2"}
    weight = read(tmp_path, config, packed(codes, zeros, scales, 4), (8, 64))
    assert torch.equal(weight.dequantize(), slow(codes, zeros, scales, [0] * 64))


@pytest.mark.parametrize("word", [WORD_8, WORD_7])
@pytest.mark.parametrize("fmt", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("sym", [{"sym": True}, {}])
def test_case_68_a_symmetric_zero_point_is_the_middle(tmp_path: Path, word: int, fmt: str, sym: dict) -> None:
    config = {key: value for key, value in CONFIG.items() if key != "sym"} | sym | {"checkpoint_format": fmt}
    parts = packed(torch.full((8, 32), 8), torch.zeros(8, 1).long(), torch.full((8, 1), 0.5).half(), 4)
    weight = read(tmp_path, config, {**parts, "qzeros": torch.tensor([[word]], dtype=torch.int32)}, (8, 32))
    assert torch.equal(weight.dequantize(), torch.zeros(8, 32)) and weight.zero_points is None
    assert weight.scheme == "w4a16 (int4, groups of 32, zero point 8 whatever is stored)"


@pytest.mark.parametrize(("fmt", "expected"), [("gptq", -0.5), ("gptq_v2", 0.0)])
def test_case_68_an_asymmetric_zero_point_is_what_the_format_says(tmp_path: Path, fmt: str, expected: float) -> None:
    parts = packed(torch.full((8, 32), 8), torch.zeros(8, 1).long(), torch.full((8, 1), 0.5).half(), 4)
    parts["qzeros"] = torch.tensor([[WORD_8]], dtype=torch.int32)
    weight = read(tmp_path, {**CONFIG, "checkpoint_format": fmt}, parts, (8, 32))
    assert torch.equal(weight.dequantize(), torch.full((8, 32), expected))


def test_case_70_a_zero_point_wraps(tmp_path: Path) -> None:
    parts = packed(torch.full((8, 32), 5), torch.full((8, 1), 15), torch.ones(8, 1).half(), 4)
    weight = read(tmp_path, {**CONFIG, "checkpoint_format": "gptq"}, parts, (8, 32))
    assert torch.equal(weight.dequantize(), torch.full((8, 32), 5.0))


@pytest.mark.parametrize("stored", [[8, 7], [8, 9], [3, 3]])
def test_symmetric_with_other_zero_points_is_refused(tmp_path: Path, stored: list[int]) -> None:
    zeros = torch.tensor([stored] * 8)
    parts = packed(rand(1, 16, 8, 64), zeros, rand_scales(2, 8, 2), 4)
    with pytest.raises(EngineError, match=f"{NAME}: the config says symmetric .* must be 8 or 7, but the file holds"):
        read(tmp_path, {**CONFIG, "sym": True}, parts, (8, 64))


def test_cases_83_and_89_each_module_by_its_tensors_and_its_rule(tmp_path: Path) -> None:
    attention = "model.layers.0.self_attn.{}_proj"
    layers = {attention.format(kind): (16, 64, 16) for kind in "qkv"} | {"model.layers.0.mlp.up_proj": (16, 64, 32)}
    tensors, expected = {}, {}
    for seed, (name, (out, width, size)) in enumerate(layers.items()):
        codes, zeros = rand(seed, 16, out, width), rand(seed + 9, 16, out, width // size)
        scales = rand_scales(seed, out, width // size)
        tensors |= {f"{name}.{leaf}": part for leaf, part in packed(codes, zeros, scales, 4).items()}
        expected[name] = slow(codes, zeros, scales, [c // size for c in range(width)])
    eight = "model.layers.0.mlp.down_proj"
    codes, zeros, scales = rand(50, 256, 64, 16), torch.full((64, 1), 128), rand_scales(51, 64, 1)
    tensors |= {f"{eight}.{leaf}": part for leaf, part in packed(codes, zeros, scales, 8).items()}
    expected[eight] = slow(codes, zeros, scales, [0] * 16)
    plain = {"lm_head.weight": (97, 64), "model.layers.0.mlp.gate_proj.weight": (16, 64)}
    tensors |= {name: torch.ones(shape).half() for name, shape in plain.items()}
    dynamic = {
        r"+:.*self_attn\.(q|k|v)_proj": {"group_size": 16, "bits": None},
        r"-:.*mlp\.gate": {},
        r".*\.down_proj": {"bits": 8, "group_size": -1, "sym": True, "desc_act": None, "damp_percent": 0.05},
    }
    config = {**CONFIG, "checkpoint_format": "gptq_v2", "format": "gptq_v2", "lm_head": True, "dynamic": dynamic}
    wanted = {f"{name}.weight": tuple(value.shape) for name, value in expected.items()} | plain
    claims, reader = claim(tmp_path, config, tensors, wanted), TensorReader(open_checkpoint(str(tmp_path)))
    for name, value in expected.items():
        source = claims.sources[f"{name}.weight"]
        assert isinstance(source, Quantized)
        weight = source.read({leaf: reader[tensor] for leaf, tensor in source.tensors.items()})
        assert isinstance(weight, QuantizedWeight) and torch.equal(weight.dequantize(), value), name
    assert {name: claims.sources[name] for name in plain} == {name: Plain(name) for name in plain}
    assert claims.schemes[eight] == "w8a16 (int8, per channel, zero point 128 whatever is stored)"
    assert "groups of 16" in claims.schemes[attention.format("k")]


def test_the_first_rule_that_matches_counts(tmp_path: Path) -> None:
    codes, zeros, scales = rand(1, 16, 8, 64), rand(2, 16, 8, 4), rand_scales(3, 8, 4)
    dynamic = {r"-:up_proj": {}, rf"{NAME}$": {"group_size": 16}, r"-:.*up_proj": {}}
    config = {**CONFIG, "checkpoint_format": "gptq_v2", "dynamic": dynamic}
    weight = read(tmp_path, config, packed(codes, zeros, scales, 4), (8, 64))
    assert torch.equal(weight.dequantize(), slow(codes, zeros, scales, [c // 16 for c in range(64)]))
    config["dynamic"] = dict(reversed(dynamic.items()))
    with pytest.raises(EngineError, match="up_proj is packed .* but the config leaves it in full precision"):
        read(tmp_path, config, packed(codes, zeros, scales, 4), (8, 64))


def good_parts() -> dict[str, torch.Tensor]:
    """A weight [16, 64] in two groups of 32."""
    parts = packed(rand(1, 16, 16, 64), rand(2, 16, 16, 2), rand_scales(3, 16, 2), 4)
    return {**parts, "g_idx": (torch.arange(64) // 32).int()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"qweight": torch.zeros(7, 16).int()},
            r"qweight is I32 \[7, 16\], not I32 \[8, 16\] \(4 bits, groups of 32\)",
        ),
        ({"qweight": torch.zeros(8, 16)}, r"qweight is F32 \[8, 16\], not I32"),
        ({"qzeros": torch.zeros(2, 16).int()}, r"qzeros is I32 \[2, 16\], not I32 \[2, 2\]"),
        ({"scales": torch.ones(1, 16).half()}, r"scales is F16 \[1, 16\], not F32 or BF16 or F16 \[2, 16\]"),
        ({"g_idx": torch.zeros(32).int()}, r"g_idx is I32 \[32\], not I32 or I64 \[64\]"),
        ({"qzeros": None}, "qzeros missing"),
        ({"qweight": None, "other.qweight": torch.zeros(1).int()}, "qweight missing"),
        ({"weight": torch.ones(16, 64)}, "is stored twice, as weight and as g_idx, qweight, qzeros, scales"),
        ({"bias": torch.ones(16).half()}, "bias is not zero, and the model has no such bias"),
        ({"zeros": torch.ones(16)}, f"not part of the model .*{NAME}.zeros"),
    ],
)
def test_tensors_that_cannot_be_right_are_faults(
    tmp_path: Path, changes: dict[str, torch.Tensor | None], message: str
) -> None:
    parts = {leaf: part for leaf, part in {**good_parts(), **changes}.items() if part is not None}
    with pytest.raises(EngineError, match=message) as caught:
        read(tmp_path, CONFIG, parts, (16, 64))
    assert NAME in str(caught.value) and "tensors missing" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scales": torch.tensor([1.0] * 31 + [float("nan")]).view(2, 16).half()}, "scales is not finite"),
        ({"scales": torch.tensor([float("inf")] + [1.0] * 31).view(2, 16)}, "scales is not finite"),
        (
            {"g_idx": (torch.arange(64) // 32 + 1).int()},
            "g_idx names the groups 1 to 2, but there are scales for 0 to 1",
        ),
        ({"g_idx": (torch.arange(64) // 32 - 1).int()}, "g_idx names the groups -1 to 0"),
        ({"g_idx": torch.zeros(64).int()}, "g_idx puts 64 columns in group 0, but groups have 32"),
        ({"g_idx": (torch.arange(64) % 2).int()}, "the config says desc_act: false"),
    ],
)
def test_values_that_cannot_be_right_are_refused(
    tmp_path: Path, changes: dict[str, torch.Tensor], message: str
) -> None:
    with pytest.raises(EngineError, match=f"{NAME}: .*{message}"):
        read(tmp_path, CONFIG, {**good_parts(), **changes}, (16, 64))


def test_a_bias_of_zeros_that_the_model_lacks_changes_nothing(tmp_path: Path) -> None:
    """AutoGPTQ gave every linear a bias."""
    parts = {**good_parts(), "bias": torch.zeros(16).half()}
    assert torch.equal(
        read(tmp_path, CONFIG, parts, (16, 64)).codes, read(tmp_path, CONFIG, good_parts(), (16, 64)).codes
    )


def test_groups_that_do_not_divide_are_a_fault(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=rf"{NAME} \[16, 64\]: 64 columns do not divide into groups of 48"):
        read(tmp_path, {**CONFIG, "group_size": 48}, good_parts(), (16, 64))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bits": 5}, "bits is 5; 2, 3, 4, 8 are read"),
        ({"bits": "4"}, "bits is '4'"),
        ({"group_size": 0}, "group_size is 0; it must be a positive integer, or -1"),
        ({"group_size": None}, "group_size is None"),
        ({"sym": "yes"}, "sym is 'yes'; it must be true or false"),
        ({"checkpoint_format": "marlin"}, "checkpoint_format is 'marlin'; gptq and gptq_v2 are read"),
        ({"checkpoint_format": "gptq_p"}, "checkpoint_format is 'gptq_p'"),
        ({"checkpoint_format": "gptq", "format": "gptq_v2"}, "checkpoint_format is 'gptq', but format is 'gptq_v2'"),
        ({"is_marlin_format": True}, "is_marlin_format is True"),
        ({"pack_dtype": "int64"}, "pack_dtype is 'int64'; int32 is read"),
        ({"rotation": "hadamard"}, "rotation is 'hadamard': weights are stored in rotated form"),
        ({"adapter": {"name": "lora"}}, "adapter is .*: an adapter belongs to these weights"),
        ({"activation": "int8"}, "activation is 'int8'"),
        ({"act_bits": 8}, "act_bits is 8: quantized activations are not run"),
        ({"data_type": "mx_fp"}, "data_type is 'mx_fp'; int is read"),
        ({"wrong": 1}, "unknown setting 'wrong' of quantization_config"),
        ({"dynamic": [1]}, r"dynamic is \[1\]; it must be an object of patterns"),
        ({"dynamic": {"+:(": {}}}, r"dynamic\['\+:\('\]: its pattern cannot be read"),
        ({"dynamic": {"a": {"bits": 7}}}, r"dynamic\['a'\].bits is 7"),
        ({"dynamic": {"a": {"wrong": 7}}}, r"unknown setting 'wrong' of dynamic\['a'\]"),
    ],
)
def test_settings_that_cannot_be_honoured_are_named(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        read(tmp_path, {**CONFIG, **changes}, good_parts(), (16, 64))


def test_all_faults_come_in_one_message(tmp_path: Path) -> None:
    config = {**CONFIG, "bits": 5, "rotation": "random", "wrong": 1}
    with pytest.raises(EngineError) as caught:
        claim(tmp_path, config, {"lm_head.weight": torch.ones(2, 2)}, {"lm_head.weight": (2, 2)})
    for part in ("bits is 5", "rotation is 'random'", "unknown setting 'wrong'", "no tensor in its files is packed"):
        assert part in str(caught.value)
    wanted = {f"model.layers.{i}.mlp.up_proj.weight": (16, 64) for i in range(2)}
    tensors = {f"model.layers.{i}.mlp.up_proj.{leaf}": part for i in range(2) for leaf, part in good_parts().items()}
    tensors |= {"model.layers.0.mlp.up_proj.qweight": torch.zeros(4, 16).int()}
    del tensors["model.layers.1.mlp.up_proj.scales"]
    with pytest.raises(EngineError, match=r"layers.0.mlp.up_proj.qweight is .*layers.1.mlp.up_proj: scales missing"):
        claim(tmp_path, CONFIG, tensors, wanted)


def test_what_another_tool_would_write_is_understood(tmp_path: Path) -> None:
    """The settings of AutoGPTQ 0.7, of optimum and of GPTQModel 7.7."""
    autogptq = {"damp_percent": 0.01, "static_groups": False, "true_sequential": True, "model_name_or_path": None,
                "model_file_base_name": "model", "is_marlin_format": False}  # fmt: skip
    optimum = {"tokenizer": None, "dataset": "c4", "block_name_to_quantize": "model.layers", "batch_size": 1,
               "module_name_preceding_first_block": ["model.embed_tokens"], "use_cuda_fp16": False, "use_exllama": True,
               "cache_block_outputs": True, "modules_in_block_to_quantize": [["mlp.up_proj"]],
               "exllama_config": {"version": 1}, "max_input_length": None, "pad_token_id": None}  # fmt: skip
    model = {"method": "gptq", "format": "gptq", "checkpoint_format": "gptq", "pack_dtype": "int32", "lm_head": False,
             "meta": {"quantizer": ["gptqmodel:7.7.0"], "damp_percent": 0.05, "v2": False}}  # fmt: skip
    codes = [read(tmp_path, {**CONFIG, **more}, good_parts(), (16, 64)).dequantize() for more in (
        {}, autogptq, optimum, model)]  # fmt: skip
    assert all(torch.equal(codes[0], other) for other in codes)


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"bits": 4, "group_size": 32, "sym": False, "model_file_base_name": "x"}, None),
        ({"bits": 4, "group_size": 128}, "group_size is 32 in config.json, but 128 in quantize_config.json"),
        ({"sym": True}, "sym is False in config.json, but True in quantize_config.json"),
        ({"checkpoint_format": "gptq_v2"}, None),
        ([1], "quantize_config.json holds a list"),
    ],
)
def test_quantize_config_beside_it_may_not_disagree(tmp_path: Path, beside: Any, message: str | None) -> None:
    (tmp_path / "quantize_config.json").write_text(json.dumps(beside))
    if message is None:
        scheme = read(tmp_path, CONFIG, good_parts(), (16, 64)).scheme
        assert scheme.endswith("zero points stored minus 1)"), "the file beside decides nothing"
        return
    with pytest.raises(EngineError, match=message):
        read(tmp_path, CONFIG, good_parts(), (16, 64))


def small_model(family: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(3)
    config = AutoConfig.for_model(
        family, vocab_size=61, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.2, tie_word_embeddings=False,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def write_model(folder: Path, model: Any, config: dict[str, Any], group_order: bool) -> None:
    """Pack every decoder linear and give the model the weights that the packed ones stand for."""
    tensors = {name: tensor.half() for name, tensor in model.state_dict().items()}
    bits, size = config["bits"], config["group_size"]
    for name, linear in model.model.layers.named_modules(prefix="model.layers"):
        if not isinstance(linear, torch.nn.Linear):
            continue
        out, width = linear.weight.shape
        codes, zeros = rand(out + width, 2**bits, out, width), rand(width, 2**bits, out, width // size)
        scales = (rand_scales(out, out, width // size).float() * 16 / 2**bits).half()
        groups = torch.arange(width) // size
        if group_order:
            groups = groups[torch.randperm(width, generator=torch.Generator().manual_seed(width))]
        parts = {**packed(codes, (zeros - 1) % 2**bits, scales, bits), "g_idx": groups.int()}
        del tensors[f"{name}.weight"]
        tensors |= {f"{name}.{leaf}": part for leaf, part in parts.items()}
        linear.weight.data = slow(codes, zeros, scales, groups.tolist())
    model.load_state_dict({name: value.float() for name, value in tensors.items() if name in model.state_dict()},
                          strict=False)  # fmt: skip
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**model.config.to_dict(), "quantization_config": config}))


@pytest.mark.parametrize(("family", "bits", "desc_act"), [("llama", 4, True), ("qwen2", 4, False), ("qwen2", 3, True)])
def test_a_whole_model_answers_as_its_dequantized_weights_do(
    tmp_path: Path, family: str, bits: int, desc_act: bool
) -> None:
    model = small_model(family)
    write_model(tmp_path, model, {**CONFIG, "bits": bits, "group_size": 16, "desc_act": desc_act}, desc_act)
    opened = open_model(str(tmp_path), dtype="float32", device="cpu", scheme=None)
    ids = rand(8, 61, 13)
    places = torch.arange(13)
    batch = Batch(ids, places, places, places, (Span(0, 13, 0, (0,)),), page_size=16)
    with torch.no_grad():
        expected = model(ids[None]).logits[0]
    torch.testing.assert_close(opened.forward(batch, opened.make_pool(1, 16)), expected, rtol=0, atol=1e-4)
    stored = bits + (16 + bits) / 16
    assert stored < opened.info.bits_per_weight < stored + 2, "32 bits of g_idx a column more"
