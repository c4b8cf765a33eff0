"""``evalcard card --check``: what is wrong with a card, evalcard's own or somebody else's; offline."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalcard.errors import UserError

if TYPE_CHECKING:
    from evalcard.card.check.check import Checked
    from evalcard.card.check.problem import Problem
    from evalcard.card.check.rendering import Rendering
    from evalcard.results.records import RunRecord
    from evalcard.results.store import RunFolder

CARD = "README.md"


@dataclass(frozen=True, slots=True)
class _Result:
    """One card that was looked at."""

    path: Path
    checked: "Checked"
    problems: tuple["Problem", ...]
    """Those of its text, and those of the run that it tells of."""


def check(target: str, out: Path, num_rendered: int = 0) -> int:
    """Print every problem on a line of its own, and what was looked at. Returns 1 where there is an error, else 0.

    target: a run (a folder, a name under ``out``, or ``latest``), a card, or a folder with one; nothing is written.
    num_rendered: files that were written just before, to be told. Raises UserError where it is none of these or cannot
    be read.
    """
    from evalcard.results.files import is_file

    refuse_url(target)
    if is_only_a_card(target, out):
        path = Path(target).expanduser()
        return _report([_look_at(path if is_file(path) else path / CARD)], num_rendered)
    return _report(list(_of_run(target, out)), num_rendered)


def refuse_url(target: str) -> None:
    """Raises UserError for one: no network is asked."""
    if "://" in target:
        raise UserError(
            f"{target[:200]} is a URL, and a check asks no network. Give a file: fetch the {CARD}, and name it or the "
            "folder of it."
        )


def is_only_a_card(target: str, out: Path) -> bool:
    """Whether it is a card, or a folder with one, and no run."""
    from evalcard.results.files import is_file
    from evalcard.results.store import RUN_FILE

    path = Path(target).expanduser()
    is_run = target == "latest" or any(is_file(one / RUN_FILE) for one in (Path(out).expanduser() / target, path))
    return not is_run and (is_file(path) or is_file(path / CARD))


def _of_run(target: str, out: Path) -> Iterator[_Result]:
    """The run's own page and the card of each compressed model."""
    from evalcard.cli.latest import warn_of_newer
    from evalcard.results.files import is_file, safe_name
    from evalcard.results.runs import find_run

    try:
        folder = find_run(out, target)
    except UserError as error:
        raise UserError(f"{error} A card to check may also be given as its {CARD} or as the folder of it.") from None
    warn_of_newer(out, (target,), "checked")
    run = folder.read_run()
    rendering, unknown = _rendering(folder, run)
    slugs = [model.slug for model in run.models[1:]]
    for path, slug in [
        (folder.path / CARD, slugs[0] if len(slugs) == 1 else None),
        *((folder.path / "models" / safe_name(slug) / CARD, slug) for slug in slugs),
    ]:
        if not is_file(path):
            raise UserError(f"there is no {path}. Write the cards first: evalcard card {shlex.quote(str(folder.path))}")
        page = _of_page(path, run, slug, rendering)
        # What is wrong with the run is told once, with its own page.
        yield replace(page, problems=(*unknown, *page.problems)) if path.parent == folder.path else page


def _rendering(folder: "RunFolder", run: "RunRecord") -> "tuple[Rendering | None, tuple[Problem, ...]]":
    """What the run gives now, or what keeps it from being known."""
    from evalcard.card.check.problem import Problem
    from evalcard.card.check.rendering import rendering_of
    from evalcard.unfinished import comparison_to_show

    try:
        return rendering_of(folder.path, run, comparison_to_show(folder, run)), ()
    except UserError as error:
        what = "its cards cannot be held against its results"
        return None, (Problem(None, f"run {run.name}", what, str(error), "error"),)


def _of_page(path: Path, run: "RunRecord", slug: str | None, rendering: "Rendering | None") -> _Result:
    """A page of a run; ``slug``: whose card it is."""
    from evalcard.card.check.beside import files_beside, read_card
    from evalcard.card.check.own import check_run, own_lines
    from evalcard.card.check.problem import in_order
    from evalcard.card.check.rendering import check_rendering

    found = _look_at(path, slug is not None)
    of_run = check_run(run, slug) if slug is not None else []
    if rendering is None:
        return replace(found, problems=(*of_run, *found.problems))
    text = read_card(path)
    told = {one.line for one in found.problems if one.level == "error" and one.line is not None}
    others = check_rendering(rendering, path, text, files_beside(path, text), told)
    # What evalcard wrote was held against its rendering, so that nothing in it is left to doubt.
    own = own_lines(text)
    notes = tuple(note for note in found.checked.notes if note.line not in own)
    checked = replace(found.checked, notes=notes)
    return replace(found, checked=checked, problems=(*of_run, *in_order([*others, *found.problems])))


def _look_at(path: Path, is_own: bool = False) -> _Result:
    """``is_own``: evalcard wrote it, whether its marks are there or not."""
    from evalcard.card.check.beside import files_beside, read_card
    from evalcard.card.check.check import examine_card
    from evalcard.card.section import BEGIN

    text = read_card(path)
    checked = examine_card(text, files=files_beside(path, text), own=is_own or BEGIN in text)
    return _Result(path, checked, checked.problems)


def _report(results: Sequence[_Result], num_rendered: int) -> int:
    from evalcard.card.check.problem import has_errors
    from evalcard.cli.lines import on_one_line, tell

    for result in results:
        for problem in (*result.problems, *result.checked.notes):
            place = result.path if problem.line is None else f"{result.path}:{problem.line}"
            tell(on_one_line(f"{place}: {problem.level}: {problem.message}"))
    first = f"{_count(num_rendered, 'file')} of the run's cards were rendered anew, then checked: "
    tell(f"{first if num_rendered else ''}{_summary(results)}")
    return int(any(has_errors(result.problems) for result in results))


def _summary(results: Sequence[_Result]) -> str:
    """What was found, and what that rests on."""
    levels = [problem.level for result in results for problem in result.problems]
    found = [_count(levels.count("error"), "error"), _count(levels.count("warning"), "warning")]
    cards = _count(len(results), "card")
    tables = sum(result.checked.tables for result in results)
    if not tables:
        return f"{' and '.join(found)} in {cards}; no table of a baseline and a compressed model was found."
    recoveries = sum(result.checked.recoveries for result in results)
    averages = sum(result.checked.averages for result in results)
    sums = f"{_count(recoveries, 'recovery', 'recoveries')} and {_count(averages, 'average')}"
    return f"{' and '.join(found)} in {cards}; {sums} in {_count(tables, 'table')} were reckoned anew."


def _count(number: int, what: str, many: str | None = None) -> str:
    return f"{number or 'no'} {what if number == 1 else many or f'{what}s'}"
