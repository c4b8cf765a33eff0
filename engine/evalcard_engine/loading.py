"""From transformers' empty module to one that holds our linears and every weight of the checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from evalcard_engine.activations import ExactActivation
from evalcard_engine.attention.hook import ATTENTION_NAME, register
from evalcard_engine.checkpoint.claims import Claims, Quantized
from evalcard_engine.checkpoint.digest import OnProgress
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.families import check_rope
from evalcard_engine.quant.linear import plain_linear, quantized_linear
from evalcard_engine.quant.quantize import quantize, sparsify24
from evalcard_engine.quant.scheme import SCHEMES, Scheme
from evalcard_engine.quant.weight import QuantizedWeight

DECODER = "model.layers."
"""Where a scheme applies; the embedding and the head stay as they are."""


@dataclass(slots=True)
class Tally:
    """What was put in place, counted as the scheme stores it."""

    num_parameters: int = 0
    num_bytes: int = 0
    linear_weights: int = 0
    linear_bytes: int = 0
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


def build(checkpoint: Checkpoint, dtype: torch.dtype, device: str) -> tuple[Any, nn.Module]:
    """transformers' config of the text model and its module without weights: hundredths of a second.

    Raises EngineError for whatever in config.json no model can be built from.
    """
    from transformers import AutoConfig

    with _config_faults(checkpoint.name):
        # A GGUF file has no config.json; its checkpoint's config is made from its metadata.
        is_file = checkpoint.path.is_file()
        found = AutoConfig.for_model(**checkpoint.config) if is_file else AutoConfig.from_pretrained(checkpoint.path)
        config = found.get_text_config()
        check_rope(config, checkpoint.name)
        _check_sizes(config, checkpoint.name)
        return config, empty_module(config, dtype, device)


@contextmanager
def _config_faults(model: str) -> Iterator[None]:
    """Whatever transformers makes of a wrong value, be it KeyError or ZeroDivisionError, is a fault of config.json."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise EngineError(
            f"{model}: no model can be built from its config.json ({cause}). Correct that value, or "
            "fetch the model again."
        ) from error


def _check_sizes(config: Any, model: str) -> None:
    """What transformers builds without complaint and no forward pass survives."""
    for name in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
        value = getattr(config, name)
        if not isinstance(value, int) or value < 1:
            raise EngineError(f"{model}: {name} in config.json is {value!r}; it must be a whole number from 1.")
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    if heads % kv_heads:
        raise EngineError(
            f"{model}: num_attention_heads in config.json is {heads} and num_key_value_heads is {kv_heads}, which must "
            "divide it. Correct them, or fetch the model again."
        )
    if head_size(config) % 2:
        raise EngineError(f"{model}: config.json gives a head size of {head_size(config)}; it must be even.")


def head_size(config: Any) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def empty_module(config: Any, dtype: torch.dtype, device: str) -> nn.Module:
    """transformers' own causal language model: parameters on meta, computed buffers on ``device``.

    On the CPU its activations are ours; raises UnsupportedModel for one that has no exact form.
    """
    from transformers import AutoModelForCausalLM

    register()
    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=ATTENTION_NAME)
    for owner in module.modules():
        buffers = dict(owner.named_buffers(recurse=False))
        for name, buffer in buffers.items():
            owner._buffers[name] = torch.empty_like(buffer, device=device)
        if buffers:
            # transformers computes a module's buffers here; its parameters are on meta, where drawing them is free.
            module._init_weights(owner)
    if device == "cpu":
        _replace_activations(module)
    return module.eval().requires_grad_(False)


def decoder_layers(module: nn.Module) -> list[Any]:
    """The layers of any causal language model in transformers' usual shape: model.layers."""
    layers = module.get_submodule("model.layers")
    assert isinstance(layers, nn.ModuleList), type(layers)
    return list(layers)


def tied_parameters(module: nn.Module) -> dict[str, str]:
    """{parameter: the one it shares its values with}, as transformers knows them."""
    tied = module.all_tied_weights_keys
    assert isinstance(tied, dict), type(tied)
    return tied


def matrices(module: nn.Module) -> dict[str, tuple[int, int]]:
    """[out, in] of every module whose weight a format may store in its own way: linears and embeddings."""
    kinds = (nn.Linear, nn.Embedding)
    return {
        name: (owner.weight.shape[0], owner.weight.shape[1])
        for name, owner in module.named_modules()
        if isinstance(owner, kinds)
    }


@dataclass(frozen=True, slots=True)
class Stock:
    """Where weights come from and what they become."""

    claims: Claims
    reader: TensorReader
    dtype: torch.dtype
    device: str
    scheme: Scheme | None
    """Applied on the fly to the decoder's linears."""


def fill(module: nn.Module, stock: Stock, on_progress: OnProgress | None) -> Tally:
    """Put every weight in its place, one module after the other, so that no more than one exists twice."""
    tally = Tally()
    owners = [(name, owner) for name, owner in module.named_modules() if owner._parameters]
    for done, (name, owner) in enumerate(owners, start=1):
        if isinstance(owner, nn.Linear):
            _replace(module, name, _linear(name, owner, stock, tally))
        else:
            _fill_own(name, owner, stock, tally)
        if on_progress is not None:
            on_progress(done, len(owners))
    left = [name for name, tensor in module.named_parameters() if tensor.is_meta]
    left += [name for name, tensor in module.named_buffers() if tensor.is_meta]
    assert not left, left
    return tally


def _replace_activations(module: nn.Module) -> None:
    for layer in decoder_layers(module):
        config = layer.mlp.config
        layer.mlp.act_fn = ExactActivation(getattr(config, "hidden_activation", None) or config.hidden_act)


def _fill_own(name: str, owner: nn.Module, stock: Stock, tally: Tally) -> None:
    for leaf in list(owner._parameters):
        key = f"{name}.{leaf}"
        value = _take(key, stock, tally)
        if isinstance(value, QuantizedWeight):
            value = value.dequantize()
        owner._parameters[leaf] = nn.Parameter(value.to(stock.device, stock.dtype, copy=True), requires_grad=False)


def _take(key: str, stock: Stock, tally: Tally) -> torch.Tensor | QuantizedWeight:
    """What fills a parameter, as it is stored (a view into its file, or quantized), and counted."""
    source = stock.claims.sources[key]
    decoder = key.startswith(DECODER)
    if isinstance(source, Quantized):
        weight = source.read({part: stock.reader[tensor] for part, tensor in source.tensors.items()})
        num_bytes = sum(map(stock.reader.num_bytes, source.tensors.values()))
        count = weight.numel() if isinstance(weight, torch.Tensor) else weight.out_features * weight.in_features
        tally.add(" ".join(source.tensors.values()), count, num_bytes, decoder)
        return weight
    stored = stock.reader[source.tensor]
    tally.add(source.tensor, stored.numel(), stored.nbytes, decoder and stored.dim() == 2)
    return stored


def _linear(name: str, owner: nn.Linear, stock: Stock, tally: Tally) -> nn.Module:
    """Our linear for transformers' own, quantized as it is stored or where the scheme covers it."""
    bias = None
    if owner.bias is not None:
        found = _take(f"{name}.bias", stock, tally)
        assert isinstance(found, torch.Tensor), name
        bias = found.to(stock.device, stock.dtype, copy=True)
    key, scheme = f"{name}.weight", _scheme_of(name, stock.scheme)
    if scheme is not None:
        return _quantized_now(name, key, bias, stock, scheme, tally)
    weight = _take(key, stock, tally)
    if isinstance(weight, QuantizedWeight):
        return quantized_linear(weight.to(stock.device), bias, stock.dtype)
    return plain_linear(weight.to(stock.device, stock.dtype, copy=True), bias)


def _scheme_of(name: str, scheme: Scheme | None) -> Scheme | None:
    """What is done to the linear ``name``: the decoder's get the scheme, the head only what is said of it."""
    if scheme is None or name.startswith(DECODER):
        return scheme
    return None if scheme.head_bits is None else SCHEMES[f"w{scheme.head_bits}a16"]


def _quantized_now(
    name: str, key: str, bias: torch.Tensor | None, stock: Stock, scheme: Scheme, tally: Tally
) -> nn.Module:
    source = stock.claims.sources[key]
    assert not isinstance(source, Quantized), (name, scheme)
    stored = stock.reader[source.tensor].to(stock.device)
    decoder = name.startswith(DECODER)
    if scheme.element is None:
        tally.add(source.tensor, stored.numel(), stored.nbytes, decoder)
        return plain_linear(sparsify24(stored, name).to(stock.dtype), bias)
    weight = quantize(stored, scheme, name)
    # A head that shares its weight with the embedding is held beside it, as no new parameters.
    is_shared = source.tensor in tally.seen
    place = f"{source.tensor} of {name}" if is_shared else source.tensor
    tally.add(place, 0 if is_shared else stored.numel(), weight.stored_bytes, decoder)
    return quantized_linear(weight, bias, stock.dtype)


def _replace(module: nn.Module, name: str, new: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(module.get_submodule(parent), leaf, new)
