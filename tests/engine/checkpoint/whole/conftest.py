"""Every format that weights come in: a module's tensors as its own tool writes them, or by the layout's definition, and
what they stand for as the tool, or a slow definition, has it. None of it is the engine's."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

Tensors = dict[str, torch.Tensor]
Stored = tuple[Tensors, torch.Tensor]
"""(parts of a module, float32 weight [out, in] that they stand for)"""
Rounding = Callable[[torch.Tensor], torch.Tensor]
GROUP = 32
_FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@dataclass(frozen=True)
class Kind:
    """One way of storing a model's linears."""

    store: Callable[[torch.Tensor], Stored]
    config: Mapping[str, Any]
    """quantization_config of config.json."""
    scales: tuple[str, ...]
    """Parts that hold scales, each of which must be finite."""
    rounded: Rounding | None = None
    """What enters the product of a linear; None where inputs stay as they are."""
    metadata: Callable[[Mapping[str, torch.Tensor]], dict[str, str]] | None = None
    """Of the file, from {module: weight}."""
    needs: tuple[str, ...] = ()
    """Libraries that write it."""


def by_group(codes: torch.Tensor, zeros: torch.Tensor | int, scales: torch.Tensor) -> torch.Tensor:
    """(code - zero point) * scale with a scale for each run of columns."""
    size = codes.shape[1] // scales.shape[1]
    wide = zeros if isinstance(zeros, int) else zeros.repeat_interleave(size, 1)
    return (codes - wide).float() * scales.float().repeat_interleave(size, 1)


def codes_of(weight: torch.Tensor, bits: int, sym: bool, groups: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """(codes 0 .. 2^bits - 1, zero points, float16 scales) of columns in any groups: rounded to nearest."""
    number, top = int(groups.max()) + 1, 2**bits - 1
    parts = [weight[:, groups == one] for one in range(number)]
    low = torch.stack([part.amin(1).clamp_max(0) for part in parts], 1)
    high = torch.stack([part.amax(1).clamp_min(0) for part in parts], 1)
    if sym:
        scales = (torch.maximum(high, -low) / (top // 2)).half()
        zeros = torch.full_like(scales, 2 ** (bits - 1), dtype=torch.long)
    else:
        scales = ((high - low) / top).half()
        zeros = (-low / scales.float()).round().clamp(0, top).long()
    codes = (weight / scales.float()[:, groups] + zeros[:, groups]).round().clamp(0, top).long()
    return codes, zeros, scales


def stream(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Each row as one stream of bits, every code and word from its low end: int32 [rows, words]."""
    spread = ((codes.numpy()[:, :, None] >> np.arange(bits)) & 1).astype(np.uint8).reshape(len(codes), -1)
    return torch.from_numpy(np.packbits(spread, axis=1, bitorder="little").view(np.int32).copy())


def gptq(bits: int, sym: bool = False, v2: bool = False, act_order: bool = False) -> Callable[[torch.Tensor], Stored]:
    def store(weight: torch.Tensor) -> Stored:
        groups = torch.arange(weight.shape[1]) // GROUP
        if act_order:
            groups = groups[torch.randperm(len(groups), generator=torch.Generator().manual_seed(5))]
        codes, zeros, scales = codes_of(weight, bits, sym, groups)
        kept = zeros if v2 else (zeros - 1) % 2**bits
        parts = {"qweight": stream(codes, bits).t(), "qzeros": stream(kept.t(), bits), "scales": scales.t(),
                 "g_idx": groups.int()}  # fmt: skip
        return parts, (codes - zeros[:, groups]).float() * scales.float()[:, groups]

    return store


def awq(weight: torch.Tensor) -> Stored:
    """Nibbles of a word hold the columns 0, 2, 4, 6, 1, 3, 5, 7, from its low end."""
    codes, zeros, scales = codes_of(weight, 4, False, torch.arange(weight.shape[1]) // GROUP)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    columns, shifts = (one.t().reshape(one.shape[1], -1, 8)[:, :, order].flatten(1) for one in (codes, zeros))
    parts = {"qweight": stream(columns, 4), "qzeros": stream(shifts, 4), "scales": scales.t()}
    return parts, by_group(codes, zeros, scales)


def e4m3_rows(rows: torch.Tensor, size: int) -> torch.Tensor:
    """Inputs by token or by group of it: the greatest magnitude becomes 448."""
    parts = rows.unflatten(1, (-1, size))
    scales = parts.abs().amax(-1, keepdim=True) / 448
    return ((parts / scales).to(torch.float8_e4m3fn).float() * scales).flatten(1)


def int8_rows(rows: torch.Tensor) -> torch.Tensor:
    step = rows.abs().amax(1, keepdim=True) / 127
    return torch.round(rows / step) * step


def fp8_blocks(weight: torch.Tensor) -> Stored:
    """Blocks of 48 x 64, the last ones partial."""
    scales = torch.empty(-(-weight.shape[0] // 48), -(-weight.shape[1] // 64))
    stored, plain = torch.empty_like(weight, dtype=torch.float8_e4m3fn), torch.empty_like(weight)
    for r, c in np.ndindex(*scales.shape):
        at = slice(48 * r, 48 * r + 48), slice(64 * c, 64 * c + 64)
        scales[r, c] = weight[at].abs().max() / 448
        stored[at] = (weight[at] / scales[r, c]).to(torch.float8_e4m3fn)
        plain[at] = stored[at].float() * scales[r, c]
    return {"weight": stored, "weight_scale_inv": scales}, plain


def modelopt_fp4(weight: torch.Tensor) -> Stored:
    whole = weight.abs().max() / (6 * 448)
    scales = (weight.unflatten(1, (-1, 16)).abs().amax(-1) / 6 / whole).to(torch.float8_e4m3fn)
    wide = (scales.float() * whole).repeat_interleave(16, 1)
    codes = ((weight / wide)[..., None] - _FP4).abs().argmin(-1)
    parts = {"weight": (codes[:, 0::2] | codes[:, 1::2] << 4).byte(), "weight_scale": scales, "weight_scale_2": whole,
             "input_scale": torch.tensor(0.01)}  # fmt: skip
    return parts, _FP4[codes] * wide


def fp4_rows(rows: torch.Tensor) -> torch.Tensor:
    parts = rows.unflatten(1, (-1, 16))
    scales = (parts.abs().amax(-1, keepdim=True) / 6 / 0.01).to(torch.float8_e4m3fn).float() * 0.01
    nearest = ((parts / scales)[..., None] - _FP4).abs().argmin(-1)
    return (_FP4[nearest] * scales).flatten(1)


def bnb(kind: str) -> Callable[[torch.Tensor], Stored]:
    def store(weight: torch.Tensor) -> Stored:
        import bitsandbytes.functional as library

        if kind == "int8":
            codes, greatest, _ = library.int8_vectorwise_quant(weight.half())
            return {"weight": codes, "SCB": greatest}, codes.float() * (greatest[:, None] / 127)
        packed, state = library.quantize_4bit(weight, quant_type=kind, compress_statistics=kind == "nf4", blocksize=64)
        parts = {f"weight.{key}": part for key, part in state.as_dict(packed=True).items()}
        with torch.compiler.set_stance("force_eager"):
            return {"weight": packed, **parts}, library.dequantize_4bit(packed, state).float()

    return store


def ct(fmt: str, weights: Mapping[str, Any], inputs: Mapping[str, Any] | None = None, **given: float) -> Kind:
    """By compressed-tensors itself. given: scales of inputs that are stored."""
    group = {"targets": ["Linear"], "format": fmt, "weights": dict(weights), "input_activations": inputs}
    config = {"quant_method": "compressed-tensors", "format": fmt, "config_groups": {"g": group}, "ignore": ["lm_head"]}
    parts = {name: torch.tensor([value]) for name, value in given.items()}
    rounded = None if inputs is None else lambda rows: _ct_rounded(inputs, rows, next(iter(parts.values()), None))
    if inputs is not None and inputs.get("type", "int") == "int" and inputs.get("dynamic"):
        rounded = int8_rows
    return Kind(lambda weight: _ct_store(fmt, weights, weight, parts), config, ("weight_scale",), rounded,
                needs=("compressed_tensors",))  # fmt: skip


def _ct_store(fmt: str, settings: Mapping[str, Any], weight: torch.Tensor, more: Tensors) -> Stored:
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    args = QuantizationArgs(**settings)
    state = {"weight": weight}
    if args.strategy == "tensor_group":
        state["weight_global_scale"] = generate_gparam(weight.min(), weight.max())
    if args.strategy == "block":
        rows, columns = args.block_structure
        shared = weight.unflatten(1, (-1, columns)).unflatten(0, (-1, rows)).transpose(1, 2).flatten(2)
    else:
        size = {"channel": weight.shape[1], "tensor": weight.numel()}.get(args.strategy, args.group_size)
        shared = weight.reshape(1 if args.strategy == "tensor" else len(weight), -1, size)
    scale, zero = calculate_qparams(shared.amin(-1), shared.amax(-1), args, state.get("weight_global_scale"))
    if args.strategy == "tensor":
        scale, zero = scale.reshape(1), zero.reshape(1)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format=fmt)
    compressor = BaseCompressor.get_value_from_registry(fmt)
    tensors = compressor.compress({**state, "weight_scale": scale, "weight_zero_point": zero}, scheme)
    plain = compressor.decompress(dict(tensors), scheme)["weight"]
    if args.strategy == "tensor_group":  # which the library gives in bfloat16
        packed = tensors["weight_packed"].long()
        wide = tensors["weight_scale"].float() / tensors["weight_global_scale"]
        plain = _FP4[torch.stack((packed & 15, packed >> 4), -1).flatten(1)] * wide.repeat_interleave(16, 1)
    return {**tensors, **more}, plain.float()


def _ct_rounded(settings: Mapping[str, Any], rows: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize
    from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp

    args = QuantizationArgs(**settings)
    if args.dynamic is False:
        return fake_quantize(rows, scale, torch.zeros(1), args)
    scales, zeros = compute_dynamic_scales_and_zp(rows[None], args, None, global_scale=scale)
    return fake_quantize(rows[None], scales, zeros.float(), args, global_scale=scale)[0]


def ct_moved_columns(weight: torch.Tensor) -> Stored:
    """actorder group: int4 packed by the library, columns in groups that weight_g_idx names."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    order = torch.randperm(weight.shape[1], generator=torch.Generator().manual_seed(6))
    groups = (torch.arange(weight.shape[1]) // GROUP)[order]
    codes, zeros, scales = codes_of(weight, 4, False, groups)
    parts = {
        "weight_packed": pack_to_int32((codes - 8).char(), 4),
        "weight_zero_point": pack_to_int32((zeros - 8).char(), 4, packed_dim=0).contiguous(),
        "weight_scale": scales, "weight_g_idx": groups.int(), "weight_shape": torch.tensor(weight.shape),
    }  # fmt: skip
    return parts, (codes - zeros[:, groups]).float() * scales.float()[:, groups]


def sparse24(weight: torch.Tensor) -> Stored:
    fours = weight.unflatten(1, (-1, 4))
    keep = torch.zeros_like(fours, dtype=torch.bool).scatter_(2, fours.abs().topk(2, dim=2).indices, True).flatten(1)
    mask = torch.from_numpy(np.packbits(keep.numpy(), axis=1, bitorder="little"))
    parts = {"compressed": weight[keep].view(len(weight), -1), "bitmask": mask, "shape": torch.tensor(weight.shape)}
    return parts, weight * keep


def ao(make: str, **how: Any) -> Kind:
    """By torchao itself, whose tensor classes are described in the file's metadata."""

    def quantized(weight: torch.Tensor) -> torch.Tensor:
        import torchao.quantization as library

        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        linear.weight.data = weight.clone()
        library.quantize_(linear, getattr(library, make)(**how))
        return linear.weight

    def flat(weights: Mapping[str, torch.Tensor]) -> tuple[Tensors, dict[str, str]]:
        from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict

        found: tuple[Tensors, dict[str, str]] = flatten_tensor_state_dict(dict(weights))
        return found

    def store(weight: torch.Tensor) -> Stored:
        made = quantized(weight)
        tensors = flat({"a.weight": made})[0]
        return {name.removeprefix("a."): one for name, one in tensors.items()}, made.dequantize()

    def metadata(weights: Mapping[str, torch.Tensor]) -> dict[str, str]:
        return flat({f"{name}.weight": quantized(weight) for name, weight in weights.items()})[1]

    config = {"quant_method": "torchao", "quant_type": {"default": {"_type": make, "_version": 2, "_data": {}}}}
    return Kind(store, config, ("_weight_scale",), int8_rows if "Activation" in make else None, metadata, ("torchao",))


_INT4 = {"num_bits": 4, "strategy": "group", "group_size": GROUP}
_FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
_INT8 = {"num_bits": 8, "strategy": "channel"}
_TOKEN = {"num_bits": 8, "strategy": "token", "dynamic": True}
_TENSOR = {"num_bits": 8, "strategy": "tensor"}
_NV = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16,
       "scale_dtype": "torch.float8_e4m3fn"}  # fmt: skip
_MX = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"}
_BLOCK = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [32, 64]}
_GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": False, "desc_act": False}
_SPARSITY = {"format": "sparse-24-bitmask", "sparsity_structure": "2:4", "targets": ["Linear"], "ignore": ["lm_head"]}
_WORDS, _SCALE = ("scales",), ("weight_scale",)

KINDS: dict[str, Kind] = {
    "ct w4a16": ct("pack-quantized", _INT4),
    "ct w4a16 asymmetric": ct("pack-quantized", {**_INT4, "symmetric": False}),
    "ct w4a16 act-order": Kind(
        ct_moved_columns,
        ct("pack-quantized", {**_INT4, "symmetric": False, "actorder": "group"}).config, _SCALE,
        needs=("compressed_tensors",),
    ),
    "ct w8a8 dynamic": ct("int-quantized", _INT8, _TOKEN),
    "ct w8a8 static": ct("int-quantized", _INT8, _TENSOR, input_scale=0.031),
    "ct fp8 per channel": ct("float-quantized", _FP8, {**_TOKEN, "type": "float"}),
    "ct fp8 static": ct("float-quantized", {**_FP8, "strategy": "tensor"}, {**_TENSOR, "type": "float"},
                        input_scale=0.0123),
    "ct fp8 blocks": ct("float-quantized", _BLOCK,
                        {**_TOKEN, "type": "float", "strategy": "group", "group_size": 64}),
    "ct nvfp4": ct("nvfp4-pack-quantized", _NV, {**_NV, "dynamic": "local"}, input_global_scale=700.0),
    "ct mxfp4": ct("mxfp4-pack-quantized", _MX, {**_MX, "dynamic": True}),
    "ct sparse24": Kind(sparse24, {"quant_method": "compressed-tensors", "format": "dense", "config_groups": {},
                                   "sparsity_config": _SPARSITY}, ()),
    "gptq v1": Kind(gptq(4), {**_GPTQ, "checkpoint_format": "gptq"}, _WORDS),
    "gptq v2": Kind(gptq(4, v2=True), {**_GPTQ, "checkpoint_format": "gptq_v2"}, _WORDS),
    "gptq symmetric": Kind(gptq(4, sym=True), {**_GPTQ, "sym": True}, _WORDS),
    "gptq act-order": Kind(gptq(4, act_order=True), {**_GPTQ, "desc_act": True}, _WORDS),
    "gptq 2 bits": Kind(gptq(2), {**_GPTQ, "bits": 2}, _WORDS),
    "gptq 3 bits": Kind(gptq(3), {**_GPTQ, "bits": 3}, _WORDS),
    "gptq 8 bits": Kind(gptq(8), {**_GPTQ, "bits": 8}, _WORDS),
    "awq": Kind(awq, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"},
                _WORDS),
    "auto-round": Kind(gptq(4, v2=True), {"quant_method": "auto-round", "bits": 4, "group_size": GROUP, "sym": False,
                                          "data_type": "int", "packing_format": "auto_round:gptqmodel"}, _WORDS),
    "auto-round awq": Kind(awq, {"quant_method": "auto-round", "bits": 4, "group_size": GROUP, "sym": False,
                                 "data_type": "int", "packing_format": "auto_round:auto_awq"}, _WORDS),
    "fp8 blocks": Kind(fp8_blocks, {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
                                    "weight_block_size": [48, 64]}, ("weight_scale_inv",),
                       lambda rows: e4m3_rows(rows, 64)),
    "modelopt nvfp4": Kind(modelopt_fp4, {"quant_method": "modelopt", "quant_algo": "NVFP4"},
                           ("weight_scale", "weight_scale_2", "input_scale"), fp4_rows),
    "bnb nf4": Kind(bnb("nf4"), {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                                 "bnb_4bit_use_double_quant": True}, ("weight.nested_absmax",),
                    needs=("bitsandbytes",)),
    "bnb fp4": Kind(bnb("fp4"), {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "fp4"},
                    ("weight.absmax",), needs=("bitsandbytes",)),
    "bnb int8": Kind(bnb("int8"), {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_threshold": 0.0},
                     ("SCB",), int8_rows, needs=("bitsandbytes",)),
    "torchao int8": ao("Int8WeightOnlyConfig"),
    "torchao fp8": ao("Float8WeightOnlyConfig"),
    "torchao int8 dynamic": ao("Int8DynamicActivationInt8WeightConfig"),
}  # fmt: skip


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found = KINDS[request.param]
    for library in found.needs:
        pytest.importorskip(library, reason=f"{library} is a test dependency; it writes this format")
    return found


@pytest.fixture
def whole(kind: Kind, make_llama: Callable[..., Any]) -> tuple[Any, dict[str, torch.Tensor]]:
    """(a llama whose decoder's linears are stored in a format, what they stand for); nothing is saved yet."""
    llama = make_llama(hidden_size=128, intermediate_size=192, num_attention_heads=4)
    weights = {}
    for name, weight in llama.linears.items():
        parts, weights[name] = kind.store(weight.clone())
        llama.replace(name, {leaf: part.clone() for leaf, part in parts.items()})
    return llama, weights


@pytest.fixture
def save_whole(kind: Kind) -> Callable[[Any], Any]:
    """Write the folder with the format's config and metadata."""

    def save(llama: Any) -> Any:
        metadata = None if kind.metadata is None else kind.metadata(llama.linears)
        if metadata is not None:
            quantized = set(json.loads(metadata["tensor_names"]))
            plain = [name for name in llama.tensors if "_weight_" not in name.rpartition(".")[2]]
            metadata["tensor_names"] = json.dumps([*quantized, *plain])
            metadata |= {name: json.dumps({"_type": "Tensor"}) for name in plain}
        return llama.save(kind.config, metadata)

    return save
