"""How numbers look: one place, one form, a decimal point, and a dash where nothing was measured."""

from decimal import ROUND_HALF_UP, Decimal

DASH = "–"
DECIMALS = 2
"""Of scores in percent, of raw scores and of recoveries alike."""
_SMALLEST_P = 0.001
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def fixed(value: float, decimals: int = DECIMALS) -> str:
    """With so many decimals; what rounds to nothing has no sign."""
    text = f"{value:.{decimals}f}"
    return text if float(text) else text.removeprefix("-")


def in_percent(fraction: float) -> str:
    return fixed(100 * fraction)


def score(value: float, stderr: float | None, as_percent: bool) -> str:
    """``67.50 ± 7.41``: the score and one standard error, in percent or as the metric has it.

    Where all items score alike the estimate of the error is 0, which says nothing; it is left out.
    """
    scale = 100 if as_percent else 1
    text = fixed(scale * value)
    return text if not stderr else f"{text} ± {scale * stderr:.{DECIMALS}f}"


def recovery(value: float | None) -> str:
    return DASH if value is None else f"{fixed(value)} %"


def interval(low: float | None, high: float | None) -> str:
    """``[95.98, 99.87]``, in percent; without an upper end ``[95.98, ∞)``, and nothing where none was taken."""
    if low is None:
        return ""
    end = "∞)" if high is None else f"{fixed(high)}]"
    return f"[{fixed(low)}, {end}"


def difference(value: float, as_percent: bool) -> str:
    """``+1.25`` or ``-2.50``, in percentage points or as the metric has it; what rounds to nothing has no sign."""
    text = f"{(100 if as_percent else 1) * value:+.{DECIMALS}f}"
    return text if float(text) else text[1:]


def growth(before: float, after: float, ratio: float | None) -> str:
    """``0.50 % → 1.50 % (×3.00)``: two error rates, given as fractions, and how much more the second one is; None
    where there is no such factor."""
    factor = "" if ratio is None else f" (×{ratio:.{DECIMALS}f})"
    return f"{in_percent(before)} % → {in_percent(after)} %{factor}"


def p_value(value: float | None) -> str:
    """Two significant digits; what is smaller than a thousandth is only said to be so."""
    if value is None:
        return DASH
    return f"< {_SMALLEST_P:g}" if value < _SMALLEST_P else f"{value:.2g}"


def nats(value: float | None) -> str:
    """A divergence, which spans many powers of ten: two significant digits, ``1.8×10⁻⁵`` where it is small, and one
    decimal from 10 on."""
    if value is None:
        return DASH
    if abs(value) >= 9.95:
        return fixed(value, 1)
    digits, _, power = f"{value:.1e}".partition("e")
    if value == 0 or int(power) >= -4:
        return "0" if value == 0 else f"{value:#.2g}"
    return f"{digits}×10{str(int(power)).translate(_RAISED)}"


def bits(value: float) -> str:
    """Bits per weight, halves rounded up: with 4.125 of a scheme and the little more of its checkpoint, which holds the
    shapes of its tensors too, both are 4.13."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-DECIMALS), rounding=ROUND_HALF_UP))


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
