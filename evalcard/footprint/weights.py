"""Bytes of weights under a scheme, as its files store them: codes, scales, zero points, and what stays as it is."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from evalcard.errors import UserError
from evalcard.footprint.parts import KINDS, Kind, Part
from evalcard_engine.errors import EngineError
from evalcard_engine.quant.scheme import Scheme, group_size_for, parse_scheme

PLAIN = "bf16"
PLAIN_BYTES = 2
"""Of a weight that no scheme compresses, in bfloat16 or float16."""
_PLAIN_NAMES = (PLAIN, "fp16", "16", "w16a16", "bfloat16", "float16")
_FP8_SCALE, _MX_SCALE, _NF4_SCALE, _WHOLE_SCALE = 1, 1, 4, 4
"""Bytes of a scale: fp8 and powers of two of groups, float32 of NF4's blocks, float32 of a whole NVFP4 matrix."""


def scheme_of(text: str) -> Scheme | None:
    """The scheme that the text spells, None for 16 bits; raises UserError with the known ones."""
    if text.strip().lower() in _PLAIN_NAMES:
        return None
    try:
        return parse_scheme(text)
    except EngineError as error:
        raise UserError(f"{error} {PLAIN} is uncompressed.") from None


def weight_bytes(
    parts: Iterable[Part], scheme: Scheme | None, tied_head: Part | None = None, kinds: Collection[Kind] = KINDS
) -> int:
    """Bytes of all weights; scales have 16 bits where the format does not say otherwise.

    The scheme applies to the linears of the decoder's layers, where some are left out to those of ``kinds``. Embedding,
    head, norms, biases, routers and a vision tower stay in 16 bits. ``head=w8`` compresses the head too, which then is
    stored beside the embedding even where the two were one (``tied_head``). 2:4 sparsity is counted dense, as engines
    hold it. Raises UserError where a width does not fit a scheme whose groups are fixed.
    """
    heads = [tied_head] if tied_head is not None and scheme is not None and scheme.head_bits else []
    return sum(_part_bytes(part, scheme if part.kind in kinds else None) for part in (*parts, *heads))


def _part_bytes(part: Part, scheme: Scheme | None) -> int:
    if part.columns is None or scheme is None:
        return PLAIN_BYTES * part.num_weights
    if part.kind == "head" and scheme.head_bits:
        channels = replace(scheme, element="int8", group_size=None, block=None, symmetric=True)
        return part.count * _matrix_bytes(part.rows, part.columns, channels)
    if not part.is_linear or scheme.element is None:
        return PLAIN_BYTES * part.num_weights
    return part.count * _matrix_bytes(part.rows, part.columns, scheme)


def _matrix_bytes(rows: int, columns: int, scheme: Scheme) -> int:
    codes = rows * -(-columns * scheme.weight_bits // 8)
    if scheme.element == "nf4":
        assert scheme.group_size is not None, scheme
        return codes + _NF4_SCALE * -(-rows * columns // scheme.group_size)
    if scheme.element == "fp4_e2m1":
        assert scheme.group_size is not None, scheme
        return codes + _fp4_scales(rows, columns, scheme.name, scheme.group_size)
    if scheme.block is not None:
        return codes + PLAIN_BYTES * -(-rows // scheme.block) * -(-columns // scheme.block)
    groups = columns // group_size_for(columns, scheme.group_size)
    zeros = 0 if scheme.symmetric else -(-rows * scheme.weight_bits // 8) * groups
    return codes + PLAIN_BYTES * rows * groups + zeros


def _fp4_scales(rows: int, columns: int, name: str, group_size: int) -> int:
    if columns % group_size:
        raise UserError(
            f"{name} has no form for linears of {columns} columns, which do not divide into groups of {group_size}. "
            "Use w4a16."
        )
    scales = rows * columns // group_size
    return scales * _FP8_SCALE + _WHOLE_SCALE if group_size == 16 else scales * _MX_SCALE
