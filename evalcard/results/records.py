"""What a run stores: strict, versioned records. Fractions everywhere; None means not measured and is never 0."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1
"""Counts up when a stored record changes its meaning; a newer one than this is refused by the store."""

DEFAULT_CATEGORY = "Other"
"""Of tasks that state none."""
Finish = Literal["stop", "stop_string", "length", "error", "not_told"]
"""not_told: another program's answer, of which its files do not say how it ended."""
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
    fault: str | None = None
    """Where an answer failed: what went wrong, such as the first layer whose values were not finite."""
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


class PlainLayers(Record):
    """Linears and embeddings of one kind that a compressed model holds in full precision."""

    kind: str
    """Last part of their names, such as embed_tokens or lm_head."""
    count: int
    of: int
    """Layers of this kind in all."""
    dtype: str
    """As they are stored, such as bf16."""
    shares: str | None = None
    """The kind whose weight they share, so that it is there once."""


class EngineRecord(Record):
    """What our own engine planned for a model's answers, and what came of it; stored answers cost nothing."""

    planned_prompt_tokens: int
    """Input tokens asked, each request counted in full."""
    planned_tokens_to_compute: int
    """Those left when a shared prefix counts once: the least that can be computed."""
    planned_max_new_tokens: int
    """The most that generated answers may add."""
    planned_pages: int
    """Pages of the KV cache made for them."""
    computed_tokens: int
    """What went through the model, new tokens that were fed back included."""
    cached_tokens: int
    """Input tokens whose keys and values came from the prefix tree."""
    merged_tokens: int
    """Input tokens that the computation of an equal input answered."""
    generated_tokens: int
    accepted_tokens: int = 0
    """Of them, those that a step found right in a draft. Runs that were stored before drafts have none."""
    rejected_tokens: int = 0
    """Tokens of drafts that were computed in vain; of computed_tokens they are no part."""
    steps: int
    """Forward passes."""
    preemptions: int
    """Times that a sequence gave its pages back and was computed again."""
    memory_halvings: int
    """Times that memory ran out in a forward, after which those that follow took half as many tokens."""
    forward_tokens: int
    """The most tokens of a forward at the end."""
    peak_pages: int
    """The most pages that sequences held at one time."""
    kv_bytes: int
    """Memory of the KV cache."""


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
    config: dict[str, Any] | None = None
    """config.json without anything that is or may be a path; None where it was not at hand."""
    left_plain: list[PlainLayers] | None = None
    """What stays in full precision where something is compressed; None where nothing is, or nobody looked."""
    recipe: str | None = None
    """recipe.yaml beside the weights, each path in it cut to its last part; None where there is none."""
    stated: dict[str, str | list[str]] | None = None
    """What the front matter of the README.md beside the weights says of licence and language, word for word."""
    engine: EngineRecord | None = None
    """Of the last attempt that asked anything; None for other backends, and where every answer was stored already."""


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


class SequentialRecord(Record):
    """One row of a run that stopped as soon as its gate was decided (compare/sequential.py)."""

    row: str
    limit: float
    """Recovery in percent that the test was about."""
    confidence: float
    """Each wrong decision comes with a probability of at most (1 - confidence) / 2."""
    items: int
    """Items of the full set, whose recovery it is about."""
    used: int
    """Of them answered when it stopped, in a seeded random order."""
    decision: Literal["PASS", "FAIL"] | None
    """None where the run ended before it was decided."""
    low: float | None
    """Ends of the confidence sequence of the full set's recovery, in percent; None where nothing can be said."""
    high: float | None


class NoiseRecord(Record):
    """The baseline asked again in another batch order, on one task."""

    task: str
    answers: int
    """Asked a second time."""
    differing: int
    """Of them, answers that are not the same word for word, or choices with another log-probability."""
    flipped: int
    """Of them, answers whose score changed."""


class SourceRecord(Record):
    """Where one model's answers come from, in a run that was put together from stored results."""

    program: str
    """What measured them, with its version where that is known, such as ``lm_eval 0.4.13``."""
    run: str | None = None
    """Name of evalcard's own run; None for another program's results."""
    files: list[str] = []
    """Names of another program's files, without folders."""
    created: str | None = None
    """When it was measured, as it says itself; ISO 8601."""
    prompts: Literal["ids", "text", "none"] = "ids"
    """What the stored hashes of its prompts are of: token ids, texts, or nothing that can be compared."""
    tells_endings: bool = True
    """Whether it says of every answer how it ended, so that those which the token limit cut are known."""


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
    sequential: list[SequentialRecord] = []
    """By row, where the run was to stop as soon as its gate was decided; empty for a run of fixed size."""
    noise: list[NoiseRecord] = []
    """By task, where the baseline was asked again; empty where it was not."""
    sources: dict[str, SourceRecord] = {}
    """By slug, where stored results were put beside each other (`evalcard compare A B --card`); empty for a run that
    asked its models itself. ``hardware`` and ``versions`` then hold what is known of all of them alike."""
