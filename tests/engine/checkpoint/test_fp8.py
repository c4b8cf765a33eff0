"""fp8 checkpoints: blocks, rows and tensors with a scale each, and inputs rounded as the config says."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evalcard_engine.checkpoint.claims import ModuleClaim, Plain, Quantized
from evalcard_engine.checkpoint.fp8 import open_format
from evalcard_engine.checkpoint.tensor_files import TensorFile
from evalcard_engine.errors import EngineError
from evalcard_engine.quant.weight import QuantizedWeight

DTYPES = {torch.float8_e4m3fn: "F8_E4M3", torch.float32: "F32", torch.bfloat16: "BF16", torch.int8: "I8"}
BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 64], "fmt": "e4m3"}
TENSOR = {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None}


def claim(config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], name: str = "a") -> ModuleClaim:
    parts = {
        leaf: TensorFile(Path("x"), DTYPES[one.dtype], tuple(one.shape), one.nbytes) for leaf, one in tensors.items()
    }
    weight = tensors["weight"]
    fmt = open_format(SimpleNamespace(name="m"), config)  # type: ignore[arg-type]
    return fmt.module(name, (weight.shape[0], weight.shape[1]), parts)


def read(config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], name: str = "a") -> QuantizedWeight:
    found = claim(config, tensors, name)
    assert not found.faults and isinstance(found.source, Quantized) and found.leaves == set(tensors)
    return found.source.read({leaf: tensors[leaf] for leaf in found.source.tensors})  # type: ignore[return-value]


def codes(out: int, width: int) -> torch.Tensor:
    return (torch.randn(out, width, generator=torch.Generator().manual_seed(out)) * 50).to(torch.float8_e4m3fn)


def by_block(weight: torch.Tensor, scales: torch.Tensor, block: tuple[int, int]) -> torch.Tensor:
    """The definition, one element after the other."""
    values, table = weight.float().tolist(), scales.float().tolist()
    rows = [
        [value * table[r // block[0]][c // block[1]] for c, value in enumerate(row)] for r, row in enumerate(values)
    ]
    return torch.tensor(rows)


@pytest.mark.parametrize("shape", [(32, 64), (33, 65), (31, 63), (97, 129)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_may_be_partial(shape: tuple[int, int], dtype: torch.dtype) -> None:
    scales = (torch.rand(-(-shape[0] // 32), -(-shape[1] // 64)) + 0.1).to(dtype)
    weight = codes(*shape)
    found = read(BLOCKS, {"weight": weight, "weight_scale_inv": scales})
    assert torch.equal(found.dequantize(), by_block(weight, scales, (32, 64)))
    assert found.activations is not None and (found.activations.per, found.activations.group_size) == ("group", 64)


@pytest.mark.parametrize(("rows", "columns", "row", "block_row"), [(576, 2048, 575, 4), (1000, 256, 126, 0)])
def test_a_row_uses_its_own_block_of_the_configs_size(rows: int, columns: int, row: int, block_row: int) -> None:
    scales = torch.arange(1.0, 1 + -(-rows // 128) * (columns // 128)).view(-1, columns // 128)
    tensors = {"weight": codes(rows, columns), "weight_scale_inv": scales}
    found = read({**BLOCKS, "weight_block_size": [128, 128]}, tensors)
    expected = tensors["weight"][row].float() * scales[block_row].repeat_interleave(128)
    assert torch.equal(found.dequantize()[row], expected)


def test_blocks_are_never_derived_from_shapes() -> None:
    many = claim(BLOCKS, {"weight": codes(1000, 64), "weight_scale_inv": torch.ones(8, 1)})
    assert many.faults == ("a.weight_scale_inv is F32 [8, 1], not F32 or BF16 or F16 [32, 1]",)
    unsaid = claim({"quant_method": "fp8"}, {"weight": codes(256, 256), "weight_scale_inv": torch.ones(2, 2)})
    assert len(unsaid.faults) == 1 and "weight_scale_inv is F32 [2, 2]" in unsaid.faults[0]


@pytest.mark.parametrize("projection", ["q_proj", "k_proj"])
def test_no_row_of_queries_and_keys_moves(projection: str) -> None:
    """A block of 32 rows straddles heads of 24: moving rows without their scales would show."""
    scales = torch.tensor([[1.0], [10.0], [100.0]])
    weight = codes(96, 48)
    found = read(BLOCKS, {"weight": weight, "weight_scale_inv": scales}, f"model.layers.0.self_attn.{projection}")
    assert float((found.dequantize() - by_block(weight, scales, (32, 64))).abs().max()) == 0


@pytest.mark.parametrize("scale", [torch.tensor(0.25), torch.tensor([0.25]), torch.rand(12), torch.rand(12, 1)])
@pytest.mark.parametrize("leaf", ["weight_scale", "weight_scale_inv"])
def test_one_scale_or_one_a_row(scale: torch.Tensor, leaf: str) -> None:
    weight = codes(12, 9)
    found = read({"quant_method": "fp8"}, {"weight": weight, leaf: scale})
    assert torch.equal(found.dequantize(), weight.float() * scale.reshape(-1, 1))
    assert found.activations is not None and found.activations.per == "token"
    assert ("per channel" if scale.numel() > 1 else "per tensor") in found.scheme


def test_shards_keep_a_scale_each() -> None:
    """Engines that fuse q, k and v requantize them to the greatest scale; here each is multiplied by its own."""
    for number, name in enumerate(("q_proj", "k_proj", "v_proj"), start=1):
        scale = torch.tensor(float(number))
        tensors = {"weight": codes(8, 8), "weight_scale": scale, "input_scale": torch.tensor(0.5)}
        found = read(TENSOR, tensors, name)
        assert torch.equal(found.dequantize(), codes(8, 8).float() * number)
        assert found.activations is not None and float(found.activations.scale) == 0.5  # type: ignore[arg-type]


def test_what_is_plain_stays_plain() -> None:
    found = claim(BLOCKS, {"weight": torch.ones(4, 4).bfloat16()})
    assert isinstance(found.source, Plain) and not found.faults


@pytest.mark.parametrize(
    ("config", "change", "fault"),
    [
        (BLOCKS, {"weight_scale_inv": None}, "a: weight_scale missing"),
        (TENSOR, {"input_scale": None}, "a: input_scale missing"),
        (BLOCKS, {"input_scale": torch.ones(1)}, "a.input_scale is there, but activation_scheme is dynamic"),
        (BLOCKS, {"weight": torch.ones(40, 70, dtype=torch.int8)}, "a.weight is I8 [40, 70], not F8_E4M3 [40, 70]"),
        ({**BLOCKS, "modules_to_not_convert": ["a"]}, {}, "a is quantized, but modules_to_not_convert names it"),
    ],
)
def test_faults_name_the_layer(config: dict[str, Any], change: dict[str, Any], fault: str) -> None:
    scales = {"weight_scale_inv": torch.ones(2, 2)} if config.get("weight_block_size") else {
        "weight_scale": torch.tensor(1.0), "input_scale": torch.tensor(1.0)}  # fmt: skip
    tensors = {"weight": codes(40, 70), **scales, **change}
    found = claim(config, {leaf: one for leaf, one in tensors.items() if one is not None})
    assert fault in found.faults


def test_a_list_of_unquantized_modules_ends_at_dots() -> None:
    config = {**BLOCKS, "modules_to_not_convert": ["model.layers.0.mlp.gate", "lm_head"]}
    tensors = {"weight": codes(40, 70), "weight_scale_inv": torch.ones(2, 2)}
    assert not claim(config, tensors, "model.layers.0.mlp.gate_proj").faults
    assert claim(config, tensors, "model.layers.0.mlp.gate").faults
    assert claim(config, tensors, "model.layers.0.mlp.gate.inner").faults


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scales_must_be_finite(value: float) -> None:
    with pytest.raises(EngineError, match=r"a: weight_scale_inv is not finite"):
        read(BLOCKS, {"weight": codes(40, 70), "weight_scale_inv": torch.full((2, 2), value)})
    with pytest.raises(EngineError, match=r"a: input_scale is 0; it must be positive"):
        read(TENSOR, {"weight": codes(4, 4), "weight_scale": torch.tensor(1.0), "input_scale": torch.tensor(0.0)})


def test_all_settings_that_cannot_be_honoured_are_named_at_once() -> None:
    config = {
        **BLOCKS, "activation_scheme": "static", "scale_fmt": "ue8m0", "fmt": "e5m2", "kv_cache_scheme": "token",
        "rotate": True, "expert_dtype": "fp4",
    }  # fmt: skip
    with pytest.raises(EngineError) as caught:
        open_format(SimpleNamespace(name="m"), config)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="activation_scale_ub is 'high'.*modules_to_not_convert is 'lm_head'"):
        fbgemm = {"quant_method": "fbgemm_fp8", "activation_scale_ub": "high", "modules_to_not_convert": "lm_head"}
        open_format(SimpleNamespace(name="m"), fbgemm)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="weight_block_size is 128"):
        open_format(SimpleNamespace(name="m"), {**BLOCKS, "weight_block_size": 128})  # type: ignore[arg-type]
    for part in ("activation_scheme static", "ue8m0", "e5m2", "KV cache", "'rotate'", "fp4"):
        assert part in str(caught.value), part


def e4m3(value: float) -> float:
    """The nearest e4m3 number, by the format's definition: 3 bits of mantissa, least exponent -6, at most 448."""
    size = min(abs(value), 448.0)
    step = 2.0**-9
    while size >= step * 16:
        step *= 2
    near = round(size / step) * step  # Python rounds halves to even, as the format does
    return min(near, 448.0) if value >= 0 else -min(near, 448.0)


def rounded_by(
    group: int | None, bound: float | None, scale: float | None
) -> Callable[[str, torch.Tensor], torch.Tensor]:
    """The definition of rounded inputs, value after value."""

    def rounded(name: str, rows: torch.Tensor) -> torch.Tensor:
        out = []
        for row in rows.tolist():
            size, line = group or len(row), []
            for start in range(0, len(row), size):
                part = row[start : start + size]
                top = max(map(abs, part))
                one = scale or float(torch.tensor(min(top, bound or top)) / 448)
                line += [e4m3(float(torch.tensor(value) / torch.tensor(one))) * one for value in part]
            out.append(line)
        return torch.tensor(out)

    return rounded


@pytest.mark.parametrize("kind", ["blocks", "static", "rows"])
def test_a_whole_checkpoint(kind: str, stored_llama: Any, run_folder: Callable[[Path], Any]) -> None:
    weights = {}
    for name, weight in stored_llama.linears.items():
        if name.endswith("1.mlp.down_proj"):
            continue  # left as it is, and listed
        block = {"blocks": (32, 64), "static": tuple(weight.shape), "rows": (1, weight.shape[1])}[kind]
        scales = torch.empty(-(-weight.shape[0] // block[0]), -(-weight.shape[1] // block[1]))
        stored = torch.empty_like(weight, dtype=torch.float8_e4m3fn)
        for r in range(scales.shape[0]):
            for c in range(scales.shape[1]):
                place = slice(r * block[0], (r + 1) * block[0]), slice(c * block[1], (c + 1) * block[1])
                scales[r, c] = weight[place].abs().max() / 448
                stored[place] = (weight[place] / scales[r, c]).to(torch.float8_e4m3fn)
        weights[name] = by_block(stored, scales, block)
        parts = {"weight": stored, "weight_scale_inv": scales}
        if kind == "static":
            parts = {"weight": stored, "weight_scale": scales[0, 0], "input_scale": torch.tensor(0.01)}
        stored_llama.replace(name, {"weight": stored, "weight_scale": scales} if kind == "rows" else parts)
    config = {
        "blocks": {**BLOCKS, "modules_to_not_convert": ["lm_head", "model.layers.1.mlp.down_proj"]},
        "static": {**TENSOR, "ignored_layers": ["re:.*lm_head", "model.layers.1.mlp.down_proj"]},
        "rows": {"quant_method": "fbgemm_fp8", "activation_scale_ub": 0.5, "modules_to_not_convert": ["lm_head"]},
    }[kind]
    ran = run_folder(stored_llama.save(config))
    how = rounded_by({"blocks": 64}.get(kind), {"rows": 0.5}.get(kind), {"static": 0.01}.get(kind))
    torch.testing.assert_close(ran.logits, stored_llama.reference(weights, how, ran), atol=1e-4, rtol=0)


def test_all_faults_of_a_folder_come_at_once(stored_llama: Any, run_folder: Callable[[Path], Any]) -> None:
    """Before any forward: a scale that is missing, one of another shape, and scales of a KV cache nobody asked for."""
    names = list(stored_llama.linears)
    stored_llama.replace(names[0], {"weight": codes(96, 96)})
    stored_llama.replace(names[4], {"weight": codes(208, 96), "weight_scale_inv": torch.ones(2, 2)})
    stored_llama.tensors["model.layers.0.self_attn.k_scale"] = torch.ones(())
    with pytest.raises(EngineError) as caught:
        run_folder(stored_llama.save(BLOCKS))
    for part in (
        f"{names[0]}: weight_scale missing",
        f"{names[4]}.weight_scale_inv is F32 [2, 2], not F32 or BF16 or F16 [7, 2]",
        "not part of the model (1): model.layers.0.self_attn.k_scale",
    ):
        assert part in str(caught.value), part
