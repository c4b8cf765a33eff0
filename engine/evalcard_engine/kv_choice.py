"""How a model's keys and values are stored: as the scheme asked for, as the checkpoint's scales say, or as they are."""

from evalcard_engine.cache.kv_codes import KV_CODES_VERSION, KVCodes
from evalcard_engine.checkpoint.claims import Claims
from evalcard_engine.checkpoint.kv_scales import stored_codes
from evalcard_engine.checkpoint.reading import TensorReader
from evalcard_engine.errors import EngineError
from evalcard_engine.loading import DECODER
from evalcard_engine.quant.scheme import Scheme


def choose_codes(
    model: str, scheme: Scheme | None, claims: Claims, reader: TensorReader, num_layers: int
) -> tuple[KVCodes, ...] | None:
    """The codes of each layer; None stores numbers in the dtype computed in.

    Raises EngineError where the checkpoint's scales are incomplete, and where a scheme would replace them.
    """
    stored = stored_codes(claims, reader, [f"{DECODER}{layer}.self_attn" for layer in range(num_layers)])
    if scheme is None or scheme.kv_cache is None:
        return stored
    if stored is not None:
        raise EngineError(
            f"{model} comes with scales for its KV cache ({cache_words(stored)}), which :{scheme.name} would replace. "
            "Leave out kv=, or give a checkpoint without them."
        )
    # fp8 without calibration has the scale 1, as in vLLM: keys and values of common models lie well within 448.
    on_the_fly = KVCodes("int8") if scheme.kv_cache == "int8" else KVCodes("fp8_e4m3", 1.0, 1.0)
    return (on_the_fly,) * num_layers


def cache_words(codes: tuple[KVCodes, ...] | None) -> str | None:
    """Such as ``fp8_e4m3, scale 1``; None where nothing is coded."""
    if codes is None:
        return None
    scales = {scale for one in codes for scale in (one.key_scale, one.value_scale)}
    if scales == {None}:
        return f"{codes[0].element}, a scale for each token and head"
    return f"{codes[0].element}, {'scale 1' if scales == {1.0} else 'scales of the checkpoint'}"


def cache_notes(codes: tuple[KVCodes, ...] | None) -> tuple[str, ...]:
    """What of it belongs to the numerics: the same keys and values stored otherwise are other answers."""
    return () if codes is None else (f"KV cache {cache_words(codes)}, {KV_CODES_VERSION}",)
