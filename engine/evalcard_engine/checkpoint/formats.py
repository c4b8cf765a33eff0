"""Which format a checkpoint is in: by what its config says and what its files hold, never by a name in a path."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from evalcard_engine.checkpoint.claims import Format
from evalcard_engine.checkpoint.plain import PlainFormat
from evalcard_engine.checkpoint.source import EXPORTER_CONFIG, Checkpoint
from evalcard_engine.errors import UnsupportedModel

FORMATS: Mapping[str, str] = {
    "auto-round": "evalcard_engine.checkpoint.auto_round",
    "awq": "evalcard_engine.checkpoint.awq",
    "gptq": "evalcard_engine.checkpoint.gptq",
    "intel/auto-round": "evalcard_engine.checkpoint.auto_round",
    "compressed-tensors": "evalcard_engine.checkpoint.compressed_tensors",
    "bitsandbytes": "evalcard_engine.checkpoint.bitsandbytes",
    "fbgemm_fp8": "evalcard_engine.checkpoint.fp8",
    "fp8": "evalcard_engine.checkpoint.fp8",
    "mxfp4": "evalcard_engine.checkpoint.mxfp4",
    "modelopt": "evalcard_engine.checkpoint.modelopt",
    "modelopt_fp4": "evalcard_engine.checkpoint.modelopt",
    "torchao": "evalcard_engine.checkpoint.torchao",
    "gguf": "evalcard_engine.checkpoint.gguf",
}
"""``quant_method`` of config.json -> module whose ``open_format(checkpoint, config)`` makes the Format."""


def format_of(checkpoint: Checkpoint) -> Format:
    """The checkpoint's format.

    Raises UnsupportedModel for a method this engine does not read, EngineError listing every setting it cannot honour.
    """
    config = quantization_config(checkpoint.config)
    if config is None:
        return PlainFormat()
    method = str(config.get("quant_method") or config.get("quant_algo") or "unknown method").lower()
    if method not in FORMATS:
        known = f"plain weights and {', '.join(sorted(FORMATS))}" if FORMATS else "unquantized checkpoints"
        raise UnsupportedModel(
            f"{checkpoint.name} is already quantized ({method}); this version opens {known}, and quantizes plain "
            "checkpoints itself (MODEL:w8a8). To evaluate this one, try --backend vllm."
        )
    open_format: Callable[[Checkpoint, Mapping[str, Any]], Format] = import_module(FORMATS[method]).open_format
    return open_format(checkpoint, config)


def quantization_config(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the configs say of quantization, wherever exporters put it; None where they say nothing.

    ``hf_quant_config`` is the content of hf_quant_config.json, which open_checkpoint adds: older ModelOpt exports say
    nothing in config.json.
    """
    text = config.get("text_config") or {}
    for holder in (config, text):
        for key in ("quantization_config", "compression_config"):
            if holder.get(key):
                found: Mapping[str, Any] = holder[key]
                return found
    exported = config.get(EXPORTER_CONFIG)
    return {"quant_method": "modelopt", **exported} if exported else None
