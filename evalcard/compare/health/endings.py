"""Do a compressed model's answers end otherwise than the baseline's? Then a score shows more than accuracy."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalcard.compare.health.finding import share
from evalcard.compare.holm import adjust
from evalcard.compare.paired import mcnemar_p
from evalcard.compare.pairing import Answered, Answers
from evalcard.results.compared import Finding
from evalcard.results.records import ItemId, ModelRecord, RunRecord

MAX_P = 0.01
"""Chance that a model whose answers end as the baseline's gets any of these warnings, over all its rows and endings."""
MIN_CHANGE = 0.01
"""Change of the share, as a fraction."""


@dataclass(frozen=True, slots=True)
class Ending:
    name: str
    has: Callable[[Answered], bool]
    advice: str
    needs_ends: bool = True
    """Whether it must be known of both answers, or of neither, how they ended: else the two are counted by other rules.
    """


@dataclass(frozen=True, slots=True)
class _Test:
    """One ending on one row."""

    n: int
    """Answers that both models gave."""
    before: int
    """Of the baseline's, those with this ending."""
    after: int
    p_value: float


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
        needs_ends=False,
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
    """One compressed model against the baseline, row by row, over the samples that both have.

    Said is what stands beside all the model's tests (Holm). An ending that no item lost or got is not tested: with no
    such item there is nothing that could be rejected.
    """
    baseline = run.models[0].slug
    ours, theirs = answers.get(baseline, {}), answers.get(model.slug, {})
    made: list[tuple[str, Ending, _Test]] = []
    for record in run.rows:
        pairs = [list(_by_item(ours.get(name, {}), theirs.get(name, {})).values()) for name in record.tasks]
        items = [item for task in pairs for item in task]
        tests = [(ending, _test(ending, items)) for ending in ENDINGS]
        made += [(record.name, ending, test) for ending, test in tests if test is not None]
    adjusted = adjust([test.p_value for _, _, test in made])
    for (row, ending, test), p_value in zip(made, adjusted, strict=True):
        if p_value < MAX_P and abs(test.after - test.before) >= MIN_CHANGE * test.n:
            where = f"{row}, {baseline} and {model.slug}"
            text, advice = _changed(ending, test), ending.advice
            yield Finding(finding=text, severity="warning", where=where, advice=advice, model=model.slug, row=row)


def _by_item(ours: Answers, theirs: Answers) -> dict[ItemId, list[tuple[Answered, Answered]]]:
    """Each item's shared answers, side by side."""
    items: dict[ItemId, list[tuple[Answered, Answered]]] = defaultdict(list)
    for address in sorted(ours.keys() & theirs.keys(), key=str):
        items[address[0]].append((ours[address], theirs[address]))
    return items


def _test(ending: Ending, items: Sequence[Sequence[tuple[Answered, Answered]]]) -> _Test | None:
    """None where no item differs.

    An item answered several times is one toss of the coin: its share of such answers went up or down.
    """
    if ending.needs_ends:
        items = [[pair for pair in item if _told(pair[0]) == _told(pair[1])] for item in items]
    counts = [(sum(ending.has(a) for a, _ in item), sum(ending.has(b) for _, b in item)) for item in items]
    fell, rose = sum(b < a for a, b in counts), sum(b > a for a, b in counts)
    if not fell + rose:
        return None
    before, after = sum(a for a, _ in counts), sum(b for _, b in counts)
    return _Test(sum(map(len, items)), before, after, mcnemar_p(fell, rose))


def _told(answer: Answered) -> bool:
    return answer.finish != "not_told"


def _changed(ending: Ending, test: _Test) -> str:
    verb = "rose" if test.after > test.before else "fell"
    before, after = share(test.before, test.n), share(test.after, test.n)
    return f"{ending.name} {verb} from {before} to {after}; by chance alone: p = {test.p_value:.2g}."
