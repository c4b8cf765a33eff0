"""transformers' config and its module without weights, from config.json or a GGUF file's metadata."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from evalcard_engine.activations import ExactActivation, activation_name
from evalcard_engine.attention.hook import ATTENTION_NAME, register
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.errors import EngineError
from evalcard_engine.experts import Kind, separate_experts
from evalcard_engine.families import check_rope
from evalcard_engine.routing import make_routers_exact
from evalcard_engine.torchao_noise import quiet_torchao
from evalcard_engine.unread_settings import check_unread

ACTIVATION_NAMES = frozenset({"act_fn", "activation_fn"})
"""As transformers' modules call their activation function."""


def build(
    checkpoint: Checkpoint, dtype: torch.dtype, device: str, experts: Kind | None = None
) -> tuple[Any, nn.Module]:
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
        check_unread(checkpoint.config.get("text_config") or checkpoint.config, config, checkpoint.name)
        _check_sizes(config, checkpoint.name)
        return config, empty_module(config, dtype, device, experts)


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


_SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "max_position_embeddings",
)  # fmt: skip


def _check_sizes(config: Any, model: str) -> None:
    """What transformers builds without complaint and no forward pass survives."""
    for name in _SIZES:
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


def empty_module(config: Any, dtype: torch.dtype, device: str, experts: Kind | None = None) -> nn.Module:
    """transformers' own causal language model: parameters on meta, computed buffers on ``device``.

    On the CPU its activations are ours; raises UnsupportedModel for one that has no exact form.
    """
    with quiet_torchao():
        from transformers import AutoModelForCausalLM

    register()
    if getattr(config, "output_router_logits", False):
        config.output_router_logits = False  # for training: it would keep the scores of every layer
    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=ATTENTION_NAME)
    for owner in module.modules():
        buffers = dict(owner.named_buffers(recurse=False))
        for name, buffer in buffers.items():
            owner._buffers[name] = torch.empty_like(buffer, device=device)
        if buffers:
            # transformers computes a module's buffers here; its parameters are on meta, where drawing them is free.
            module._init_weights(owner)
    for layer in decoder_layers(module):
        if hasattr(layer.self_attn, "attn_temperature_tuning"):
            # It would take places in the packed row for positions; the family's rule for the layer does it instead.
            layer.self_attn.attn_temperature_tuning = False
    if experts is not None:
        separate_experts(module, experts)
    if device == "cpu":
        make_routers_exact(module)
        _replace_activations(module, config)
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
    return {
        name: (owner.weight.shape[0], owner.weight.shape[1])
        for name, owner in module.named_modules()
        if is_linear(owner) or isinstance(owner, nn.Embedding)
    }


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear and nothing more: some routers add to one."""
    return type(module) is nn.Linear


def stored_shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """The shape of whatever a checkpoint holds of a module: parameters, and buffers that are stored."""
    named = dict(module.named_parameters(remove_duplicate=False))
    for name, owner in module.named_modules():
        named |= {f"{name}.{leaf}": owner._buffers[leaf] for leaf in stored_buffers(owner)}
    return {name: tuple(tensor.shape) for name, tensor in named.items()}


def stored_buffers(owner: nn.Module) -> list[str]:
    """The names of a module's own buffers that are part of a checkpoint."""
    return [leaf for leaf in owner._buffers if leaf not in owner._non_persistent_buffers_set]


def _replace_activations(module: nn.Module, config: Any) -> None:
    name = activation_name(config)
    for layer in decoder_layers(module):
        for owner in list(layer.modules()):
            for attribute in ACTIVATION_NAMES & owner._modules.keys():
                setattr(owner, attribute, ExactActivation(name))
