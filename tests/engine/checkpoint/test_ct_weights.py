"""Each storage of compressed-tensors, written by the library itself, against the library's own decompression."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from evalcard_engine.checkpoint.claims import ModuleClaim, Quantized
from evalcard_engine.checkpoint.compressed_tensors import read_format
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import open_checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.quant.weight import QuantizedWeight

pytest.importorskip("compressed_tensors", reason="the library whose files are read")

Tensors = dict[str, torch.Tensor]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"int{bits} group {'sym' if symmetric else 'asym'}": (
            "pack-quantized",
            {"num_bits": bits, "strategy": "group", "group_size": 32, "symmetric": symmetric},
        )
        for bits in range(2, 9)
        for symmetric in (True, False)
    },
    "int4 channel packed": ("pack-quantized", {"num_bits": 4, "strategy": "channel"}),
    "int4 channel packed asym": ("pack-quantized", {"num_bits": 4, "strategy": "channel", "symmetric": False}),
    "int4 tensor packed": ("pack-quantized", {"num_bits": 4, "strategy": "tensor"}),
    "int4 tensor packed asym": ("pack-quantized", {"num_bits": 4, "strategy": "tensor", "symmetric": False}),
    "int8 channel": ("int-quantized", {"num_bits": 8, "strategy": "channel"}),
    "int8 channel asym": ("int-quantized", {"num_bits": 8, "strategy": "channel", "symmetric": False}),
    "int8 tensor": ("int-quantized", {"num_bits": 8, "strategy": "tensor"}),
    "int8 group": ("int-quantized", {"num_bits": 8, "strategy": "group", "group_size": 48}),
    "int4 naive": ("naive-quantized", {"num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": False}),
    "int6 naive": ("naive-quantized", {"num_bits": 6, "strategy": "channel"}),
    "fp8 tensor": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "tensor"}),
    "fp8 channel": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}),
    "fp8 group": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32}),
    "fp8 naive": ("naive-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}),
    "fp8 block": (
        "float-quantized",
        {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [16, 40]},
    ),
    "nvfp4": (
        "nvfp4-pack-quantized",
        {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
        | {"scale_dtype": "torch.float8_e4m3fn"},
    ),
    "mxfp4": (
        "mxfp4-pack-quantized",
        {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"},
    ),
    "mxfp8": (
        "mxfp8-quantized",
        {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"},
    ),
}
"""Name -> (format, arguments of the weights). 27 x 96: rows that divide nothing, and partial blocks both ways."""


def matrix(out: int = 27, width: int = 96, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(out * width)
    weight = torch.randn(out, width, generator=generator)
    weight[1] *= 30
    weight[2, 5:9] = 0
    return weight.to(dtype)


def scheme_of(fmt: str, settings: dict[str, Any]) -> Any:
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**settings), format=fmt)


def written(weight: torch.Tensor, scheme: Any) -> Tensors:
    """The library's own file tensors of a weight, its scales from the library's own formulas."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    args, extra = scheme.weights, {}
    if args.strategy == "tensor_group":
        extra["weight_global_scale"] = generate_gparam(weight.min(), weight.max())
    shared = shares(weight, args)
    low, high = shared.amin(dim=-1), shared.amax(dim=-1)
    scale, zero = calculate_qparams(low, high, args, extra.get("weight_global_scale"))
    state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero, **extra}
    return BaseCompressor.get_value_from_registry(scheme.format).compress(state, scheme)


def shares(weight: torch.Tensor, args: Any) -> torch.Tensor:
    """[..., n]: the values that share a scale along the last dimension, the rest as the library shapes scales."""
    if args.strategy == "tensor":
        return weight.reshape(1, -1)
    if args.strategy == "channel":
        return weight[:, None, :]
    if args.strategy != "block":
        return weight.unflatten(1, (-1, args.group_size))
    rows, columns = args.block_structure
    padding = (0, -weight.shape[1] % columns, 0, -weight.shape[0] % rows)
    blocks = torch.nn.functional.pad(weight, padding).unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
    return blocks.transpose(1, 2).flatten(2)


def decompressed(tensors: Tensors, scheme: Any) -> torch.Tensor:
    from compressed_tensors.compressors import BaseCompressor

    compressor = BaseCompressor.get_value_from_registry(scheme.format)
    return compressor.decompress(dict(tensors), scheme)["weight"]


def config_of(scheme: Any) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "format": scheme.format,
        "config_groups": {"group_0": json.loads(scheme.model_dump_json())},
    }


@pytest.fixture
def claim(tmp_path: Path) -> Callable[..., tuple[ModuleClaim, TensorReader]]:
    """Store tensors of one module ``m`` and let the format claim them."""

    def make(tensors: Tensors, config: dict[str, Any], shape: tuple[int, int]) -> tuple[ModuleClaim, TensorReader]:
        (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
        stored = {f"m.{leaf}": tensor.contiguous() for leaf, tensor in tensors.items()}
        save_file(stored, tmp_path / "model.safetensors")
        checkpoint = open_checkpoint(str(tmp_path))
        fmt, faults = read_format(checkpoint, config)
        assert not faults
        parts = {name.removeprefix("m."): place for name, place in checkpoint.tensors.items()}
        return fmt.module("m", shape, parts), TensorReader(checkpoint)

    return make


@pytest.fixture
def read(claim) -> Callable[..., QuantizedWeight]:
    def make(tensors: Tensors, config: dict[str, Any], shape: tuple[int, int]) -> QuantizedWeight:
        found, reader = claim(tensors, config, shape)
        assert not found.faults, found.faults
        assert isinstance(found.source, Quantized) and set(found.leaves) == set(tensors)
        weight = found.source.read({leaf: reader[tensor] for leaf, tensor in found.source.tensors.items()})
        assert isinstance(weight, QuantizedWeight)
        return weight

    return make


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", CASES)
def test_dequantized_weights_are_the_librarys_to_the_last_bit(read, name: str, dtype: torch.dtype) -> None:
    scheme = scheme_of(*CASES[name])
    tensors = written(matrix(dtype=dtype), scheme)
    expected = decompressed(tensors, scheme)
    found = read(tensors, config_of(scheme), (27, 96)).dequantize()
    assert torch.equal(found.to(expected.dtype), expected)
    step = float((matrix(dtype=dtype).float() - found).norm() / matrix().float().norm())
    assert step < 0.5, step  # and the library's numbers are near the weight itself


@pytest.mark.parametrize("bits", [3, 5, 6, 7])
@pytest.mark.parametrize("symmetric", [True, False])
def test_the_older_packing_with_unused_bits(read, bits: int, symmetric: bool) -> None:
    """Until version 0.17 no code straddled two words; the number of words tells which is meant."""
    settings = {"num_bits": bits, "strategy": "group", "group_size": 32, "symmetric": symmetric}
    scheme = scheme_of("pack-quantized", settings)
    tensors = written(matrix(), scheme)
    expected = decompressed(tensors, scheme)
    codes = unpacked(tensors["weight_packed"], bits, 96)
    tensors["weight_packed"] = padded(codes, bits)
    if not symmetric:
        zeros = unpacked(tensors["weight_zero_point"].t().contiguous(), bits, 27)
        tensors["weight_zero_point"] = padded(zeros, bits).t()
    found = read(tensors, config_of(scheme), (27, 96)).dequantize()
    assert torch.equal(found.to(expected.dtype), expected)


@pytest.mark.parametrize("rows", [27, 10])
def test_words_that_may_be_packed_in_two_ways_are_refused(claim, rows: int) -> None:
    """27 zero points of 6 bits take six words either way; where the weights tell nothing either, nothing does."""
    settings = {"num_bits": 6, "strategy": "group", "group_size": 27, "symmetric": False}
    scheme = scheme_of("pack-quantized", settings)
    found, _ = claim(written(matrix(rows, 27), scheme), config_of(scheme), (rows, 27))
    assert found.faults == ("m: whether its codes of 6 bits straddle words cannot be told from its shapes",)


def unpacked(words: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32

    return unpack_from_int32(words, bits, (words.shape[0], count)).long() + 2 ** (bits - 1)


def padded(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Codes [rows, columns] into words of 32 // bits codes each."""
    each = 32 // bits
    words = torch.zeros(codes.shape[0], math.ceil(codes.shape[1] / each), dtype=torch.int64)
    for column in range(codes.shape[1]):
        words[:, column // each] |= codes[:, column] << bits * (column % each)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def test_zero_points_are_packed_along_the_rows(read) -> None:
    """In figures: [16, 256] in groups of 128 has zero points [2, 2], those of row r in nibble r % 8 of word r // 8."""
    scheme = scheme_of("pack-quantized", {"num_bits": 4, "strategy": "group", "group_size": 128, "symmetric": False})
    tensors = written(matrix(16, 256), scheme)
    shapes = {leaf: tuple(tensor.shape) for leaf, tensor in tensors.items() if leaf != "weight_shape"}
    assert shapes == {"weight_packed": (16, 32), "weight_scale": (16, 2), "weight_zero_point": (2, 2)}
    found = read(tensors, config_of(scheme), (16, 256)).dequantize()
    words, packed = tensors["weight_zero_point"].tolist(), tensors["weight_packed"].tolist()
    for row in range(16):
        for column in (0, 7, 127, 128, 255):
            zero = (words[row // 8][column // 128] >> 4 * (row % 8) & 15) - 8
            code = (packed[row][column // 8] >> 4 * (column % 8) & 15) - 8
            assert float(found[row, column]) == (code - zero) * float(tensors["weight_scale"][row, column // 128])


def test_nvfp4_scales_are_divided_by_the_global_scale(read, claim) -> None:
    """6 under the group scale 448 and the global scale 2688 is 1."""
    tensors = {
        "weight_packed": torch.full((1, 8), 0x7F, dtype=torch.uint8),  # low nibble 15 is -6, high nibble 7 is 6
        "weight_scale": torch.tensor([[448.0]]).to(torch.float8_e4m3fn),
        "weight_global_scale": torch.tensor([2688.0]),
    }
    config = config_of(scheme_of(*CASES["nvfp4"]))
    assert read(tensors, config, (1, 16)).dequantize().tolist() == [[-1.0, 1.0] * 8]
    for wrong in (torch.inf, -2688.0):  # an infinite one would make every weight 0
        claimed, _ = claim(tensors | {"weight_global_scale": torch.tensor([wrong])}, config, (1, 16))
        assert [fault for fault in claimed.faults if "weight_global_scale" in fault or "scales" in fault]


@pytest.mark.parametrize(
    ("shape", "block", "blocks", "row", "block_row"),
    [
        ((576, 256), [128, 128], (5, 2), 575, 4),
        ((4544, 128), [128, 128], (36, 1), 4543, 35),
        ((1000, 200), [128, 128], (8, 2), 126, 0),  # a block of 125 rows, had it been derived from the shapes, gives 1
    ],
)
def test_blocks_are_cut_as_the_config_says(read, shape, block, blocks, row: int, block_row: int) -> None:
    settings = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": block}
    scales = torch.arange(1.0, 1 + blocks[0] * blocks[1]).view(blocks)
    tensors = {"weight": torch.ones(shape).to(torch.float8_e4m3fn), "weight_scale": scales}
    found = read(tensors, config_of(scheme_of("float-quantized", settings)), shape).dequantize()
    assert float(found[row, 0]) == float(scales[block_row, 0])
    assert float(found[row, -1]) == float(scales[block_row, -1])


def test_widths_that_only_small_groups_divide(read) -> None:
    """10944 columns in groups of 64, as a known model has them."""
    scheme = scheme_of("pack-quantized", {"num_bits": 4, "strategy": "group", "group_size": 64})
    tensors = written(matrix(5, 10944), scheme)
    found = read(tensors, config_of(scheme), (5, 10944))
    assert found.scales.shape == (5, 171)
    assert torch.equal(found.dequantize().bfloat16(), decompressed(tensors, scheme))


@pytest.mark.parametrize(("width", "group"), [(768, 512), (3420, 128)])
def test_groups_that_do_not_divide_are_named_with_layer_shape_and_size(claim, width: int, group: int) -> None:
    """Case 103; whatever lies in the files, as tools differ over a rest of a group."""
    settings = {"num_bits": 4, "strategy": "group", "group_size": group}
    groups = -(-width // group)
    tensors = {"weight_packed": torch.zeros(4, -(-width // 8), dtype=torch.int32),
               "weight_scale": torch.ones(4, groups), "weight_shape": torch.tensor([4, width])}  # fmt: skip
    found, _ = claim(tensors, config_of(scheme_of("pack-quantized", settings)), (4, width))
    assert found.faults == (f"m: {width} columns of [4, {width}] do not divide into groups of {group}",)


def test_act_order_group_gives_each_column_its_own_group(read) -> None:
    """Columns of a group lie anywhere and weight_g_idx names their groups (versions up to 0.18)."""
    config = {
        "format": "pack-quantized",
        "config_groups": {"group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "strategy": "group", "group_size": 4, "symmetric": False, "actorder": "group"},
        }},
    }  # fmt: skip
    codes = torch.arange(16).view(2, 8)
    tensors = {
        "weight_packed": padded(codes, 4),
        "weight_shape": torch.tensor([2, 8]),
        "weight_scale": torch.tensor([[1.0, 10.0], [2.0, 20.0]]),
        "weight_zero_point": padded(torch.tensor([[8, 7], [0, 15]]).t().contiguous(), 4).t(),
        "weight_g_idx": torch.tensor([1, 0, 1, 0, 0, 1, 0, 1], dtype=torch.int32),
    }
    expected = [
        [(0 - 7) * 10, 1 - 8, (2 - 7) * 10, 3 - 8, 4 - 8, (5 - 7) * 10, 6 - 8, (7 - 7) * 10],
        [(8 - 15) * 20, 9 * 2, (10 - 15) * 20, 11 * 2, 12 * 2, (13 - 15) * 20, 14 * 2, 0],
    ]
    assert read(tensors, config, (2, 8)).dequantize().tolist() == expected


@pytest.mark.parametrize("actorder", [None, "weight", "static"])
@pytest.mark.parametrize("index", [None, torch.full((96,), -1, dtype=torch.int32), torch.arange(96).int() // 32])
def test_other_orders_store_nothing_else(read, actorder: str | None, index: torch.Tensor | None) -> None:
    settings = {"num_bits": 4, "strategy": "group", "group_size": 32, "actorder": actorder}
    scheme = scheme_of("pack-quantized", settings)
    tensors = written(matrix(), scheme)
    expected = decompressed(tensors, scheme)
    if index is not None:  # left over from calibration
        tensors["weight_g_idx"] = index
    assert torch.equal(read(tensors, config_of(scheme), (27, 96)).dequantize().bfloat16(), expected)


ASYM = {"num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": False}
W4 = {"num_bits": 4, "strategy": "group", "group_size": 32}
FAULTS: dict[str, tuple[dict[str, Any], Callable[[Tensors], Tensors], str]] = {
    "no scales": (W4, lambda t: without(t, "weight_scale"), "m: weight_scale missing"),
    "no zero points": (ASYM, lambda t: without(t, "weight_zero_point"), "m: weight_zero_point missing"),
    "no shape": (W4, lambda t: without(t, "weight_shape"), "m: weight_shape missing"),
    "no group index": ({**W4, "actorder": "group"}, lambda t: t, "m: weight_g_idx missing"),
    "an order that is not configured": (
        W4, lambda t: {**t, "weight_g_idx": torch.arange(96).flip(0).int() // 32}, "reorders its groups",
    ),
    "a group without scales": (
        {**W4, "actorder": "group"}, lambda t: {**t, "weight_g_idx": torch.full((96,), 3)}, "names groups beyond the 3",
    ),
    "NaN": (W4, lambda t: {**t, "weight_scale": spoiled(t["weight_scale"])}, "m: its weight scales are not all finite"),
    "other shape": (W4, lambda t: {**t, "weight_shape": torch.tensor([27, 95])}, "weight_shape is [27, 95]"),
    "other groups": (W4, lambda t: {**t, "weight_scale": t["weight_scale"][:, :2]}, "m.weight_scale is BF16 [27, 2]"),
    "other words": (W4, lambda t: {**t, "weight_packed": t["weight_packed"][:, :7]}, "m.weight_packed is I32 [27, 7]"),
    "groups that do not divide": ({**W4, "group_size": 36}, lambda t: t, "96 columns of [27, 96] do not divide"),
    "bits": ({**W4, "num_bits": 9}, lambda t: t, "int weights of 9 bits; int of 2 to 8"),
    "one bit": ({**W4, "num_bits": 1}, lambda t: t, "int weights of 1 bits"),
    "float bits": ({**W4, "type": "float", "num_bits": 6}, lambda t: t, "float weights of 6 bits"),
    "left-over zero points": (
        W4, lambda t: {**t, "weight_zero_point": torch.ones(27, 3, dtype=torch.int8)}, "its zero points are not 0",
    ),
    "not packed": (W4, lambda t: {**t, "weight_packed": None}, "m: its weight is not packed"),
}  # fmt: skip


def without(tensors: Tensors, leaf: str) -> Tensors:
    return {name: tensor for name, tensor in tensors.items() if name != leaf}


def spoiled(scale: torch.Tensor) -> torch.Tensor:
    scale = scale.clone()
    scale[3, 1] = torch.nan
    return scale


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found_before_weights_are_read_and_name_the_layer(claim, name: str) -> None:
    settings, change, expected = FAULTS[name]
    tensors = change(written(matrix(), scheme_of("pack-quantized", ASYM if not settings.get("symmetric", 1) else W4)))
    if tensors["weight_packed"] is None:
        tensors = {"weight": torch.zeros(27, 96, dtype=torch.int8), "weight_scale": tensors["weight_scale"]}
    config = {"format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"], "weights": settings}}}
    found, _ = claim(tensors, config, (27, 96))
    assert any(expected in fault and fault.startswith("m") for fault in found.faults), found.faults
    assert set(found.leaves) <= set(tensors)


def test_integers_beyond_their_bits_are_refused(claim) -> None:

    config = {"config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4, "strategy": "channel"}}}}
    tensors = {"weight": torch.full((2, 4), 8, dtype=torch.int8), "weight_scale": torch.ones(2, 1)}
    found, reader = claim(tensors, config, (2, 4))
    assert isinstance(found.source, Quantized)
    with pytest.raises(EngineError, match="m: its weights are no integers of 4 bits"):
        found.source.read({leaf: reader[tensor] for leaf, tensor in found.source.tensors.items()})


def test_weights_that_are_nan_are_refused(claim) -> None:
    from evalcard_engine.errors import EngineError

    scheme = scheme_of(*CASES["fp8 channel"])
    tensors = written(matrix(), scheme)
    tensors["weight"].view(torch.uint8)[5, 6] = 0xFF
    found, reader = claim(tensors, config_of(scheme), (27, 96))
    assert isinstance(found.source, Quantized)
    with pytest.raises(EngineError, match="m: some of its weights are NaN"):
        found.source.read({leaf: reader[tensor] for leaf, tensor in found.source.tensors.items()})
