"""``evalcard compare``: two stored results beside each other, and the items that flipped."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from evalcard.flipped import FlipsByRow
    from evalcard.gate.spec import GateSpec
    from evalcard.gate.verdict import GateVerdict
    from evalcard.results.compared import Comparison
    from evalcard.stored import SideBySide

_FORMS = ("table", "latex", "csv", "json")
_RESULTS = (".json", ".jsonl", ".eval", ".parquet")
"""Ends of names of what other harnesses wrote."""


@click.command("compare")
@click.argument("first", metavar="A")
@click.argument("second", metavar="[B]", required=False)
@click.option(
    "--flips",
    "shown",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Show N flipped items a row: the question, the right answer, both replies. Lost ones come first.",
)
@click.option("--full", is_flag=True, help="Show questions and replies whole.")
@click.option(
    "--task", "rows", multiple=True, metavar="ROW", help="Compare this row alone. May be given several times."
)
@click.option(
    "--common-items", is_flag=True, help="Compare what both answered, where one answered more or did not end."
)
@click.option(
    "--confidence",
    type=float,
    metavar="C",
    help="Of every interval, and of the verdict (default 0.95, or the gate file's).",
)
@click.option("--min-recovery", type=float, metavar="PERCENT", help="Judge every row by this limit.")
@click.option(
    "--gate-file", type=click.Path(path_type=Path), metavar="FILE", help="Judge by the limits of a gate file."
)
@click.option(
    "--data-root", type=click.Path(), help="Folder that holds data sets by their Hub ids; questions are there."
)
@click.option("--trust-task-code", is_flag=True, help="Run Python that task files name or lead to.")
@click.option(
    "--card",
    "card",
    is_flag=False,
    flag_value="",
    metavar="[FOLDER]",
    help="Keep the comparison as a run of its own, with its card; below the results root where no folder is given.",
)
@click.option(
    "--fidelity",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Add what llama-perplexity --kl-divergence printed of the compressed model.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMS),
    help="Print a short Markdown table, LaTeX, CSV (unrounded), or the comparison as JSON.",
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), help="Results root.")
@click.option("--json", "as_json", is_flag=True, help="Print run, comparison and flips as JSON.")
def command(
    first: str, second: str | None, shown: int, full: bool, rows: tuple[str, ...], common_items: bool,
    confidence: float | None, min_recovery: float | None, gate_file: Path | None, out: Path, as_json: bool,
    card: str | None, fidelity: Path | None, form: str | None, **tasks: Any,
) -> int:  # fmt: skip
    """Compare stored results item by item: the baseline of A with the compressed model of B.

    A and B are runs (a folder, a name under the results root, or `latest`), or files or folders that lm-eval,
    lighteval or inspect_ai wrote. RUN:MODEL picks one of several models. Without B, a run's compressed models are
    compared with its own baseline. Nothing is written, but for --card: it makes a run of A and B that `evalcard gate`,
    `card`, `report` and `publish` take. Give it after A and B.

    Exit code 4: the two do not match (other items, prompts or decoding). With a limit, that of the verdict:
    0 passed, 1 failed, 3 inconclusive, 4 cannot be judged.
    """
    from evalcard.cli import compared
    from evalcard.cli.latest import warn_of_newer
    from evalcard.compare.confidence import at_confidence
    from evalcard.flipped import flips_of, with_questions
    from evalcard.stored import compare_results

    _check(min_recovery, confidence)
    _check_forms(form, as_json, shown, card, second)
    _refuse_fidelity_as_result(first, second)
    gate = _gate(gate_file, min_recovery, confidence)
    found = compare_results(out, first, second, rows=rows, common_items=common_items, **tasks)
    warn_of_newer(out, (first, second), "compared")
    comparison = at_confidence(found.comparison, gate.confidence if gate else confidence or found.comparison.confidence)
    if fidelity is not None:
        comparison = _with_fidelity(found, comparison, fidelity)
    verdict = _judge(found, comparison, gate) if gate else None
    flips: FlipsByRow = {}
    missing: list[str] = []
    if shown:
        flips, missing = with_questions(found, flips_of(found), shown, **tasks)
    # Before anything is printed, which a reader that goes away may end.
    kept = _keep(found, comparison, verdict, out, card, gate_file, min_recovery, confidence)
    if as_json:
        compared.print_summary(found, comparison, verdict, flips, missing)
    elif form is not None:
        compared.print_form(found, comparison, verdict, form)
    else:
        compared.print_for_person(found, comparison, verdict, flips, missing, full)
    if kept:
        compared.print_kept(kept)
    return verdict.exit_code if verdict else 0


def _check_forms(form: str | None, as_json: bool, shown: int, card: str | None, second: str | None) -> None:
    from evalcard.errors import UserError

    if form is not None and (as_json or shown):
        other = "--json" if as_json else "--flips"
        raise UserError(f"--format {form} prints the comparison alone, and {other} something else. Leave one out.")
    if card is not None and second is None:
        taken = f", and took {card!r} for its folder" if card else ""
        raise UserError(
            f"--card makes a run of two results{taken}. Name both before it: evalcard compare BASELINE COMPRESSED "
            "--card. A run has its card already: evalcard card RUN."
        )


def _refuse_fidelity_as_result(*given: str | None) -> None:
    """It holds no answers, so there is nothing to pair."""
    from evalcard.errors import UserError
    from evalcard.results.files import is_file
    from evalcard.results.imported.llama_perplexity import is_fidelity

    for one in given:
        if one is not None and not one.endswith(_RESULTS) and is_file(Path(one)) and is_fidelity(Path(one)):
            raise UserError(
                f"{one} is what llama-perplexity --kl-divergence printed, which has no answers to compare. Give it "
                f"beside two results: evalcard compare BASELINE COMPRESSED --fidelity {shlex.quote(one)}."
            )


def _with_fidelity(found: "SideBySide", comparison: "Comparison", path: Path) -> "Comparison":
    from evalcard.keep import with_fidelity

    return with_fidelity(found.run, comparison, path)


def _keep(
    found: "SideBySide", comparison: "Comparison", verdict: "GateVerdict | None", out: Path, card: str | None,
    gate_file: Path | None, min_recovery: float | None, confidence: float | None,
) -> list[Path]:  # fmt: skip
    """The cards, where they were asked for."""
    if card is None:
        return []
    from evalcard.keep import keep_comparison

    limits = {
        "gate_file": str(gate_file.resolve()) if gate_file else None,
        "min_recovery": min_recovery,
        "confidence": confidence if gate_file or min_recovery is not None else None,
    }
    return keep_comparison(
        found,
        comparison,
        out=out,
        folder=Path(card) if card else None,
        verdict=verdict,
        limits={name: value for name, value in limits.items() if value is not None},
        command=["evalcard", *sys.argv[1:]],
    )


def _check(min_recovery: float | None, confidence: float | None) -> None:
    from evalcard.errors import UserError
    from evalcard.percent import confidence_fault, percent_fault

    if min_recovery is not None and (fault := percent_fault(min_recovery)):
        raise UserError(f"--min-recovery {fault}.")
    if confidence is not None and (fault := confidence_fault(confidence)):
        raise UserError(f"--confidence {fault}.")


def _gate(file: Path | None, min_recovery: float | None, confidence: float | None) -> "GateSpec | None":
    """What to judge by, read before any answers are; None where no limit was given."""
    if file is None and min_recovery is None:
        return None
    from evalcard.gate.gatefile import load_gate, merge
    from evalcard.gate.spec import Bounds

    given = load_gate(file) if file is not None else None
    return merge(given, every=Bounds(min_recovery=min_recovery), confidence=confidence)


def _judge(found: "SideBySide", comparison: "Comparison", gate: "GateSpec") -> "GateVerdict":
    from evalcard.gate.judge import judge

    return judge(comparison, gate, found.run)
