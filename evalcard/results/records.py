"""What a run stores: strict, versioned records. Fractions everywhere; None means not measured and is never 0."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1
"""Counts up when a stored record changes its meaning; a newer one than this is refused by the store."""

Finish = Literal["stop", "stop_string", "length", "error"]
Outcome = Literal["correct", "wrong", "no_answer", "truncated", "error"]
ItemId = int | str


class Record(BaseModel):
    """Frozen, and strict about its keys and types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="null")


class ScoredChoice(Record):
    """One continuation whose log-probability was asked for."""

    text: str
    """The continuation as the task wrote it."""
    logprob: float | None
    """Sum over its tokens, natural logarithm; None where the logits were not finite."""
    tokens: int
    """Tokens of the continuation."""
    is_greedy: bool
    """Whether every token was the arg max."""


class Sample(Record):
    """One answer: a line of the journal, appended once and never rewritten."""

    schema_version: int = Field(alias="schema")
    """Version of this record."""
    key: str
    """sha256 over everything that could change the answer (design, Settled 2)."""
    task: str
    """Name of the task the item belongs to."""
    task_version: str
    """The task file's own version."""
    item_id: ItemId
    """Position in the task's full document order, or the file's own id."""
    item_hash: str
    """sha256 of the document as canonical JSON."""
    repeat: int
    """0 for the first answer to the item."""
    prompt_hash: str
    """sha256 over the token ids of all requests of the item."""
    prompt_tokens: int
    """Prompt tokens over all requests of the item."""
    shots: int | None = None
    """Worked examples in the prompt where --drop-shots left some out; None where the prompt has them all."""
    text: str | None = None
    """The generated answer; None for scored items."""
    token_ids: list[int] | None = None
    """The generated tokens, without the stop id; None for scored items or where the backend does not tell."""
    choices: list[ScoredChoice] | None = None
    """The scored continuations in the task's order; None for generated items."""
    finish: Finish
    """Why the answer ended."""
    output_tokens: int
    """Generated tokens; 0 for scored items."""
    timings: dict[str, float] = {}
    """Seconds by name, as the backend tells them; never part of a key."""


class ItemScore(Record):
    """One metric of one sample."""

    metric: str
    filter: str
    value: float | None
    """None where the metric is not a number for a single item."""


class Verdict(Record):
    """What the task says of one sample; one line of verdicts/<model>/<task>.jsonl."""

    item_id: ItemId
    repeat: int
    extracted: str | None
    """The answer the primary filter found; None where it found none."""
    target: str
    """The right answer, as the task states it."""
    outcome: Outcome
    """Follows the task's primary (metric, filter)."""
    scores: list[ItemScore]


class TaskRecord(Record):
    """One task as it was resolved."""

    name: str
    source: Literal["evalcard", "lm_eval", "file"]
    """Where the task file came from."""
    version: str
    metric: str
    """The primary metric."""
    filter: str
    """The primary filter."""
    category: str
    """Averages are taken over the rows of one category."""
    chance: float
    """The score of guessing: 1/choices for multiple choice, else 0."""
    higher_is_better: bool
    num_fewshot: int
    repeats: int
    decoding: str
    """In words: scored, greedy, or sampled with its parameters."""
    chat_template: bool
    items_total: int
    """Documents of the task."""
    items_selected: int
    """Documents evaluated."""
    selection: str
    """'all', or how the subset was chosen, such as 'first 40' or 'seeded'."""
    item_ids: list[ItemId] | None = None
    """Ids of the items of a subset, in document order; None where all were evaluated."""
    judge: str | None = None
    """What compares answers with golds instead of the task's own filters and metrics (tasks/judges)."""
    stop_strings: list[str] = []
    """Texts that end a generated answer."""
    opens_thinking: bool = False
    """Whether the prompts end inside a thinking block, so that answers begin in it without an opening tag."""
    template_date: str | None = None
    """The day that the chat template states as today (ISO 8601); None where it prints none."""
    dataset: str | None = None
    """Hub id of the documents; None where they come from local files."""
    dataset_config: str | None = None
    dataset_split: str | None = None


class RowRecord(Record):
    """One row of the tables: a task, or a group scored by its own rule."""

    name: str
    tasks: list[str]
    """Leaf tasks whose items are pooled in this row."""
    rule: Literal["task", "size", "mean"]
    """task: one task; size: every item weighs the same; mean: every leaf task weighs the same."""
    items_total: int | None = None
    """Items of the whole row where leaf tasks without a selected item left it; None where all are in ``tasks``."""

    def total(self, tasks: Iterable[TaskRecord]) -> int:
        """Items of the whole row, of which a subset may have been evaluated; ``tasks`` are its leaf tasks."""
        return sum(task.items_total for task in tasks) if self.items_total is None else self.items_total


class ModelRecord(Record):
    """One model of the run. Paths live only in the spec as asked, so that this record can be published."""

    slug: str
    """Folder name of its samples, unique in the run."""
    role: Literal["baseline", "compressed"]
    name: str
    """Hub id, or the last part of the path; never a path."""
    hub_id: str | None
    """None for a local folder."""
    revision: str | None
    """The Hub commit, where there is one."""
    scheme: str | None
    """Scheme applied on the fly, None where the model was run as it is."""
    scheme_title: str | None = None
    """The scheme in words."""
    weights_digest: str | None
    """sha256 over the weights; None where the backend cannot tell."""
    tokenizer_digest: str
    template_digest: str | None
    """sha256 of the chat template, None where none was used."""
    numerics: str | None
    """Engine numerics: kernel versions, dtype, torch version, CPU feature set."""
    bits_per_weight: float | None = None
    """Measured over the weights of the linears."""
    weight_bytes: int | None = None
    """Bytes of all weights as the scheme stores them, a tied head once."""
    num_parameters: int | None = None


class ProgressRecord(Record):
    """How far one model got with one task."""

    model: str
    """The model's slug."""
    task: str
    expected: int
    """Samples expected: items times repeats."""
    done: int
    reused: int
    """Of them taken from earlier runs or an earlier attempt."""
    seconds: float
    """Time spent on the task in the last attempt that computed something."""


class RescoreRecord(Record):
    """How the answers of a finished run were graded again, where that is not as the run's own command grades them."""

    command: list[str]
    """The ``evalcard rescore`` that makes the same verdicts."""
    judges: dict[str, str]
    """Row or task -> the judge that was asked for; the other tasks are graded as they define it."""
    changed_items: dict[str, list[ItemId]]
    """Task -> items that were graded by documents which had changed since they were answered."""


class RunRecord(Record):
    """run.json: everything about the run but its answers."""

    schema_version: int = Field(alias="schema")
    name: str
    created: str
    """ISO 8601, UTC."""
    finished: str | None
    """None while the run is incomplete."""
    asked: dict[str, Any]
    """The spec as the user gave it."""
    resolved: dict[str, Any]
    """The spec with every default filled in."""
    models: list[ModelRecord]
    """The baseline first."""
    tasks: list[TaskRecord]
    rows: list[RowRecord]
    progress: list[ProgressRecord]
    versions: dict[str, str]
    """evalcard, python and the packages that matter."""
    hardware: dict[str, str | int]
    seed: int
    command: list[str]
    git: dict[str, str | bool] | None
    """Commit and dirty flag of the working folder, where it is a git checkout."""
    rescored: RescoreRecord | None = None
    """None where the verdicts are those that the run's own command gives."""


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
    """Of them, those whose scores differ."""
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
    """Degrees of freedom of these; None for the average of several sets."""


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


class Finding(Record):
    """One thing that touches whether the comparison may be trusted."""

    finding: str
    severity: Literal["note", "warning", "blocker"]
    where: str
    advice: str
    model: str | None = None
    """Slug of the one model it concerns; None where it concerns them all."""


class Comparison(Record):
    """comparison.json."""

    schema_version: int = Field(alias="schema")
    run: str
    tasks: list[ComparedRow]
    averages: list[ComparedRow]
    health: list[Finding]
    confidence: float = 0.95
    """Confidence of every interval here."""
    verdict: dict[str, Any] | None
    """The gate's last word on this comparison, None where no gate was asked."""
