"""A transformers model, prepared: its attention ours, its linears exact or quantized, its weights all accounted for."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from evalcard_engine import numerics
from evalcard_engine.attention.hook import STEP_ARGUMENT, prepare_step
from evalcard_engine.batch import Batch
from evalcard_engine.cache.kv_codes import KVCodes
from evalcard_engine.cache.pool import KVPool, KVShape, token_bytes
from evalcard_engine.checkpoint.claims import Claims, claim_all
from evalcard_engine.checkpoint.digest import OnProgress, weights_digest
from evalcard_engine.checkpoint.formats import format_of
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import Checkpoint, open_checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.families import Family, family_of
from evalcard_engine.faults import FirstFault, watched
from evalcard_engine.kv_choice import cache_notes, cache_words, choose_codes
from evalcard_engine.loading import Stock, build, decoder_layers, fill, head_size, matrices, tied_parameters
from evalcard_engine.quant.linear import LINEARS_VERSION
from evalcard_engine.quant.quantize import QUANTIZER_VERSION
from evalcard_engine.quant.scheme import Scheme

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CHECKPOINT_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a model is, once it is open."""

    path: Path
    model_type: str
    vocab_size: int
    max_positions: int
    weights_digest: str
    """Of the checkpoint as it lies on disk; with ``scheme`` and the quantizer's version it names the weights used."""
    weights: str
    """The weights that were read, named as ModelIdentity.weights names them."""
    scheme: str | None
    bits_per_weight: float
    """Stored bits of the decoder's linears (scales included) over their weights; the head is not quantized."""
    num_parameters: int
    weight_bytes: int
    """Bytes of all parameters as the scheme stores them, a tied head counted once."""
    dtype: str
    """What it is computed in."""
    device: str
    kv_cache: str
    """What keys and values are stored as, and by which scales."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The two strings that name a model's answers, known before any weights are loaded."""

    weights: str
    """Weights digest, and with a scheme its name and the quantizer's version."""
    numerics: str


@dataclass(frozen=True, slots=True)
class _Plan:
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
    """By layer; None stores keys and values as ``dtype``."""


class PreparedModel:
    """A model that runs packed batches against a paged cache; made by `open_model`."""

    def __init__(self, module: nn.Module, info: ModelInfo, plan: _Plan) -> None:
        self.info = info
        self.numerics = plan.numerics
        self._module = module
        self._dtype = plan.dtype
        self._heads = plan.config.num_attention_heads
        attentions = [layer.self_attn for layer in decoder_layers(module)]
        size = head_size(plan.config)
        self._shapes = [KVShape(plan.config.num_key_value_heads, size, size) for _ in attentions]
        self._codes = plan.kv_codes
        self._windows = frozenset(plan.family.window(attention) for attention in attentions)

    @property
    def identity(self) -> ModelIdentity:
        """What names the answers of the weights that were read; equals `identify`'s while the files are the same."""
        return ModelIdentity(self.info.weights, self.numerics)

    def page_bytes(self, page_size: int) -> int:
        """Bytes that one page takes over all layers, keys and values."""
        return page_size * token_bytes(self._shapes, self._dtype, self._codes)

    def make_pool(self, num_pages: int, page_size: int) -> KVPool:
        return KVPool(self._shapes, num_pages, page_size, self._dtype, self.info.device, self._codes)

    @torch.inference_mode()
    def forward(self, batch: Batch, pool: KVPool) -> torch.Tensor:
        """Run one step and store its keys and values: float32 [num_logits, vocab], one row per batch.logits_rows."""
        step = prepare_step(batch, pool, self._heads, self._shapes[0].kv_heads, self._windows)
        output = self._module(
            input_ids=batch.token_ids[None],
            position_ids=batch.positions[None],
            use_cache=False,
            logits_to_keep=batch.logits_rows,
            **{STEP_ARGUMENT: step},
        )
        return output.logits[0].float()

    def watched(self) -> AbstractContextManager[FirstFault]:
        """Find the first module with a value that is not finite in the forwards that run meanwhile."""
        return watched(self._module)


def open_model(
    model: str,
    *,
    dtype: str,
    device: str,
    scheme: Scheme | None,
    revision: str | None = None,
    on_progress: OnProgress | None = None,
) -> PreparedModel:
    """Open a checkpoint folder or Hub id, ready to run.

    dtype: float32, bfloat16, float16, or auto (on the CPU what the machine's plan says, else the checkpoint's own).
    scheme quantizes the decoder's linears on the way in, the KV cache, or both. Raises EngineError and its kinds before
    any forward.
    """
    plan = _plan(model, dtype, device, scheme, revision)
    digest = weights_digest(plan.checkpoint, plan.family)
    weights_scheme = scheme if scheme is not None and scheme.changes_weights else None
    stock = Stock(plan.claims, TensorReader(plan.checkpoint), plan.dtype, plan.device, weights_scheme)
    tally = fill(plan.module, stock, on_progress)
    if weights_digest(plan.checkpoint, plan.family) != digest:  # free unless a file was touched meanwhile
        raise EngineError(f"the files of {model} changed while they were read. Run again once they are complete.")
    info = ModelInfo(
        path=plan.checkpoint.path,
        model_type=plan.family.model_type,
        vocab_size=plan.config.vocab_size,
        max_positions=plan.config.max_position_embeddings,
        weights_digest=digest,
        weights=_weights_name(digest, scheme),
        scheme=scheme.name if scheme else None,
        bits_per_weight=tally.bits_per_weight,
        num_parameters=tally.num_parameters,
        weight_bytes=tally.num_bytes,
        dtype=str(plan.dtype).removeprefix("torch."),
        device=device,
        kv_cache=cache_words(plan.kv_codes) or str(plan.dtype).removeprefix("torch."),
    )
    return PreparedModel(plan.module, info, plan)


def identify(
    model: str, *, dtype: str, device: str, scheme: Scheme | None, revision: str | None = None
) -> ModelIdentity:
    """What names the model's answers: reads the checkpoint's bytes once to hash them.

    Raises EngineError and its kinds for whatever `open_model` would refuse, but for values that a scheme cannot hold.
    """
    plan = _plan(model, dtype, device, scheme, revision)
    digest = weights_digest(plan.checkpoint, plan.family)
    return ModelIdentity(_weights_name(digest, scheme), plan.numerics)


def _weights_name(digest: str, scheme: Scheme | None) -> str:
    return f"{digest}+{scheme.name}+{QUANTIZER_VERSION}" if scheme else digest


def _plan(model: str, dtype: str, device: str, scheme: Scheme | None, revision: str | None) -> _Plan:
    _check_device(device)
    checkpoint = open_checkpoint(model, revision)
    family, fmt = family_of(checkpoint.config, model), format_of(checkpoint)
    arithmetic = _resolve_dtype(dtype, device, checkpoint)
    config, module = build(checkpoint, arithmetic, device)
    wanted = {name: tuple(tensor.shape) for name, tensor in module.named_parameters(remove_duplicate=False)}
    claims = claim_all(checkpoint, family, fmt, wanted, matrices(module), tied_parameters(module))
    if scheme is not None and scheme.changes_weights and claims.schemes:
        raise EngineError(
            f"{model} is compressed already ({next(iter(claims.schemes.values()))}); a scheme applies to plain weights "
            f"only. Leave out :{scheme.name}, or give the uncompressed model."
        )
    codes = choose_codes(model, scheme, claims, TensorReader(checkpoint), len(decoder_layers(module)))
    kv_heads, size = config.num_key_value_heads, head_size(config)
    faults = numerics.self_test(arithmetic, kv_heads, (size, size)) if device == "cpu" else ()
    notes = (*_linear_notes(scheme, claims), *cache_notes(codes))
    name = numerics.describe(device, arithmetic, faults, *notes)
    return _Plan(checkpoint, family, config, arithmetic, device, scheme, name, module, claims, codes)


def _linear_notes(scheme: Scheme | None, claims: Claims) -> tuple[str, ...]:
    """How quantized linears are computed, for the numerics: the same weights by another way are other answers."""
    if scheme is not None and scheme.changes_weights:
        return (f"{scheme.name} as {'int8 product' if scheme.activations == 'int8' else 'dequantized'}",)
    return (f"quantized linears {LINEARS_VERSION}",) if claims.schemes else ()


def _check_device(device: str) -> None:
    if device not in ("cpu", "cuda"):
        raise EngineError(f"device is {device!r}; it must be cpu or cuda.")
    if device == "cuda" and not torch.cuda.is_available():
        raise EngineError("device is 'cuda' and torch finds no GPU here; use device='cpu' or 'auto'.")


def _resolve_dtype(dtype: str, device: str, checkpoint: Checkpoint) -> torch.dtype:
    if dtype in DTYPES:
        return DTYPES[dtype]
    if dtype != "auto":
        raise EngineError(f"unknown dtype {dtype!r}; choose auto, {', '.join(DTYPES)}.")
    largest = max(checkpoint.tensors.values(), key=lambda place: torch.Size(place.shape).numel())
    stored = CHECKPOINT_DTYPES.get(largest.dtype, torch.float32)
    if device == "cpu":
        return numerics.cpu_plan().bfloat16_arithmetic if stored == torch.bfloat16 else torch.float32
    return stored
