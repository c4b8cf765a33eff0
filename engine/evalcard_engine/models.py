"""A transformers model, prepared: its attention ours, its linears exact or quantized, its weights all accounted for."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from evalcard_engine.attention.hook import STEP_ARGUMENT, LastRows, Step, plan_attention, prepare_step
from evalcard_engine.attention.reach import Reach
from evalcard_engine.batch import Batch, Span
from evalcard_engine.building import decoder_layers
from evalcard_engine.cache.pool import KVPool, KVShape, token_bytes
from evalcard_engine.checkpoint.digest import OnProgress, weights_digest
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.errors import EngineError
from evalcard_engine.faults import FirstFault, watched
from evalcard_engine.kv_choice import cache_words
from evalcard_engine.last_layer import compute_asked_rows_only, last_rows
from evalcard_engine.loading import Stock, fill, head_dtype
from evalcard_engine.memory import free_memory
from evalcard_engine.model_memory import check_memory, weights_need
from evalcard_engine.planning import ModelPlan, plan_model
from evalcard_engine.quant.quantize import QUANTIZER_VERSION
from evalcard_engine.quant.scheme import Scheme
from evalcard_engine.quant.workspace import Workspace
from evalcard_engine.weights_choice import Choice, choose_for, form_words

if TYPE_CHECKING:  # Triton is not everywhere
    from evalcard_engine.attention.paged_plan import HostPlan, PagedPlan


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a model is, once it is open."""

    path: Path
    model_type: str
    vocab_size: int
    max_positions: int
    short_positions: int | None
    """Tokens up to which positions are encoded for short sequences; None where all sequences are encoded alike."""
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
    linear_form: str
    """How quantized linears are held in memory, and why; empty where there are none."""
    linear_bytes: int
    """What the decoder's linears take in memory, as it was counted when they were loaded."""
    not_compiled: str = ""
    """Why torch computes what compiled code could on this CPU; empty where it is compiled, or never could be."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The two strings that name a model's answers, known before any weights are loaded."""

    weights: str
    """Weights digest, and with a scheme its name and the quantizer's version."""
    numerics: str


class PreparedModel:
    """A model that runs packed batches against a paged cache; made by `open_model`."""

    def __init__(self, module: nn.Module, info: ModelInfo, plan: ModelPlan) -> None:
        self.info = info
        self.numerics = plan.numerics
        self._module = module
        self._dtype = plan.dtype
        self._kv_dtype = plan.kv_dtype
        self._heads = plan.config.num_attention_heads
        self._rules = tuple(plan.family.rule(layer.self_attn) for layer in decoder_layers(module))
        self._shapes = [KVShape(*plan.family.kv_shape(plan.config)) for _ in self._rules]
        self._codes = plan.kv_codes
        self._kernels = plan.kernels
        self._workspace = Workspace() if plan.is_compiled else None
        self._long_rope = plan.long_rope
        compute_asked_rows_only(decoder_layers(module)[-1])
        self._has_experts = plan.family.experts is not None

    @property
    def identity(self) -> ModelIdentity:
        """What names the answers of the weights that were read; equals `identify`'s while the files are the same."""
        return ModelIdentity(self.info.weights, self.numerics)

    def page_bytes(self, page_size: int) -> int:
        """Bytes that one page takes over all layers, keys and values."""
        return page_size * token_bytes(self._shapes, self._kv_dtype, self._codes)

    def make_pool(self, num_pages: int, page_size: int) -> KVPool:
        return KVPool(self._shapes, num_pages, page_size, self._kv_dtype, self.info.device, self._codes)

    @property
    def is_replayable(self) -> bool:
        """Whether a step launches the same kernels whatever its tokens: not where they are routed to experts, nor where
        tables go by sequence or position."""
        has_tables = self._long_rope is not None or any(rule.temperature is not None for rule in self._rules)
        return self._kernels and not self._has_experts and not has_tables

    def plan_attention(self, spans: Sequence[Span], pool: KVPool) -> "Mapping[Reach, HostPlan] | None":
        """What kernels will do for the attention of a step, reckoned on the host; None where none of them attends."""
        if not self._kernels:
            return None
        return plan_attention(spans, pool, self._heads, self._shapes[0].kv_heads, self._rules)

    @torch.inference_mode()
    def forward(self, batch: Batch, pool: KVPool, plans: "Mapping[Reach, PagedPlan] | None" = None) -> torch.Tensor:
        """Run one step and store its keys and values: float32 [num_logits, vocab], one row per batch.logits_rows.

        plans: those of `plan_attention` for the batch's spans, on the device, where they were made already.
        """
        step = self._prepare(batch, pool, plans)
        kept = last_rows(batch) if self.info.device == "cpu" and not self._kernels else None
        if kept is not None:
            rows, batch_of_them = kept
            step = replace(step, last=LastRows(rows, self._prepare(batch_of_them, pool) if rows.numel() else step))
        output = self._module(
            input_ids=batch.token_ids[None],
            position_ids=batch.positions[None],
            use_cache=False,
            logits_to_keep=batch.logits_rows,
            **{STEP_ARGUMENT: step},
        )
        return output.logits[0].float()

    def _prepare(self, batch: Batch, pool: KVPool, plans: "Mapping[Reach, PagedPlan] | None" = None) -> Step:
        rotary = None if self._long_rope is None else self._long_rope.tables(batch, self._dtype)
        kv_heads = self._shapes[0].kv_heads
        return prepare_step(
            batch, pool, self._heads, kv_heads, self._rules, rotary,
            kernels=self._kernels, plans=plans, workspace=self._workspace,
        )  # fmt: skip

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
    weights: str = "auto",
    kernels: bool | None = None,
) -> PreparedModel:
    """Open a checkpoint folder or Hub id, ready to run.

    dtype: float32, bfloat16, float16, or auto (on the CPU what the machine's plan says, else the checkpoint's own).
    scheme quantizes the decoder's linears on the way in, the KV cache, or both. weights: whether quantized linears stay
    packed in memory, are expanded, or either (auto); no answer on the CPU depends on it. kernels: whether Triton runs
    what it can; None does so on GPUs that it serves, and only tests say otherwise. Raises EngineError and its kinds
    before any forward, OutOfMemory before any weight is read.
    """
    plan = plan_model(model, dtype, device, scheme, revision, weights, kernels)
    choice = _choose_form(plan, model, device, scheme, weights)
    weights_scheme = _weights_scheme(scheme)
    digest = weights_digest(plan.checkpoint, plan.family)
    workspace = Workspace() if choice is not None and choice.form == "packed" else None
    reader = TensorReader(plan.checkpoint)
    stock = Stock(
        plan.claims, reader, plan.dtype, plan.device, weights_scheme, plan.kernels, workspace, model,
        _head_dtype(plan, weights_scheme),
    )  # fmt: skip
    tally = fill(plan.module, stock, on_progress)
    if weights_digest(plan.checkpoint, plan.family) != digest:  # free unless a file was touched meanwhile
        raise EngineError(f"the files of {model} changed while they were read. Run again once they are complete.")
    info = ModelInfo(
        path=plan.checkpoint.path,
        model_type=plan.family.model_type,
        vocab_size=plan.config.vocab_size,
        max_positions=plan.config.max_position_embeddings,
        short_positions=None if plan.long_rope is None else plan.long_rope.short_positions,
        weights_digest=digest,
        weights=_weights_name(digest, scheme),
        scheme=scheme.name if scheme else None,
        bits_per_weight=tally.bits_per_weight,
        num_parameters=tally.num_parameters,
        weight_bytes=tally.num_bytes,
        dtype=str(plan.dtype).removeprefix("torch."),
        device=device,
        kv_cache=cache_words(plan.kv_codes) or str(plan.kv_dtype).removeprefix("torch."),
        linear_form=form_words(choice, plan.kernels, tally),
        linear_bytes=tally.linear_held,
        not_compiled=plan.not_compiled,
    )
    return PreparedModel(plan.module, info, plan)


def identify(
    model: str,
    *,
    dtype: str,
    device: str,
    scheme: Scheme | None,
    revision: str | None = None,
    weights: str = "auto",
) -> ModelIdentity:
    """What names the model's answers: reads the checkpoint's bytes once to hash them.

    Raises EngineError and its kinds for whatever `open_model` would refuse, but for values that a scheme cannot hold.
    """
    plan = plan_model(model, dtype, device, scheme, revision, weights)
    _choose_form(plan, model, device, scheme, weights)
    digest = weights_digest(plan.checkpoint, plan.family)
    return ModelIdentity(_weights_name(digest, scheme), plan.numerics)


def _weights_scheme(scheme: Scheme | None) -> Scheme | None:
    return scheme if scheme is not None and scheme.changes_weights else None


def _head_dtype(plan: ModelPlan, weights_scheme: Scheme | None) -> torch.dtype:
    tensors = plan.checkpoint.tensors
    return head_dtype(plan.dtype, plan.device, plan.kernels, plan.claims, weights_scheme, tensors)


def _choose_form(plan: ModelPlan, model: str, device: str, scheme: Scheme | None, weights: str) -> Choice | None:
    """How quantized linears are held, None where kernels hold them packed. Raises OutOfMemory for weights that do not
    fit, which is known before a byte of them is read."""
    choice = None if plan.kernels else choose_for(plan.module, plan.claims, scheme, plan.dtype, device, weights)
    weights_scheme = _weights_scheme(scheme)
    is_packed = plan.kernels or (choice is not None and choice.form == "packed")
    needed = weights_need(
        plan.module, plan.claims, plan.checkpoint.tensors, weights_scheme, plan.dtype, is_packed,
        _head_dtype(plan, weights_scheme),
    )  # fmt: skip
    is_quantized = bool(plan.claims.schemes) or weights_scheme is not None
    check_memory(model, needed, free_memory(device), device, plan.dtype, is_quantized=is_quantized, is_packed=is_packed)
    return choice


def _weights_name(digest: str, scheme: Scheme | None) -> str:
    return f"{digest}+{scheme.name}+{QUANTIZER_VERSION}" if scheme else digest
