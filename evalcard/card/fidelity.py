"""How alike a compressed model's answers are to its baseline's, as a card shows it: numbers formatted, no prose."""

from dataclasses import dataclass

from evalcard.card import numbers
from evalcard.results.compared import Comparison, FidelityRecord, GeneratedFidelity, LeftOutWhy


@dataclass(frozen=True, slots=True)
class ScoredLine:
    """One row whose distributions were compared; divergences in nats."""

    row: str
    items: str
    mean: str
    """With its standard error, where that is known."""
    median: str
    p90: str
    p99: str
    most: str
    agreement: str
    gold: str
    """Change of the right choice's probability in percentage points; a dash where it is not known which that is."""


@dataclass(frozen=True, slots=True)
class GeneratedLine:
    """One row of generated answers."""

    row: str
    answers: str
    identical: str
    first_difference: str
    token_agreement: str


@dataclass(frozen=True, slots=True)
class LeftOutLine:
    row: str
    count: int
    why: LeftOutWhy


@dataclass(frozen=True, slots=True)
class FidelityView:
    """One compressed model on all rows that tell it."""

    choices: tuple[ScoredLine, ...]
    tokens: tuple[ScoredLine, ...]
    """Measured over the whole vocabulary along a text, by another program."""
    generated: tuple[GeneratedLine, ...]
    left_out: tuple[LeftOutLine, ...]

    @property
    def has_gold(self) -> bool:
        return any(line.gold != numbers.DASH for line in self.choices)


def fidelity_view(comparison: Comparison, slug: str) -> FidelityView | None:
    """None where nothing of it is known."""
    mine = [one for one in comparison.fidelity if one.model == slug]
    view = FidelityView(
        choices=tuple(_scored(one) for one in mine if one.unit == "choices"),
        tokens=tuple(_scored(one) for one in mine if one.unit == "tokens"),
        generated=tuple(_generated(one.row, one.generated) for one in mine if one.generated is not None),
        left_out=tuple(LeftOutLine(one.row, count, why) for one in mine for why, count in one.left_out.items()),
    )
    return view if mine else None


def _scored(one: FidelityRecord) -> ScoredLine:
    mean = numbers.nats(one.kl_mean)
    return ScoredLine(
        row=one.row,
        items=f"{one.items}",
        mean=f"{mean} ± {numbers.nats(one.kl_stderr)}" if one.kl_stderr else mean,
        median=numbers.nats(one.kl_median),
        p90=numbers.nats(one.kl_p90),
        p99=numbers.nats(one.kl_p99),
        most=numbers.nats(one.kl_max),
        agreement=_share(one.top_agreement),
        gold=numbers.DASH if one.gold_shift is None else numbers.in_percent(one.gold_shift),
    )


def _generated(row: str, told: GeneratedFidelity) -> GeneratedLine:
    first = told.first_difference
    return GeneratedLine(
        row=row,
        answers=f"{told.answers}",
        identical=_share(told.identical),
        first_difference=numbers.DASH if first is None else f"{first:g}",
        token_agreement=_share(told.token_agreement),
    )


def _share(value: float | None) -> str:
    return numbers.DASH if value is None else f"{numbers.in_percent(value)} %"
