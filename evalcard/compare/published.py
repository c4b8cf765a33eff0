"""The arithmetic of printed tables: does a recovery follow from the scores beside it, and an average from its rows?

A printed number stands for every number that rounds to it: 68.3 for all from 68.25 to 68.35. So a printed table is not
right or wrong by one division; what the unrounded scores may have been decides, in exact fractions.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from evalcard.errors import UserError

Rule = Literal["ratio of averages", "mean of recoveries"]
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.([0-9]+))?")


@dataclass(frozen=True, slots=True)
class Span:
    """All numbers from ``low`` to ``high``, both included; None where there is no such end."""

    low: Fraction | None
    high: Fraction | None

    def meets(self, other: "Span") -> bool:
        """Whether the two have a number in common."""
        return _is_before(self.low, other.high) and _is_before(other.low, self.high)

    def within(self, other: "Span") -> "Span":
        """What the two have in common, which is something."""
        assert self.meets(other), (self, other)
        lows = [end for end in (self.low, other.low) if end is not None]
        highs = [end for end in (self.high, other.high) if end is not None]
        return Span(max(lows, default=None), min(highs, default=None))


@dataclass(frozen=True, slots=True)
class Printed:
    """A number as it is printed, and half a unit of its last digit."""

    value: Fraction
    half: Fraction

    @property
    def span(self) -> Span:
        """What may have been rounded to it, whichever way halves were rounded. A share below 0 is none."""
        low = self.value - self.half
        return Span(max(low, Fraction(0)) if self.value >= 0 else low, self.value + self.half)


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One line of a table, digit by digit as printed: ``68.30`` says more than ``68.3``."""

    benchmark: str
    baseline: str
    compressed: str
    recovery: str | None
    """In percent; None where none is printed."""
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Match:
    """The printed recovery is right as far as one can see."""

    how: Literal["follows", "within rounding"]
    """follows: the printed scores give it, rounded. within rounding: only some of the unrounded scores that were
    printed like this do."""


@dataclass(frozen=True, slots=True)
class Inconsistent:
    """No scores that are printed like these have the printed recovery."""

    possible: Span
    """Recoveries that they can have, in percent."""
    is_last_digit: bool
    """Whether the printed recovery is off by less than one unit of its last digit: cut off, or rounded wrongly."""


@dataclass(frozen=True, slots=True)
class AverageCheck:
    """What a printed line of averages rests on."""

    baseline_is_mean: bool
    """Whether the printed average is the mean of the rows, as far as these are printed."""
    compressed_is_mean: bool
    recovery: Mapping[Rule, Match | Inconsistent]
    """By rule; empty where no recovery is printed, and without the mean of recoveries where a row can have none."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that explain the recovery: those it follows from, else those that rounding allows."""
        for how in ("follows", "within rounding"):
            found = tuple(rule for rule, told in self.recovery.items() if isinstance(told, Match) and told.how == how)
            if found:
                return found
        return ()


def read_printed(text: str) -> Printed:
    """A decimal number with its precision. Raises UserError for anything else, such as ``33,890`` or ``97 %``."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise UserError(
            f"{text!r} is no printed number: it takes digits with at most one decimal point, such as 68.30. Give the "
            "cell without units, and with a point where its language writes a comma."
        )
    return Printed(Fraction(text.strip()), Fraction(1, 2 * 10 ** len(found[1] or "")))


def check_row(row: PublishedRow) -> Match | Inconsistent | None:
    """Hold a printed recovery against the printed scores; None where none is printed."""
    if row.recovery is None:
        return None
    baseline, compressed = read_printed(row.baseline), read_printed(row.compressed)
    top, bottom = (compressed, baseline) if row.higher_is_better else (baseline, compressed)
    return _hold(read_printed(row.recovery), _exact_ratio(top.value, bottom.value), _ratio(top.span, bottom.span))


def check_average(rows: Sequence[PublishedRow], average: PublishedRow) -> AverageCheck:
    """Hold a printed line of averages against at least one row; all in the direction of ``average``."""
    assert rows, "an average of nothing"
    baselines, compressed = _column([row.baseline for row in rows]), _column([row.compressed for row in rows])
    baseline_average, compressed_average = read_printed(average.baseline), read_printed(average.compressed)
    return AverageCheck(
        baseline_is_mean=_mean_span([one.span for one in baselines]).meets(baseline_average.span),
        compressed_is_mean=_mean_span([one.span for one in compressed]).meets(compressed_average.span),
        recovery={} if average.recovery is None else _rules(rows, average, baselines, compressed),
    )


def _rules(
    rows: Sequence[PublishedRow], average: PublishedRow, baselines: list[Printed], compressed: list[Printed]
) -> dict[Rule, Match | Inconsistent]:
    assert average.recovery is not None
    printed = read_printed(average.recovery)
    told: dict[Rule, Match | Inconsistent] = {}
    line = (read_printed(average.baseline), read_printed(average.compressed))
    means = (_mean([one.value for one in baselines]), _mean([one.value for one in compressed]))
    # Some print the ratio of the averages as printed, some that of the unrounded ones.
    top, bottom = (1, 0) if average.higher_is_better else (0, 1)
    exact = _exact_ratio(line[top].value, line[bottom].value) + _exact_ratio(means[top], means[bottom])
    told["ratio of averages"] = _hold(printed, exact, _ratio(line[top].span, line[bottom].span))
    recoveries = [_recovery_of(row) for row in rows]
    exacts = [exact for exact, _ in recoveries]
    spans = [span for _, span in recoveries]
    if all(exacts):
        published = [read_printed(row.recovery).value for row in rows if row.recovery is not None]
        found = [_mean([exact[0] for exact in exacts])] + ([_mean(published)] if len(published) == len(rows) else [])
        told["mean of recoveries"] = _hold(printed, found, _mean_span(spans))
    return told


def _recovery_of(row: PublishedRow) -> tuple[list[Fraction], Span]:
    """A row's recovery from its printed scores, and where it can lie given all that is printed of it."""
    baseline, compressed = read_printed(row.baseline), read_printed(row.compressed)
    top, bottom = (compressed, baseline) if row.higher_is_better else (baseline, compressed)
    span = _ratio(top.span, bottom.span)
    if row.recovery is not None:
        stated = read_printed(row.recovery).span
        # A misprint does not say where the recovery lies.
        span = span.within(stated) if span.meets(stated) else span
    return _exact_ratio(top.value, bottom.value), span


def _hold(printed: Printed, exact: Sequence[Fraction], possible: Span) -> Match | Inconsistent:
    """``exact``: what the printed numbers give; ``possible``: what the unrounded ones may give. All in percent."""
    if any(abs(value - printed.value) <= printed.half for value in exact):
        return Match("follows")
    if possible.meets(printed.span):
        return Match("within rounding")
    unit = Span(printed.value - 2 * printed.half, printed.value + 2 * printed.half)
    return Inconsistent(possible, is_last_digit=possible.meets(unit))


def _exact_ratio(top: Fraction, bottom: Fraction) -> list[Fraction]:
    """In percent; nothing over 0."""
    return [100 * top / bottom] if bottom else []


def _ratio(top: Span, bottom: Span) -> Span:
    """All 100 * t / b with b other than 0."""
    assert None not in (top.low, top.high, bottom.low, bottom.high), (top, bottom)
    ends = [end for end in (bottom.low, bottom.high) if end]
    if bottom.low is not None and bottom.high is not None and bottom.low < 0 < bottom.high:
        return Span(None, None)
    corners = [100 * one / end for one in (top.low, top.high) if one is not None for end in ends]
    if len(ends) == 2:
        return Span(min(corners), max(corners))
    # b may be as near to 0 as it likes, from above: shares are not below it.
    return Span(min(corners) if top.low is not None and top.low >= 0 else None, None)


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def _mean_span(spans: Sequence[Span]) -> Span:
    lows = [span.low for span in spans if span.low is not None]
    highs = [span.high for span in spans if span.high is not None]
    return Span(
        _mean(lows) if len(lows) == len(spans) else None,
        _mean(highs) if len(highs) == len(spans) else None,
    )


def _column(texts: Sequence[str]) -> list[Printed]:
    return [read_printed(text) for text in texts]


def _is_before(low: Fraction | None, high: Fraction | None) -> bool:
    return low is None or high is None or low <= high
