"""``evalcard compare``: two stored results beside each other, and the items that flipped."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from evalcard.flipped import FlipsByRow
    from evalcard.gate.spec import GateSpec
    from evalcard.gate.verdict import GateVerdict
    from evalcard.results.compared import Comparison
    from evalcard.results.stored import StoredModel
    from evalcard.stored import SideBySide


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
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), help="Results root.")
@click.option("--json", "as_json", is_flag=True, help="Print run, comparison and flips as JSON.")
def command(
    first: str,
    second: str | None,
    shown: int,
    rows: tuple[str, ...],
    common_items: bool,
    confidence: float | None,
    min_recovery: float | None,
    gate_file: Path | None,
    out: Path,
    as_json: bool,
    full: bool,
    **tasks: Any,
) -> int:
    """Compare stored results item by item: the baseline of A with the compressed model of B.

    A and B are runs (a folder, a name under the results root, or `latest`), or files or folders that lm-eval,
    lighteval or inspect_ai wrote. RUN:MODEL picks one of several models. Without B, a run's compressed models are
    compared with its own baseline. Nothing is written.

    Exit code 4: the two do not match (other items, prompts or decoding). With a limit, that of the verdict:
    0 passed, 1 failed, 3 inconclusive, 4 cannot be judged.
    """
    from evalcard.cli.latest import warn_of_newer
    from evalcard.compare.confidence import at_confidence
    from evalcard.flipped import flips_of, with_questions
    from evalcard.results.files import finite
    from evalcard.stored import compare_results

    _check(min_recovery, confidence)
    gate = _gate(gate_file, min_recovery, confidence)
    found = compare_results(out, first, second, rows=rows, common_items=common_items, **tasks)
    warn_of_newer(out, (first, second), "compared")
    comparison = at_confidence(found.comparison, gate.confidence if gate else confidence or found.comparison.confidence)
    verdict = _judge(found, comparison, gate) if gate else None
    flips: FlipsByRow = {}
    missing: list[str] = []
    if shown:
        flips, missing = with_questions(found, flips_of(found), shown, **tasks)
    if as_json:
        click.echo(json.dumps(finite(_summary(found, comparison, verdict, flips, missing)), indent=1))
    else:
        _print(found, comparison)
        _print_flips(found, comparison, flips, missing, full)
        if verdict:
            _print_verdict(verdict, found)
    return verdict.exit_code if verdict else 0


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


def _summary(
    found: "SideBySide",
    comparison: "Comparison",
    verdict: "GateVerdict | None",
    flips: "FlipsByRow",
    missing: list[str],
) -> dict[str, Any]:
    """For a program: who was compared, the comparison with its verdict, the flips asked for, and why questions of
    theirs could not be read."""
    from evalcard.gate.judge import with_verdict

    judged = with_verdict(comparison, verdict) if verdict else comparison
    run = found.run.model_dump(
        mode="json", by_alias=True, include={"name", "created", "models", "tasks", "rows", "seed"}
    )
    told = [{"model": slug, **flip.summary()} for (slug, _), of_row in flips.items() for flip in of_row or ()]
    origins = {"baseline": found.baseline.origin, "compressed": [one.origin for one in found.compressed]}
    comparison_data = judged.model_dump(mode="json", by_alias=True)
    return {"run": run | {"origins": origins}, "comparison": comparison_data, "flips": told, "unread": missing}


def _print(found: "SideBySide", comparison: "Comparison") -> None:
    from evalcard.cli.flips import echo
    from evalcard.cli.lines import fact
    from evalcard.cli.tables import print_comparison

    echo(fact("baseline", found.baseline.origin))
    echo(line for model in found.compressed for line in fact("compressed", _introduced(model)))
    click.echo()
    print_comparison(found.run, comparison)


def _introduced(model: "StoredModel") -> str:
    """Where it comes from, and what it is called below where that says something else."""
    slug = model.model.slug
    return model.origin if model.origin.endswith(f":{slug}") else f"{slug}: {model.origin}"


def _print_flips(
    found: "SideBySide", comparison: "Comparison", flips: "FlipsByRow", missing: list[str], full: bool
) -> None:
    """The counts of every row, then the flips that were asked for."""
    from evalcard.card.labels import model_labels
    from evalcard.cli.flips import echo, flip_lines, not_shown, print_counts

    labels = model_labels(found.run.models)
    click.echo()
    print_counts(found.run, comparison)
    echo(not_shown(missing))
    for (slug, _), of_row in flips.items():
        for flip in of_row or ():
            click.echo()
            echo(flip_lines(flip, full, labels[slug] if len(found.compressed) > 1 else None))


def _print_verdict(verdict: "GateVerdict", found: "SideBySide") -> None:
    from evalcard.cli.verdict import print_verdict

    click.echo()
    print_verdict(verdict, found.run.models)
