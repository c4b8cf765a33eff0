"""Printed numbers as texts: every digit counts, as ``68.30`` says more than ``68.3``."""

from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from evalcard.compare.published import Inconsistent, Match, PublishedRow, check_average, check_row, read_printed


def shifted(number: str, places: int) -> str:
    """The decimal point so many places further left, every digit kept: ``66.9`` becomes ``0.669``."""
    return format(Decimal(number).scaleb(-places), "f")


def places_of(number: str) -> int:
    """How many digits stand behind its point."""
    return len(number.partition(".")[2])


def fixed(value: Fraction, places: int) -> str:
    """With so many decimals, halves away from nothing."""
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    return str(exact.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP))


def mean_of(numbers: Sequence[str]) -> Fraction:
    """Of the numbers as printed."""
    return sum((read_printed(number).value for number in numbers), Fraction(0)) / len(numbers)


def ratio_of(row: PublishedRow) -> Fraction | None:
    """The recovery that the scores have as printed, in percent; None over nothing."""
    baseline, compressed = read_printed(row.baseline).value, read_printed(row.compressed).value
    top, bottom = (compressed, baseline) if row.higher_is_better else (baseline, compressed)
    return 100 * top / bottom if bottom else None


def about_recovery(row: PublishedRow, told: Inconsistent, places: int = 0) -> tuple[str, str]:
    """What is printed and what follows, and what to do. places: by how many the row's upper score was shifted, where
    recoveries are printed as fractions."""
    assert row.recovery is not None, row
    exact, decimals = ratio_of(row), places_of(row.recovery)
    if exact is None:
        return f"prints a recovery of {row.recovery} over a baseline of {row.baseline}", "Print a dash: there is none."
    follows = fixed(exact, decimals)
    low, high = told.possible.low, told.possible.high
    ends = ""
    if low is not None and high is not None:
        ends = f" ({fixed(low, decimals + 1)} to {fixed(high, decimals + 1)} before they were rounded)"
    reason = ", which is wrong in its last digit" if told.is_last_digit else ""
    top, over, bottom = shifted(_top(row), -places), "of", _bottom(row)
    if not row.higher_is_better:
        top, over = f"where lower is better {top}", "over"
    what = f"prints a recovery of {row.recovery}{reason}; {top} {over} {bottom} is {follows}{ends}"
    return what, _advice(row, follows, places)


def _top(row: PublishedRow) -> str:
    """The score that is divided."""
    return row.compressed if row.higher_is_better else row.baseline


def _bottom(row: PublishedRow) -> str:
    return row.baseline if row.higher_is_better else row.compressed


def _advice(row: PublishedRow, follows: str, places: int) -> str:
    top, bottom = shifted(_bottom(row), places), shifted(_top(row), -places)
    swapped = PublishedRow(row.benchmark, bottom, top, row.recovery)
    if isinstance(check_row(swapped), Match):
        way = "higher" if row.higher_is_better else "lower"
        return f"Print {follows}; the printed one is the ratio turned round, and here {way} is better."
    return f"Print {follows}, or correct the scores."


def about_mean(rows: Sequence[PublishedRow], average: PublishedRow, many: str = "rows") -> str:
    """What to do about an average that is not the mean of its rows: maybe one of them is not in it. many: what the card
    has its benchmarks as."""
    left_out = [told for told, rest in _without(rows, many) if _is_mean(rest, average)]
    if len(left_out) == 1:
        return f"It is the mean without {left_out[0]}: say so on the card, or print the mean of all {many}."
    return f"Print that, or say which {many} are in it."


def _without(rows: Sequence[PublishedRow], many: str) -> Iterator[tuple[str, list[PublishedRow]]]:
    """What may be missing in a mean, and the rows that are then in it: any one of them, or all of one name. Where
    several have a name, a row is told by its scores, and rows that are alike in these count once."""
    for name, scores in dict.fromkeys((row.benchmark, _scores(row)) for row in rows):
        alike = [at for at, row in enumerate(rows) if (row.benchmark, _scores(row)) == (name, scores)]
        named = [row for row in rows if row.benchmark == name]
        told = name
        if len(named) > 1:
            one = f"the {many.removesuffix('s')}" if len(alike) == 1 else f"one of the {len(alike)} {many}"
            told = f"{one} {name} with {scores[0]} and {scores[1]} ({len(named)} {many} have that name)"
        yield told, [row for at, row in enumerate(rows) if at != alike[0]]
    for name in dict.fromkeys(row.benchmark for row in rows):
        rest = [row for row in rows if row.benchmark != name]
        if len(rows) - len(rest) > 1:
            yield f"the {len(rows) - len(rest)} {many} that are called {name}", rest


def _scores(row: PublishedRow) -> tuple[str, str]:
    return row.baseline, row.compressed


def _is_mean(rows: Sequence[PublishedRow], average: PublishedRow) -> bool:
    told = check_average(rows, average) if rows else None
    return told is not None and told.baseline_is_mean and told.compressed_is_mean
