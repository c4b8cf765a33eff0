"""All checks of one card, offline."""

from collections.abc import Mapping
from dataclasses import dataclass

from evalcard.card.check.arithmetic import Tally, check_tables
from evalcard.card.check.body import check_body
from evalcard.card.check.evalresults import check_eval_results
from evalcard.card.check.frontmatter import read_front_matter
from evalcard.card.check.htmltables import html_tables
from evalcard.card.check.metadata import check_metadata
from evalcard.card.check.own import check_own, own_lines
from evalcard.card.check.ownfigures import check_figures
from evalcard.card.check.pipes import pipe_tables
from evalcard.card.check.problem import Problem, in_order
from evalcard.card.check.prose import prose_of


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found, and what it had to look at."""

    problems: tuple[Problem, ...]
    tables: int
    """Tables of baseline and compressed whose arithmetic was done."""
    recoveries: int
    averages: int
    notes: tuple[Problem, ...] = ()
    """What looks as if it had to follow and was not checked: nothing is wrong with it as far as one can tell."""


def check_card(text: str, *, files: Mapping[str, bytes] | None = None, own: bool = False) -> list[Problem]:
    """Everything that is wrong with a card, by line. Never raises for what a card holds, and asks no network.

    files: what lies beside the card, by path relative to it (images, ``.eval_results/*.yaml``); where it is empty that
    is not known, and no image is called missing. own: evalcard wrote it, so that its marks have to be there and no path
    of the machine that measured.
    """
    return list(examine_card(text, files=files, own=own).problems)


def examine_card(text: str, *, files: Mapping[str, bytes] | None = None, own: bool = False) -> Checked:
    """Likewise, with the number of things whose arithmetic was done."""
    beside = files or {}
    front = read_front_matter(text)
    prose = prose_of(text, front.body_line)
    pipes, unshown = pipe_tables(prose)
    grids = sorted([*pipes, *html_tables(prose)], key=lambda grid: grid.line)
    tally: Tally = check_tables(grids)
    metadata = check_metadata(front, beside)
    told = {problem.line for problem in metadata if problem.line is not None}
    problems = [*front.problems, *metadata, *check_eval_results(beside)]
    problems += [
        *check_body(text, prose, beside, own_lines(text) if own else range(0), told),
        *unshown,
        *tally.problems,
    ]
    if own:
        problems += [*check_own(text, front), *check_figures(grids, prose, own_lines(text))]
    return Checked(
        tuple(in_order(problems)), tally.tables, tally.recoveries, tally.averages, tuple(in_order(tally.notes))
    )
