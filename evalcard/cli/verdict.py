"""The gate's word on a terminal: a line for each model and limit, then what the table does not say."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from evalcard.card.labels import model_labels
from evalcard.card.limits import has_failed, reasons_beside_figures, reasons_held_back, spelled
from evalcard.cli.layout import print_wrapped
from evalcard.cli.limittable import OUTCOME_STYLES, harmless, print_limits
from evalcard.gate.calibration import NOT_CALIBRATED
from evalcard.gate.verdict import OUTCOMES_WORST_FIRST, GateVerdict
from evalcard.results.records import ModelRecord

_HOW: dict[str, str] = {"pass": "let through", "fail": "failed"}


def print_verdict(
    verdict: GateVerdict,
    models: Sequence[ModelRecord] = (),
    console: Console | None = None,
    *,
    folder: Path | None = None,
    on_inconclusive: str | None = None,
) -> None:
    """The outcome, the table of limits, the reasons that it does not show, the notes, and what to look at next.

    ``models``: of the run, for names that are shorter than slugs. ``folder``: the run's, where its card lies.
    ``on_inconclusive``: pass or fail, what the command makes of a verdict that is not decided.
    """
    console = console or Console()
    for line in _first_lines(verdict, on_inconclusive):
        print_wrapped(line, console)
    if any(model.limits for model in verdict.models):
        print_limits(verdict, model_labels(models), console)
    for reason in reasons_beside_figures(verdict):
        print_wrapped(Text(f"  {harmless(reason)}"), console, indent="    ")
    for note in verdict.notes:
        print_wrapped(Text(f"  note: {harmless(note)}", style="dim"), console, indent="    ")
    if folder is not None and has_failed(verdict):
        _print_next(folder, console)


def _first_lines(verdict: GateVerdict, on_inconclusive: str | None) -> Iterator[Text]:
    """``FAIL: run NAME of DATE``, then ``4 limits, 3 PASS, 1 FAIL; decided by intervals at 95 % confidence``, on one
    line where there is no run."""
    head = Text(spelled(verdict.outcome), OUTCOME_STYLES[verdict.outcome])
    if on_inconclusive is not None and verdict.outcome == "INCONCLUSIVE":
        head = Text.assemble(head, f", {_HOW[on_inconclusive]} by --on-inconclusive {on_inconclusive}")
    counts = _counts(verdict)
    if verdict.run is None:
        yield Text.assemble(head, f": {counts}") if counts else head
    else:
        when = f" of {verdict.finished[:16].replace('T', ' ')} UTC" if verdict.finished else ""
        yield Text.assemble(head, f": run {harmless(verdict.run)}{when}")
        yield Text(f"  {counts}" if counts else "")
    yield Text(f"  {harmless(verdict.limits_from)}" if verdict.limits_from else "")


def _counts(verdict: GateVerdict) -> str:
    """Empty where there is no limit."""
    counts = Counter(limit.outcome for model in verdict.models for limit in model.limits)
    if not counts:
        return ""
    total = f"{counts.total()} limit{'s' if counts.total() > 1 else ''}"
    parts = [f"{counts[one]} {spelled(one)}" for one in reversed(OUTCOMES_WORST_FIRST) if counts[one]]
    how = f"intervals at {100 * verdict.confidence:g} % confidence" if verdict.decide == "interval" else "point values"
    return f"{', '.join([total, *parts, *_held_back(verdict)])}; decided by {how}"


def _held_back(verdict: GateVerdict) -> Iterator[str]:
    """What keeps limits that passed from being the outcome, in a few words."""
    reasons = reasons_held_back(verdict)
    findings = sum(NOT_CALIBRATED not in reason for reason in reasons)
    if findings:
        yield f"held back by {findings} finding{'s' if findings > 1 else ''}"
    if findings < len(reasons):
        yield "held back as the gate was set for other models"


def _print_next(folder: Path, console: Console) -> None:
    """Unbroken, as a path or a command that is parted can be copied no more."""
    command = f"evalcard compare {shlex.quote(str(folder))} --flips 5"
    for line in (f"read the card, {folder / 'README.md'}", f"see what was lost, {command}"):
        console.print(Text(f"  next: {harmless(line)}"), highlight=False, soft_wrap=True)
