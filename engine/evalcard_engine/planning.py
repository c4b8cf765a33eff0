"""What is decided of a model before its weights are read, and everything that can be refused until then."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from evalcard_engine import numerics
from evalcard_engine.activations import ExactActivation
from evalcard_engine.arithmetic.cpu_plans import cpu_features, cpu_plan
from evalcard_engine.arithmetic_notes import attention_note, kernel_notes, linear_notes, rows_note
from evalcard_engine.attention import compiled
from evalcard_engine.building import build, decoder_layers, matrices, stored_shapes, tied_parameters
from evalcard_engine.cache.kv_codes import KVCodes
from evalcard_engine.checkpoint.claiming import claim_all
from evalcard_engine.checkpoint.claims import Claims
from evalcard_engine.checkpoint.expert_tensors import num_experts_of
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.recognize import beside_files, recognize
from evalcard_engine.checkpoint.source import Checkpoint, read_checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.family import Family
from evalcard_engine.kernels import dispatch
from evalcard_engine.kv_choice import cache_notes, choose_codes
from evalcard_engine.layer_modules import compiled_functions, hook_modules, triton_functions
from evalcard_engine.longrope import LongRope, take_over
from evalcard_engine.native import build as native_build
from evalcard_engine.native import rowwise
from evalcard_engine.quant.scheme import Scheme
from evalcard_engine.weights_choice import check_on_gpu

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CPU_KV_DTYPES = {torch.float32: torch.float32, torch.bfloat16: torch.bfloat16, torch.float16: torch.float32}
"""Of keys and values, by what a model is computed in: no attention on the CPU takes float16, so it is widened once."""

CHECKPOINT_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Everything decided before weights are read."""

    checkpoint: Checkpoint
    family: Family
    config: Any
    """transformers' config of the text model."""
    dtype: torch.dtype
    device: str
    scheme: Scheme | None
    numerics: str
    module: nn.Module
    """Parameters on meta."""
    claims: Claims
    kv_codes: tuple[KVCodes, ...] | None
    """By layer; None stores keys and values as numbers."""
    kv_dtype: torch.dtype
    """Of those numbers."""
    kernels: bool
    """Whether Triton kernels run the quantized linears and what lies between."""
    is_compiled: bool
    """Whether attention is the compiled one."""
    not_compiled: str
    """Why it is not, where this CPU could have it."""
    long_rope: LongRope | None
    """Where positions are encoded by the length of their sequence."""


def plan_model(
    model: str,
    dtype: str,
    device: str,
    scheme: Scheme | None,
    revision: str | None,
    weights: str,
    kernels: bool | None = None,
) -> ModelPlan:
    """Open, claim and check everything that needs no weights; the arguments are those of `models.open_model`.

    Raises EngineError and its kinds.
    """
    _check_device(device)
    checkpoint = read_checkpoint(model, revision)
    family, fmt = recognize(checkpoint)
    checkpoint = family.separate(checkpoint)
    arithmetic = _resolve_dtype(dtype, device, checkpoint)
    with beside_files(checkpoint):
        config, module = build(checkpoint, arithmetic, device, family.experts)
    long_rope = take_over(module, config, device)
    claims = claim_all(checkpoint, family, fmt, stored_shapes(module), matrices(module), tied_parameters(module))
    if scheme is not None and scheme.changes_weights and claims.schemes:
        raise EngineError(
            f"{model} is compressed already ({next(iter(claims.schemes.values()))}); a scheme applies to plain weights "
            f"only. Leave out :{scheme.name}, or give the uncompressed model."
        )
    codes = choose_codes(model, scheme, claims, TensorReader(checkpoint), len(decoder_layers(module)))
    kv_heads, *sizes = family.kv_shape(config)
    faults = numerics.self_test(arithmetic, kv_heads, (sizes[0], sizes[1])) if device == "cpu" else ()
    if device == "cpu" and family.experts is not None:
        num_experts = num_experts_of(config.to_dict())
        assert num_experts is not None, config.model_type
        faults += numerics.routing_faults(num_experts, config.num_experts_per_tok)
    if kernels is None:
        kernels = device == "cuda" and dispatch.serves(torch.device(device), arithmetic)
    if device == "cuda":
        check_on_gpu(weights, kernels)
    used = kernel_notes(hook_modules(module, family, triton_functions()), scheme, claims) if kernels else ""
    notes = (*linear_notes(scheme, claims, kernels), *cache_notes(codes))
    kv_dtype, is_compiled = arithmetic, False
    if device == "cpu" and not kernels:
        kv_dtype = CPU_KV_DTYPES[arithmetic]
        is_compiled = codes is None and compiled.serves(kv_dtype)
        read_as = torch.float32 if codes is not None else kv_dtype
        hooked = _use_compiled(module, family, arithmetic, kv_dtype) if is_compiled else ()
        notes = (attention_note(read_as, kv_heads, (sizes[0], sizes[1]), is_compiled), *rows_note(hooked), *notes)
    name = numerics.describe(device, arithmetic, faults, *notes, kernels=used)
    return ModelPlan(
        checkpoint, family, config, arithmetic, device, scheme, name, module, claims, codes, kv_dtype, kernels,
        is_compiled, "" if is_compiled else _why_not_compiled(device, kernels), long_rope,
    )  # fmt: skip


def _why_not_compiled(device: str, kernels: bool) -> str:
    if device != "cpu" or kernels or cpu_features() not in native_build.CPU_FLAGS or native_build.is_switched_off():
        return ""
    found = native_build.built("attention")
    return "" if found.library is not None else found.words


def _use_compiled(module: nn.Module, family: Family, arithmetic: torch.dtype, kv_dtype: torch.dtype) -> tuple[str, ...]:
    """Let compiled code do what lies between the linears, where it can: what that is, in words."""
    if not rowwise.serves(arithmetic):
        return ()
    for part in module.modules():
        if isinstance(part, ExactActivation):
            part.is_compiled = True
    hooked = hook_modules(module, family, compiled_functions()) if arithmetic == kv_dtype else ()
    return tuple(dict.fromkeys(("gates", *hooked)))


def _check_device(device: str) -> None:
    if device not in ("cpu", "cuda"):
        raise EngineError(f"device is {device!r}; it must be cpu or cuda.")
    if device == "cuda" and not torch.cuda.is_available():
        raise EngineError("device is 'cuda' and torch finds no GPU here; use device='cpu' or 'auto'.")


def auto_dtype(model: str, device: str, revision: str | None = None) -> str:
    """What "auto" is for a model, a name of DTYPES: for others that are to be computed alike. Raises EngineError."""
    found = _resolve_dtype("auto", device, read_checkpoint(model, revision))
    return next(name for name, dtype in DTYPES.items() if dtype == found)


def _resolve_dtype(dtype: str, device: str, checkpoint: Checkpoint) -> torch.dtype:
    if dtype in DTYPES:
        return DTYPES[dtype]
    if dtype != "auto":
        raise EngineError(f"unknown dtype {dtype!r}; choose auto, {', '.join(DTYPES)}.")
    # Codes tell nothing; whatever is not compressed does, be it the embedding alone.
    plain = [place for place in checkpoint.tensors.values() if place.dtype in CHECKPOINT_DTYPES]
    largest = max(plain, key=lambda place: torch.Size(place.shape).numel(), default=None)
    stored = torch.float32 if largest is None else CHECKPOINT_DTYPES[largest.dtype]
    if device == "cpu":
        return cpu_plan().bfloat16_arithmetic if stored == torch.bfloat16 else torch.float32
    return stored
