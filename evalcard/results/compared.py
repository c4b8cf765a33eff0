"""comparison.json: what two models' answers come to. Fractions; None means not measured and is never 0."""

from typing import Any, Literal

from pydantic import Field

from evalcard.results.records import Outcome, Record, SequentialRecord

OVERALL = "overall"
"""Names the average over all rows."""


class MetricScore(Record):
    """The mean of another metric over the same answers, or of the same metric through another filter."""

    metric: str
    filter: str
    score: float


class ScoreRecord(Record):
    """A score with its standard error, as fractions."""

    score: float
    stderr: float | None
    """None below two items."""
    outcomes: dict[Outcome, int] = {}
    """How many samples came out how; all five where the row counts them, empty for an average."""
    pass_at: list[float] = []
    """pass@k by k - 1, for every k up to the repeats; empty where items were answered once or scores are not 0 or 1."""
    others: list[MetricScore] = []
    """Every other measure of the same answers that is a mean over items."""


class RecoveryRecord(Record):
    """Recovery in percent."""

    value: float
    low: float | None = None
    high: float | None = None
    """Both ends of the interval; ``high`` is None where there is no upper end, both where no interval was taken."""


class PairedRecord(Record):
    """Both models on one row, item by item, in so many numbers that an interval can be had at any confidence."""

    n: int
    """Items that both models answered."""
    different: int
    """Of them, those whose scores differ; of an average of which some sets are too alike to tell how they spread, the
    least of these sets'."""
    is_binary: bool
    """Whether every item is right or wrong with either model, once each, and weighs the same."""
    both: float | None
    """Sum over items of the smaller score: items right with both models, where these are right or wrong. None where
    scores leave 0 to 1, or items do not weigh the same."""
    lost: float | None
    """Sum of what the baseline has more."""
    gained: float | None
    """Sum of what the compressed model has more."""
    baseline: float
    """The row's score."""
    compressed: float
    baseline_variance: float
    """Variance of the row's score over sets of such items, its standard error squared."""
    compressed_variance: float
    covariance: float
    """Of both models' scores."""
    skewness: float | None
    """Of compressed - recovery * baseline score over the items; None where all are equal, and for averages."""
    degrees: float | None
    """Degrees of freedom of these; None for the average of several sets that all tell how they spread."""


class DifferenceRecord(Record):
    """Compressed score - baseline score, as a fraction."""

    value: float
    low: float | None = None
    high: float | None = None


class CompressedScore(Record):
    """One compressed model on one row."""

    model: str
    """Slug."""
    scheme: str | None
    score: float
    stderr: float | None
    outcomes: dict[Outcome, int] = {}
    pass_at: list[float] = []
    others: list[MetricScore] = []
    recovery: RecoveryRecord | None
    reason: str | None = None
    """Why there is no recovery."""
    difference: DifferenceRecord | None = None
    paired: PairedRecord | None = None
    """None where an item was answered by one of the two models only."""
    chance_adjusted: float | None = None
    """100 * (compressed - chance) / (baseline - chance); None where that means nothing."""
    error_ratio: float | None = None
    """Error rate of the compressed model over the baseline's; None where the baseline makes none."""
    lost: int | None
    """Answers the baseline had right and this model has wrong; None for an average and where scores are not 0 or 1."""
    gained: int | None
    mcnemar_p: float | None
    """Exact, two-sided; 1 without flips; None where scores are not 0 or 1, or items were answered several times."""
    sequential: SequentialRecord | None = None
    """How the row's test ended, where the run stopped early; ``recovery`` then has the ends of its sequence."""


class ComparedRow(Record):
    """One row of comparison.json, a task or group; averages have the same form."""

    task: str
    metric: str
    n: int
    """Items, or rows for an average."""
    baseline: ScoreRecord
    compressed: list[CompressedScore]
    chance: float
    category: str
    tasks: list[str]
    """What the row is made of: leaf tasks, or the rows of an average."""
    higher_is_better: bool = True


class Finding(Record):
    """One thing that touches whether the comparison may be trusted."""

    finding: str
    severity: Literal["note", "warning", "blocker"]
    where: str
    advice: str
    model: str | None = None
    """Slug of the one model it concerns; None where it concerns them all."""
    row: str | None = None
    """Name of the one row it concerns; None where it concerns the whole run."""


LeftOutWhy = Literal["failed", "other_choices", "unpaired"]
"""Why a pair of answers is in no figure of fidelity: one of them failed or has a log-probability that is not finite,
they were asked for other choices, or there is one of them only."""


class GeneratedFidelity(Record):
    """How far a compressed model writes what the baseline wrote."""

    answers: int
    """Pairs of generated answers."""
    identical: float
    """Share of them that are the same word for word."""
    with_tokens: int
    """Pairs of which both models' tokens are known."""
    first_difference: float | None
    """Median number of equal tokens before the first different one, over the pairs whose tokens differ; None where none
    does."""
    token_agreement: float | None
    """Mean over the pairs with tokens: equal tokens before the first different one, over those of the longer answer."""


class FidelityRecord(Record):
    """How alike a compressed model and its baseline are on one row, beyond scores (compare/fidelity.py).

    Divergences are KL(baseline || compressed) in nats.
    """

    row: str
    """Name of the row, or of the text where another program measured over all tokens."""
    model: str
    """Slug."""
    unit: Literal["choices", "tokens"] | None
    """What each distribution is over: the choices of an item, or the vocabulary at one place of a text; None where
    there are generated answers only."""
    items: int
    """Distributions compared: pairs of scored answers, or places of a text."""
    kl_mean: float | None = None
    kl_stderr: float | None = None
    """Standard error of the mean; None below two items."""
    kl_median: float | None = None
    kl_p90: float | None = None
    kl_p99: float | None = None
    kl_max: float | None = None
    kl_bins: list[int] | None = None
    """Items by size of the divergence, in the bins of compare/divergence.py; None where only sums are known."""
    top_agreement: float | None = None
    """Share of items on which both models find the same choice, or token, most probable."""
    gold_items: int = 0
    """Items of which it is known which choice is right."""
    gold_shift: float | None = None
    """Mean absolute difference of the right choice's probability among the choices, over these."""
    generated: GeneratedFidelity | None = None
    left_out: dict[LeftOutWhy, int] = {}
    """Pairs of answers that are in none of these figures, by reason."""


class Comparison(Record):
    """comparison.json."""

    schema_version: int = Field(alias="schema")
    run: str
    tasks: list[ComparedRow]
    averages: list[ComparedRow]
    """By category, where it has two rows or more."""
    overall: ComparedRow | None = None
    """The plain mean of all rows, where there is more than one category."""
    health: list[Finding]
    confidence: float = 0.95
    """Confidence of every interval here."""
    verdict: dict[str, Any] | None
    """The gate's last word on this comparison, None where no gate was asked."""
    fidelity: list[FidelityRecord] = []
    """By compressed model and row, where answers could be compared so; empty where an older evalcard compared."""
    made_from: dict[str, str] = {}
    """sha256 of the files of answers and verdicts that it was made from, by path in the run's folder; empty where an
    older evalcard compared, or nothing was read from files."""
