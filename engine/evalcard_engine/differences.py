"""How far a compressed checkpoint's weights are from its baseline's, layer by layer, a layer in memory at a time.

A wrong packing, a wrong order of rows or a forgotten scale stands out at once, which no score tells so plainly.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from evalcard_engine.checkpoint.digest import OnProgress
from evalcard_engine.errors import EngineError
from evalcard_engine.inspection import Opened, open_claims, tensors_of
from evalcard_engine.quant.weight import QuantizedWeight

_ROWS = 2048
"""Rows that are compared at once."""
_ROUNDS = 4
"""Of fitting a factor per row and per column, in turn."""
_UNRELATED = 0.5
"""A cosine below this: two independent matrices have about 0, and the coarsest 2-bit rounding still has 0.8."""
USUAL_ERROR = {2: 0.9, 3: 0.5, 4: 0.3, 5: 0.15, 6: 0.1, 8: 0.08, 16: 0.01}
"""Bits of a weight -> relative error beyond which something else than rounding is at work. Rounding to nearest gives
about a third of it: 0.11 with 4 bits in groups of 128, 0.03 with fp8, 0.01 with int8 per channel."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One weight W' against the baseline's W."""

    name: str
    shape: tuple[int, ...]
    scheme: str | None
    bits: int
    """Of a weight's code; 16 where it is not quantized."""
    error: float
    """||W - W'|| / ||W||, Frobenius; NaN where either is not finite."""
    cosine: float
    """<W, W'> / (||W|| ||W'||)"""
    ratio: float
    """The one factor that brings W' closest to W."""
    scaled_error: float
    """What is left of the error once W' is multiplied by it."""
    fitted_error: float | None = None
    """What is left once every row and every column of W' has the factor that fits best; None where it was not tried."""

    @property
    def finding(self) -> str | None:
        """What is wrong, in words; None where the error is that of rounding to so many bits."""
        usual = USUAL_ERROR[self.bits]
        if not math.isfinite(self.error):
            return "holds values that are not finite"
        if self.error <= usual:
            return None
        if len(self.shape) < 2:
            return "differs from the baseline's: SmoothQuant and AWQ fold scales into it, and fine-tuning changes it"
        if self.scaled_error <= usual:
            return f"is right but for one factor, {1 / self.ratio:.4g}: a scale was left out, or used twice"
        # Columns that were raised before rounding come back with more of its error.
        if self.fitted_error is not None and self.fitted_error <= min(2 * usual, self.error / 2):
            return (
                "is right but for a factor per row and column: SmoothQuant and AWQ do that, and undo it in the layer "
                "before; if neither was used, its scales are wrong"
            )
        if self.cosine < _UNRELATED:
            return "is another matrix: wrong packing, another order of rows or columns, or another layer"
        return f"is further off than rounding to {self.bits} bits brings: look at its zero points and scales"


def differences(
    model: str,
    baseline: str,
    revision: str | None = None,
    baseline_revision: str | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[Difference]:
    """Compare every parameter, in the model's order; a weight that two modules share comes once.

    Raises EngineError for checkpoints with faults, and where the two are not models of the same shape.
    """
    ours, theirs = open_claims(model, revision), open_claims(baseline, baseline_revision)
    _check(ours, theirs)
    # Sharing may differ: a tied head that was compressed on its own is compared with the embedding it came from.
    seen: set[tuple[str, ...]] = set()
    for done, (parameter, source) in enumerate(ours.claims.sources.items(), start=1):
        if tensors_of(source) not in seen:
            seen.add(tensors_of(source))
            yield _difference(parameter, ours, theirs)
        if on_progress is not None:
            on_progress(done, len(ours.claims.sources))


def _check(ours: Opened, theirs: Opened) -> None:
    for opened in (ours, theirs):
        if opened.faults:
            raise EngineError(f"{opened.checkpoint.name} cannot be loaded as it is: {'; '.join(opened.faults)}.")
    shapes = [opened.shapes for opened in (ours, theirs)]
    names = [name for name in {**shapes[0], **shapes[1]} if shapes[0].get(name) != shapes[1].get(name)]
    names += sorted(set(ours.claims.sources) ^ set(theirs.claims.sources))
    if names:
        few = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise EngineError(
            f"{ours.checkpoint.name} and {theirs.checkpoint.name} are not the same model: {len(names)} layers are in "
            f"one of them only, or have another shape: {few}. Give the model that was compressed as the baseline."
        )


def _difference(parameter: str, ours: Opened, theirs: Opened) -> Difference:
    found = ours.read(ours.claims.sources[parameter])
    scheme, bits = (found.scheme, found.element.bits) if isinstance(found, QuantizedWeight) else (None, 16)
    value, wanted = _matrix(found), _matrix(theirs.read(theirs.claims.sources[parameter]))
    if value.shape != wanted.shape:
        raise EngineError(
            f"{parameter} is {list(value.shape)} in {ours.checkpoint.name} and {list(wanted.shape)} in "
            f"{theirs.checkpoint.name}. Give the model that was compressed as the baseline."
        )
    error, cosine, ratio, scaled = _measures(value, wanted)
    shape = tuple(found.shape) if isinstance(found, torch.Tensor) else (found.out_features, found.in_features)
    fitted = _fitted(value, wanted) if error > USUAL_ERROR[bits] and len(shape) == 2 else None
    name = parameter.removesuffix(".weight")
    return Difference(name, shape, scheme, bits, error, cosine, ratio, scaled, fitted)


def _matrix(weight: QuantizedWeight | torch.Tensor) -> torch.Tensor:
    """float32 [rows, columns]; a vector is one row."""
    values = weight.dequantize() if isinstance(weight, QuantizedWeight) else weight.float()
    return values.reshape(1, -1) if values.dim() < 2 else values


def _measures(value: torch.Tensor, wanted: torch.Tensor) -> tuple[float, float, float, float]:
    """(relative error, cosine, best factor, relative error with that factor)"""
    both = ours = theirs = apart = 0.0
    for begin in range(0, len(wanted), _ROWS):
        a, b = value[begin : begin + _ROWS], wanted[begin : begin + _ROWS]
        both, ours, theirs = both + _sum(a * b), ours + _sum(a * a), theirs + _sum(b * b)
        apart += _sum((a - b).square())
    if not all(map(math.isfinite, (both, ours, theirs, apart))):
        return math.nan, math.nan, math.nan, math.nan
    if theirs == 0 or ours == 0:  # a zero matrix has no direction; equal ones are equal all the same
        same = float(ours == theirs)
        return math.sqrt(apart / theirs) if theirs else 1 - same if same else math.inf, same, 1.0, 1 - same
    scaled = math.sqrt(max(0.0, 1 - both * both / (ours * theirs)))
    return math.sqrt(apart / theirs), both / math.sqrt(ours * theirs), both / ours, scaled


def _sum(values: torch.Tensor) -> float:
    return float(values.sum(dim=1).double().sum())


def _fitted(value: torch.Tensor, wanted: torch.Tensor) -> float:
    """Relative error that is left of W - diag(r) W' diag(c) for the r and c that alternating least squares find."""
    fitted = value
    for _ in range(_ROUNDS):
        for dim in (0, 1):
            square = (fitted * fitted).sum(dim=dim, keepdim=True)
            factor = (fitted * wanted).sum(dim=dim, keepdim=True) / torch.where(square == 0, 1.0, square)
            fitted = fitted * factor
    return _measures(fitted, wanted)[0]
