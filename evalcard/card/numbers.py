"""How numbers look: one place, one form, a decimal point, and a dash where nothing was measured."""

DASH = "–"
DECIMALS = 2
"""Of scores in percent, of raw scores and of recoveries alike."""
_HALF_UNIT = 0.5 * 10**-DECIMALS
_SMALLEST_P = 0.001


def in_percent(fraction: float) -> str:
    return f"{100 * fraction:.{DECIMALS}f}"


def score(value: float, stderr: float | None, as_percent: bool) -> str:
    """``67.50 ± 7.41``: the score and one standard error, in percent or as the metric has it.

    Where all items score alike the estimate of the error is 0, which says nothing; it is left out.
    """
    scale = 100 if as_percent else 1
    text = f"{scale * value:.{DECIMALS}f}"
    return text if not stderr else f"{text} ± {scale * stderr:.{DECIMALS}f}"


def recovery(value: float | None) -> str:
    return DASH if value is None else f"{value:.{DECIMALS}f} %"


def interval(low: float | None, high: float | None) -> str:
    """``[95.98, 99.87]``, in percent; without an upper end ``[95.98, ∞)``, and nothing where none was taken."""
    if low is None:
        return ""
    end = "∞)" if high is None else f"{high:.{DECIMALS}f}]"
    return f"[{low:.{DECIMALS}f}, {end}"


def p_value(value: float | None) -> str:
    """Two significant digits; what is smaller than a thousandth is only said to be so."""
    if value is None:
        return DASH
    return f"< {_SMALLEST_P:g}" if value < _SMALLEST_P else f"{value:.2g}"


def count(value: int | None) -> str:
    return DASH if value is None else str(value)


def megabytes(num_bytes: int) -> str:
    """Decimal megabytes, as the Hub counts them."""
    return f"{num_bytes / 1e6:,.1f} MB"


def parameters(number: int) -> str:
    for size, unit in ((1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.2f} {unit}"
    return f"{number:,}"


def is_consistent(baseline: float, compressed: float, value: float, higher_is_better: bool) -> bool:
    """Whether a printed recovery follows from the printed scores within the rounding of all three.

    baseline, compressed: scores as printed; value: recovery as printed, in percent.
    """
    top, bottom = (compressed, baseline) if higher_is_better else (baseline, compressed)
    low = 100 * max(0.0, top - _HALF_UNIT) / (bottom + _HALF_UNIT) - _HALF_UNIT
    if bottom <= _HALF_UNIT:
        return value >= low - 1e-9
    high = 100 * (top + _HALF_UNIT) / (bottom - _HALF_UNIT) + _HALF_UNIT
    return low - 1e-9 <= value <= high + 1e-9
