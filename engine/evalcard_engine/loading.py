"""From an empty module to one that holds our linears and every weight of the checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite

import torch
from torch import nn

from evalcard_engine.building import is_linear, stored_buffers
from evalcard_engine.checkpoint.claims import Claims, Plain, Quantized
from evalcard_engine.checkpoint.digest import OnProgress
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.recognize import raise_all
from evalcard_engine.checkpoint.source import ADVICE
from evalcard_engine.checkpoint.tensor_files import TensorFile
from evalcard_engine.errors import EngineError
from evalcard_engine.fusion import fuse
from evalcard_engine.quant.held import held_bytes
from evalcard_engine.quant.linear import WideHead, gives_float32, plain_linear, quantized_linear, serves_int8
from evalcard_engine.quant.quantize import quantize, sparsify24
from evalcard_engine.quant.scheme import SCHEMES, Scheme
from evalcard_engine.quant.weight import QuantizedWeight
from evalcard_engine.quant.workspace import Workspace

DECODER = "model.layers."
"""Where a scheme applies; the embedding and the head stay as they are, and so do routers, which are no linears."""

HEAD = "lm_head"
"""The linear that makes logits."""

KEPT = frozenset({"shared_expert_gate"})
"""Linears of the decoder that weigh experts as a router does."""


@dataclass(slots=True)
class Tally:
    """What was put in place, counted as the scheme stores it."""

    num_parameters: int = 0
    num_bytes: int = 0
    linear_weights: int = 0
    linear_bytes: int = 0
    linear_held: int = 0
    """Bytes that the decoder's linears take in memory."""
    num_quantized: int = 0
    """Linears that hold codes or were made of them."""
    num_int8: int = 0
    """Those among them that int8 products run."""
    seen: set[str] = field(default_factory=set)

    def add(self, source: str, count: int, num_bytes: int, decoder_linear: bool = False) -> None:
        """Count a tensor once, however many parameters share it."""
        if source in self.seen:
            return
        self.seen.add(source)
        self.num_parameters += count
        self.num_bytes += num_bytes
        if decoder_linear:
            self.linear_weights += count
            self.linear_bytes += num_bytes

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.linear_bytes / self.linear_weights


@dataclass(frozen=True, slots=True)
class Stock:
    """Where weights come from and what they become."""

    claims: Claims
    reader: TensorReader
    dtype: torch.dtype
    device: str
    scheme: Scheme | None
    """Applied on the fly to the decoder's linears."""
    kernels: bool = False
    """Whether Triton kernels run the quantized linears."""
    workspace: Workspace | None = None
    """Where tiles of packed weights are made, on the CPU; None expands weights when they are loaded."""
    model: str = "the model"
    """As the user wrote it."""
    head_dtype: torch.dtype | None = None
    """What the head is held in, where that is not ``dtype``."""


STORED = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
"""As safetensors spells dtypes."""


def head_dtype(
    dtype: torch.dtype,
    device: str,
    kernels: bool,
    claims: Claims,
    scheme: Scheme | None,
    tensors: Mapping[str, TensorFile],
) -> torch.dtype:
    """What a model of ``dtype`` holds its head in: on the CPU what gives float32 logits of it without loss.

    scheme: what is done to linears on the way in; tensors: the checkpoint's.
    """
    if device != "cpu" or kernels:
        return dtype
    source = claims.sources.get(f"{HEAD}.weight")
    if not isinstance(source, Plain) or scheme_of(HEAD, scheme) is not None:
        return torch.float32
    is_stored = tensors[source.tensor].dtype == STORED[dtype]
    return dtype if is_stored and gives_float32(dtype) else torch.float32


def fill(module: nn.Module, stock: Stock, on_progress: OnProgress | None) -> Tally:
    """Put every weight in its place, one module after the other, so that no more than one exists twice.

    Raises EngineError for values that cannot be right, those of all modules in one list.
    """
    tally, errors = Tally(), list[EngineError]()
    owners = [(name, owner) for name, owner in module.named_modules() if owner._parameters or stored_buffers(owner)]
    for done, (name, owner) in enumerate(owners, start=1):
        try:
            _fill_one(module, name, owner, stock, tally)
        except EngineError as error:
            errors.append(error)
        if on_progress is not None:
            on_progress(done, len(owners))
    raise_all(stock.model, errors)
    left = [name for name, tensor in module.named_parameters() if tensor.is_meta]
    left += [name for name, tensor in module.named_buffers() if tensor.is_meta]
    assert not left, left
    if stock.device == "cpu" and not stock.kernels:
        fuse(module)
    return tally


def _fill_one(module: nn.Module, name: str, owner: nn.Module, stock: Stock, tally: Tally) -> None:
    if not is_linear(owner):
        _fill_own(name, owner, stock, tally)
        return
    assert isinstance(owner, nn.Linear), name
    if name == HEAD and stock.device == "cpu" and not stock.kernels and stock.dtype != torch.float32:
        linear: nn.Module = WideHead(_linear(name, owner, replace(stock, dtype=stock.head_dtype or stock.dtype), tally))
    else:
        linear = _linear(name, owner, stock, tally)
    if name.startswith(DECODER):
        tally.linear_held += held_bytes(linear)
    _replace(module, name, linear)


def _fill_own(name: str, owner: nn.Module, stock: Stock, tally: Tally) -> None:
    """Parameters and stored buffers in the dtypes that the module was made with: some routers keep float32."""
    for leaf, made in [*owner._parameters.items(), *((leaf, owner._buffers[leaf]) for leaf in stored_buffers(owner))]:
        if made is None:
            continue
        value = _take(f"{name}.{leaf}", stock, tally, of_linear=False)
        if isinstance(value, QuantizedWeight):
            value = value.dequantize()
        filled = value.to(stock.device, made.dtype, copy=True)
        if leaf in owner._parameters:
            owner._parameters[leaf] = nn.Parameter(filled, requires_grad=False)
        else:
            owner._buffers[leaf] = filled


def _take(key: str, stock: Stock, tally: Tally, of_linear: bool = True) -> torch.Tensor | QuantizedWeight:
    """What fills a parameter, as it is stored (a view into its file, or quantized), and counted."""
    source = stock.claims.sources[key]
    decoder = of_linear and key.startswith(DECODER)
    if isinstance(source, Quantized):
        weight = source.read({part: stock.reader[tensor] for part, tensor in source.tensors.items()})
        num_bytes = sum(map(stock.reader.num_bytes, source.tensors.values()))
        count = weight.numel() if isinstance(weight, torch.Tensor) else weight.out_features * weight.in_features
        tally.add(" ".join(source.tensors.values()), count, num_bytes, decoder)
        return weight
    stored = _finite(source.tensor, stock, tally)
    tally.add(source.tensor, stored.numel(), stored.nbytes, decoder and stored.dim() == 2)
    return stored


def _finite(tensor: str, stock: Stock, tally: Tally) -> torch.Tensor:
    """An unquantized tensor of the files, looked at once; raises EngineError where it holds a NaN or an infinity."""
    stored = stock.reader[tensor]
    # Both ends of a tensor tell in two passes that write nothing.
    if (
        tensor not in tally.seen
        and stored.numel()
        and not (isfinite(float(stored.amax())) and isfinite(float(stored.amin())))
    ):
        fault = f"{tensor} holds values that are not finite"
        raise EngineError(f"{stock.model}: {fault}. {ADVICE}", (fault,), ADVICE)
    return stored


def _linear(name: str, owner: nn.Linear, stock: Stock, tally: Tally) -> nn.Module:
    """Our linear for transformers' own, quantized as it is stored or where the scheme covers it."""
    bias = None
    if owner.bias is not None:
        found = _take(f"{name}.bias", stock, tally)
        assert isinstance(found, torch.Tensor), name
        bias = found.to(stock.device, stock.dtype, copy=True)
    key, scheme = f"{name}.weight", scheme_of(name, stock.scheme)
    if scheme is not None:
        return _quantized_now(name, key, bias, stock, scheme, tally)
    weight = _take(key, stock, tally)
    if isinstance(weight, QuantizedWeight):
        return _compressed(weight.to(stock.device), bias, stock, tally)
    return plain_linear(weight.to(stock.device, stock.dtype, copy=True), bias)


def scheme_of(name: str, scheme: Scheme | None) -> Scheme | None:
    """What is done to the linear ``name``: the decoder's get the scheme, the head only what is said of it."""
    if scheme is None or is_kept(name):
        return None
    if name.startswith(DECODER):
        return scheme
    return None if scheme.head_bits is None else SCHEMES[f"w{scheme.head_bits}a16"]


def is_kept(name: str) -> bool:
    """Whether a linear of the decoder is left in full precision by every scheme."""
    return name.rpartition(".")[2] in KEPT


def _quantized_now(
    name: str, key: str, bias: torch.Tensor | None, stock: Stock, scheme: Scheme, tally: Tally
) -> nn.Module:
    source = stock.claims.sources[key]
    assert not isinstance(source, Quantized), (name, scheme)
    stored = _finite(source.tensor, stock, tally).to(stock.device)
    decoder = name.startswith(DECODER)
    if scheme.element is None:
        tally.add(source.tensor, stored.numel(), stored.nbytes, decoder)
        return plain_linear(sparsify24(stored, name).to(stock.dtype), bias)
    weight = quantize(stored, scheme, name)
    # A head that shares its weight with the embedding is held beside it, as no new parameters.
    is_shared = source.tensor in tally.seen
    place = f"{source.tensor} of {name}" if is_shared else source.tensor
    tally.add(place, 0 if is_shared else stored.numel(), weight.stored_bytes, decoder)
    return _compressed(weight, bias, stock, tally)


def _compressed(weight: QuantizedWeight, bias: torch.Tensor | None, stock: Stock, tally: Tally) -> nn.Module:
    tally.num_quantized += 1
    tally.num_int8 += serves_int8(weight)
    return quantized_linear(weight, bias, stock.dtype, kernels=stock.kernels, workspace=stock.workspace)


def _replace(module: nn.Module, name: str, new: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(module.get_submodule(parent), leaf, new)
