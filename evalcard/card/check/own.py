"""What evalcard's own cards have to have beyond the Hub's rules."""

from collections.abc import Iterator

from evalcard.card.check.frontmatter import FrontMatter
from evalcard.card.check.problem import Problem, shown
from evalcard.card.check.prose import lines_of
from evalcard.card.section import BEGIN, END, marked_lines
from evalcard.results.records import RunRecord


def own_lines(text: str) -> range:
    """Lines of the card, from 1, that evalcard wrote: between its marks, or all where these are not there once."""
    begins, ends = marked_lines(text)
    if len(begins) == len(ends) == 1:
        return range(begins[0], ends[0] + 1)
    return range(1, len(lines_of(text)) + 1)


def check_own(text: str, front: FrontMatter) -> list[Problem]:
    """Of one compressed model's card: where evalcard's part begins and ends, and whose compressed form it is."""
    return [*_marks(text), *_origin(front)]


def _marks(text: str) -> Iterator[Problem]:
    begins, ends = marked_lines(text)
    for mark, found in ((BEGIN, begins), (END, ends)):
        if len(found) != 1:
            what = f"it is there {len(found)} times, and once is right" if found else "it is missing"
            yield Problem(found[1] if found else None, mark, what, "Make the card again with `evalcard card`.", "error")
    if len(begins) == len(ends) == 1 and begins[0] > ends[0]:
        yield Problem(ends[0], END, "it stands before the beginning", "Make the card again.", "error")


def _origin(front: FrontMatter) -> Iterator[Problem]:
    data = front.data or {}
    if not data.get("base_model"):
        what = "there is none, and `evalcard publish` refuses a card without it"
        yield Problem(None, "base_model", what, "Name the baseline's Hub id with --base-model.", "warning")
    elif data.get("base_model_relation") != "quantized":
        what = f"it is {shown(data.get('base_model_relation'))}, and a compressed model is quantized"
        line = front.line("base_model_relation")
        yield Problem(line, "base_model_relation", what, "Write base_model_relation: quantized.", "error")


def check_run(run: RunRecord, slug: str) -> list[Problem]:
    """What keeps one compressed model's card from being published that its text need not show: unfinished tasks, and a
    scheme that has no checkpoint as it was made while the weights loaded."""
    problems = [
        Problem(None, f"task {name}", f"{done} of {expected} answers are there", _AGAIN, "error")
        for name, done, expected in _unfinished(run, slug)
    ]
    if run.finished is None:
        problems.append(Problem(None, f"run {run.name}", "it did not end", _AGAIN, "error"))
    for model in run.models:
        if model.slug == slug and model.scheme:
            what = f"{model.scheme} was made while the weights loaded, so that there is no checkpoint to publish"
            advice = "Write one with `evalcard quantize`, and run that."
            problems.append(Problem(None, f"model {slug}", what, advice, "warning"))
    return problems


_AGAIN = "Give the `evalcard run` command again: what was finished is stored."


def _unfinished(run: RunRecord, slug: str) -> Iterator[tuple[str, int, int]]:
    """Tasks of a model or of its baseline that lack answers; one that stopped early at its gate is finished."""
    early = {line.row for line in run.sequential}
    tasks = {task for row in run.rows if row.name in early for task in row.tasks}
    baseline = run.models[0].slug if run.models else None
    for one in run.progress:
        if one.model in (slug, baseline) and one.done < one.expected and one.task not in tasks:
            yield one.task, one.done, one.expected
