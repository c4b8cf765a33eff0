"""Do a compressed model's answers end otherwise than the baseline's? Then a score shows more than accuracy."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalcard.compare.health.finding import share
from evalcard.compare.paired import mcnemar_p
from evalcard.compare.pairing import Answered, Answers
from evalcard.results.compared import Finding
from evalcard.results.records import ItemId, ModelRecord, RunRecord

MAX_P = 0.01
"""Of the exact paired test: four such tests are made for every model and row."""
MIN_CHANGE = 0.01
"""Change of the share, as a fraction."""


@dataclass(frozen=True, slots=True)
class Ending:
    name: str
    has: Callable[[Answered], bool]
    advice: str


ENDINGS = (
    Ending(
        "Truncated answers",
        lambda answer: answer.finish == "length",
        "Compression changed how long answers are; the score may show the limit rather than the model. Raise it with "
        "--max-new-tokens.",
    ),
    Ending(
        "Empty answers",
        lambda answer: answer.is_empty,
        "One of the two models stops before it says anything; look at its chat template and stop tokens.",
    ),
    Ending(
        "Answers that end in a loop",
        lambda answer: answer.is_loop,
        "Compression changed whether answers come to an end; recovery alone does not show that.",
    ),
    Ending(
        "Replies without an answer",
        lambda answer: answer.outcome == "no_answer",
        "Compression changed the form of the answers; read some of them to see whether it cost accuracy, too.",
    ),
)


def about_endings(
    run: RunRecord, model: ModelRecord, answers: Mapping[str, Mapping[str, Answers]]
) -> Iterator[Finding]:
    """One compressed model against the baseline, row by row, over the samples that both have."""
    baseline = run.models[0].slug
    ours, theirs = answers.get(baseline, {}), answers.get(model.slug, {})
    for record in run.rows:
        pairs = [list(_by_item(ours.get(name, {}), theirs.get(name, {})).values()) for name in record.tasks]
        items = [item for task in pairs for item in task]
        for ending in ENDINGS if items else ():
            text = _changed(ending, items)
            if text is not None:
                where = f"{record.name}, {baseline} and {model.slug}"
                yield Finding(
                    finding=text, severity="warning", where=where, advice=ending.advice, model=model.slug,
                    row=record.name,
                )  # fmt: skip


def _by_item(ours: Answers, theirs: Answers) -> dict[ItemId, list[tuple[Answered, Answered]]]:
    """Each item's shared answers, side by side."""
    items: dict[ItemId, list[tuple[Answered, Answered]]] = defaultdict(list)
    for address in sorted(ours.keys() & theirs.keys(), key=str):
        items[address[0]].append((ours[address], theirs[address]))
    return items


def _changed(ending: Ending, items: Sequence[Sequence[tuple[Answered, Answered]]]) -> str | None:
    """In words, where the share changed by enough and not by chance.

    An item answered several times is one toss of the coin: its share of such answers went up or down.
    """
    counts = [(sum(ending.has(a) for a, _ in item), sum(ending.has(b) for _, b in item)) for item in items]
    n, before, after = sum(map(len, items)), sum(a for a, _ in counts), sum(b for _, b in counts)
    if abs(after - before) < MIN_CHANGE * n:
        return None
    p_value = mcnemar_p(sum(b < a for a, b in counts), sum(b > a for a, b in counts))
    if p_value >= MAX_P:
        return None
    verb = "rose" if after > before else "fell"
    return f"{ending.name} {verb} from {share(before, n)} to {share(after, n)}; by chance alone: p = {p_value:.2g}."
