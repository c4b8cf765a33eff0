"""What a config's quantization_config says of compressed weights, as far as their bytes can be counted from it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evalcard.errors import UserError
from evalcard.footprint.parts import KINDS, Kind
from evalcard_engine.quant.scheme import SCHEMES, Scheme


@dataclass(frozen=True, slots=True)
class Stored:
    """How the weights of a checkpoint are compressed."""

    method: str
    """As the config names it, such as compressed-tensors."""
    scheme: Scheme | None
    """None where it says no single scheme, or where what it leaves out cannot be told apart by kind."""
    kinds: tuple[Kind, ...] = KINDS
    """Which kinds of linears it compresses."""
    kv_dtype: str | None = None
    """Of a KV cache that the checkpoint holds scales for."""


def stored_as(config: Mapping[str, Any]) -> Stored | None:
    """None where the config says nothing of compression. Raises UserError where what it says is no object."""
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else {}
    found = config.get("quantization_config") or inner.get("quantization_config")
    if not found:
        return None
    if not isinstance(found, Mapping):
        raise UserError(f"the config says quantization_config = {found!r:.80}; it must be an object. Correct the file.")
    method = str(found.get("quant_method") or "compressed-tensors")
    scheme, kinds = _scheme(method, found), _kinds(method, found)
    is_fp8 = _get(found.get("kv_cache_scheme"), "type") == "float"
    if scheme is None or kinds is None:
        return Stored(method, None, kv_dtype="fp8" if is_fp8 else None)
    return Stored(method, scheme, kinds, "fp8" if is_fp8 else None)


def _get(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, Mapping) else None


def _scheme(method: str, found: Mapping[str, Any]) -> Scheme | None:
    if method == "mxfp4":
        return SCHEMES["mxfp4a16"]
    if method == "fp8":
        return SCHEMES["fp8_block" if found.get("weight_block_size") == [128, 128] else "fp8"]
    if method in ("gptq", "awq"):
        is_symmetric = bool(found.get("sym", True)) if method == "gptq" else not found.get("zero_point", True)
        return _integers(found.get("bits"), found.get("group_size"), is_symmetric)
    if method != "compressed-tensors":
        return None
    groups = found.get("config_groups")
    if not isinstance(groups, Mapping) or len(groups) != 1:
        return None
    return _weights(_get(next(iter(groups.values())), "weights"))


def _weights(args: Any) -> Scheme | None:
    """Of compressed-tensors' arguments for weights."""
    bits, kind, group_size = (_get(args, name) for name in ("num_bits", "type", "group_size"))
    strategy = _get(args, "strategy")
    if kind == "int":
        size = group_size if strategy == "group" else None
        return _integers(bits, size, bool(_get(args, "symmetric"))) if strategy in ("group", "channel") else None
    if kind == "float" and bits == 8 and strategy in ("channel", "tensor"):
        return SCHEMES["fp8"]
    if kind == "float" and bits == 8 and strategy == "block":
        return SCHEMES["fp8_block"] if _get(args, "block_structure") == [128, 128] else None
    if kind == "float" and bits == 4:
        return {16: SCHEMES["nvfp4a16"], 32: SCHEMES["mxfp4a16"]}.get(group_size or 0)
    return None


def _integers(bits: Any, group_size: Any, is_symmetric: bool) -> Scheme | None:
    """A group size of -1 is one scale per channel."""
    if bits not in (4, 8) or not (group_size is None or isinstance(group_size, int)):
        return None
    size = group_size if group_size is not None and group_size > 0 else None
    return replace(SCHEMES["w4a16" if bits == 4 else "w8a16"], group_size=size, symmetric=is_symmetric)


_NEVER = re.compile(r"lm_head|router|\bgate\b|_gate\b|vision|multi_modal|projector|embed|norm", re.IGNORECASE)
"""Names of what no scheme compresses here."""
_LEFT_OUT: Mapping[str, Kind] = {"self_attn": "attention", "shared_expert": "shared experts"}


def _kinds(method: str, found: Mapping[str, Any]) -> tuple[Kind, ...] | None:
    """None where single layers are left out, or something this does not know by name."""
    kept: set[Kind] = set()
    for entry in _ignored(found):
        if _NEVER.search(entry):
            continue
        kind = next((kind for name, kind in _LEFT_OUT.items() if name in entry), None)
        if kind is None or re.search(r"layers\.\d", entry):
            return None
        kept.add(kind)
    if method == "mxfp4":  # transformers' own form of it is for experts alone
        return ("experts",)
    return tuple(kind for kind in KINDS if kind not in kept)


def _ignored(found: Mapping[str, Any]) -> Iterable[str]:
    names = found.get("ignore") or found.get("modules_to_not_convert") or []
    return [str(name) for name in names] if isinstance(names, list) else []
