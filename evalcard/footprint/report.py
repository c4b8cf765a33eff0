"""One model's sizes on one kind of card, as data: what ``evalcard footprint`` prints and --json holds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from evalcard.footprint.cache import kv_dtype
from evalcard.footprint.footprint import Footprint
from evalcard.footprint.gpus import Fit, Room, fit
from evalcard.footprint.headers import Measured
from evalcard.footprint.stored import Stored
from evalcard.footprint.weights import PLAIN, PLAIN_BYTES, scheme_of

AS_STORED = "as stored"
CONTEXTS = (2048, 8192, 32768, 131072)
"""Usual lengths, of which a model's maximum leaves those that it allows."""
KV_DTYPES = ("bf16", "fp8")
SCHEMES = (PLAIN, "w8a8", "w4a16")
_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Asked:
    """What to tell sizes for."""

    room: Room
    schemes: Sequence[str] = SCHEMES
    kv_dtypes: Sequence[str] = KV_DTYPES
    contexts: Sequence[int] | None = None
    """Tokens of a request, prompt and answer together; None is the usual lengths of the model."""
    gpus: int | None = None
    """None is the fewest that do."""
    requests: int = 1
    """At once, at least."""


def usual_contexts(max_positions: int | None) -> tuple[int, ...]:
    """The usual lengths up to the longest request that a model allows, and that one itself."""
    if max_positions is None:
        return CONTEXTS
    return (*(tokens for tokens in CONTEXTS if tokens < max_positions), max_positions)


def with_scheme(asked: Asked, scheme: str) -> Asked:
    """The same question for one more scheme."""
    return replace(asked, schemes=(*asked.schemes, scheme))


@dataclass(frozen=True, slots=True)
class WeightsRow:
    """The weights under one scheme."""

    scheme: str
    num_bytes: int
    is_measured: bool
    """Read from files rather than counted."""
    bits_per_parameter: float
    """Over all parameters, those in full precision too."""
    kv_dtype: str | None = None
    """Where the scheme, or the checkpoint as it is stored, says what the KV cache is stored as: that and no other."""


@dataclass(frozen=True, slots=True)
class FitRow:
    """Cards and requests for one scheme, KV dtype and length."""

    scheme: str
    kv_dtype: str
    context: int
    fit: Fit


@dataclass(frozen=True, slots=True)
class Report:
    """All that is told of a model."""

    name: str
    footprint: Footprint
    asked: Asked
    contexts: tuple[int, ...]
    weights: tuple[WeightsRow, ...]
    fits: tuple[FitRow, ...]
    stored: Stored | None
    measured: Measured | None
    counted_bytes: int | None
    """Of what the config says is stored; None where that cannot be counted from it."""

    @property
    def difference(self) -> int | None:
        """Bytes that the files hold more (or less) than the config lets expect; None where either is not known."""
        is_known = self.measured is not None and self.counted_bytes is not None
        return self.measured.num_bytes - self.counted_bytes if is_known else None  # type: ignore[union-attr, operator]

    @property
    def kv_dtypes(self) -> tuple[str, ...]:
        """Those asked for, and those that schemes say."""
        said = (row.kv_dtype for row in self.weights if row.kv_dtype)
        return tuple(dict.fromkeys((*self.asked.kv_dtypes, *said)))

    def is_beyond(self, context: int) -> bool:
        """Whether the model's config allows no request so long."""
        most = self.footprint.max_positions
        return most is not None and context > most

    def cache_bytes(self, context: int, kv_dtype: str) -> int:
        return self.footprint.cache.num_bytes(context, kv_dtype)


def report_of(
    name: str, footprint: Footprint, asked: Asked, stored: Stored | None = None, found: Measured | None = None
) -> Report:
    """Sizes of all schemes; measured bytes stand for counted ones where the files hold that form."""
    counted = _counted(footprint, stored)
    weights = _weights(footprint, asked, stored, found, counted)
    contexts = usual_contexts(footprint.max_positions) if asked.contexts is None else tuple(asked.contexts)
    fits = tuple(
        FitRow(row.scheme, dtype, context, _fit(row, footprint.cache.num_bytes(context, dtype), asked))
        for row in weights
        for dtype in ([row.kv_dtype] if row.kv_dtype else asked.kv_dtypes)
        for context in contexts
    )
    return Report(name, footprint, asked, contexts, weights, fits, stored, found, counted)


def _fit(row: WeightsRow, request: int, asked: Asked) -> Fit:
    return fit(row.num_bytes, request, asked.room, asked.gpus, asked.requests)


def _counted(footprint: Footprint, stored: Stored | None) -> int | None:
    """Bytes of the checkpoint's own form."""
    if stored is not None:
        return footprint.weight_bytes(stored.scheme, stored.kinds) if stored.scheme else None
    width = _DTYPE_BYTES.get(footprint.dtype or "bfloat16")
    return width * footprint.num_parameters if width else None


def _weights(
    footprint: Footprint, asked: Asked, stored: Stored | None, found: Measured | None, counted: int | None
) -> tuple[WeightsRow, ...]:
    own = found.num_bytes if found else counted
    is_plain = stored is None and _DTYPE_BYTES.get(footprint.dtype or "bfloat16") == PLAIN_BYTES
    rows = []
    if not is_plain and own is not None:
        kv = kv_dtype(stored.kv_dtype) if stored and stored.kv_dtype else None
        rows.append(_row(footprint, AS_STORED, own, found is not None, kv))
    for name in asked.schemes:
        scheme = scheme_of(name)
        if scheme is None and is_plain and found is not None:
            rows.append(_row(footprint, PLAIN, found.num_bytes, True))
        else:
            kv = kv_dtype(scheme.kv_cache) if scheme and scheme.kv_cache else None
            rows.append(_row(footprint, scheme.name if scheme else PLAIN, footprint.weight_bytes(scheme), False, kv))
    return tuple(rows)


def _row(footprint: Footprint, scheme: str, num_bytes: int, is_measured: bool, kv: str | None = None) -> WeightsRow:
    return WeightsRow(scheme, num_bytes, is_measured, 8 * num_bytes / footprint.num_parameters, kv)


def as_json(report: Report) -> dict[str, Any]:
    """For programs: bytes and counts, nothing rounded."""
    found, asked = report.footprint, report.asked
    dtypes = list(report.kv_dtypes)
    return {
        "model": report.name,
        "model_type": found.model_type,
        "parameters": {"total": found.num_parameters, "active": found.num_active, "by_kind": found.by_kind},
        "max_position_embeddings": found.max_positions,
        "assumed": dict(found.assumed),
        "weights": [asdict(row) for row in report.weights],
        "files": {**asdict(report.measured), "counted_bytes": report.counted_bytes} if report.measured else None,
        "kv_cache": {
            "bytes_per_token": {dtype: found.cache.token_bytes(dtype) for dtype in dtypes},
            "bytes_per_token_beyond_windows": {dtype: found.cache.later_bytes(dtype) for dtype in dtypes},
            "layers": [asdict(one) for one in found.cache.layers],
            "expanded_bytes_per_token": _expanded(found, dtypes),
            "requests": [
                {"tokens": context, "kv_dtype": dtype, "num_bytes": report.cache_bytes(context, dtype),
                 "is_beyond_positions": report.is_beyond(context)}
                for context in report.contexts
                for dtype in dtypes
            ],
        },
        "gpu": {"name": asked.room.gpu.name, "num_bytes": asked.room.gpu.num_bytes, "share": asked.room.share},
        "fits": [
            {"scheme": row.scheme, "kv_dtype": row.kv_dtype, "tokens": row.context, **asdict(row.fit)}
            for row in report.fits
        ],
    }  # fmt: skip


def _expanded(found: Footprint, dtypes: Sequence[str]) -> dict[str, int] | None:
    cache = found.expanded_cache
    return {dtype: cache.token_bytes(dtype) for dtype in dtypes} if cache else None
