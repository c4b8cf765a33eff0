"""What ``evalcard compare`` prints: for a person, for a program, or in the form of another page."""

import json
import shlex
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from evalcard.flipped import FlipsByRow
    from evalcard.gate.verdict import GateVerdict
    from evalcard.results.compared import Comparison
    from evalcard.results.stored import StoredModel
    from evalcard.stored import SideBySide


def print_summary(
    found: "SideBySide",
    comparison: "Comparison",
    verdict: "GateVerdict | None",
    flips: "FlipsByRow",
    missing: list[str],
) -> None:
    """For a program: who was compared, the comparison with its verdict, the flips asked for, and why questions of
    theirs could not be read."""
    from evalcard.gate.judge import with_verdict
    from evalcard.results.files import finite

    judged = with_verdict(comparison, verdict) if verdict else comparison
    run = found.run.model_dump(
        mode="json", by_alias=True, include={"name", "created", "models", "tasks", "rows", "seed"}
    )
    told = [{"model": slug, **flip.summary()} for (slug, _), of_row in flips.items() for flip in of_row or ()]
    origins = {"baseline": found.baseline.origin, "compressed": [one.origin for one in found.compressed]}
    comparison_data = judged.model_dump(mode="json", by_alias=True)
    summary = {"run": run | {"origins": origins}, "comparison": comparison_data, "flips": told, "unread": missing}
    click.echo(json.dumps(finite(summary), indent=1))


def print_form(found: "SideBySide", comparison: "Comparison", verdict: "GateVerdict | None", form: str) -> None:
    """In one of the forms of card/formats, and nothing else, so that it can be passed on."""
    from evalcard.card.formats.render import format_run
    from evalcard.gate.judge import with_verdict

    click.echo(format_run(found.run, with_verdict(comparison, verdict) if verdict else comparison, form), nl=False)


def print_for_person(
    found: "SideBySide",
    comparison: "Comparison",
    verdict: "GateVerdict | None",
    flips: "FlipsByRow",
    missing: list[str],
    full: bool,
) -> None:
    _print(found, comparison)
    _print_fidelity(comparison)
    _print_flips(found, comparison, flips, missing, full)
    if verdict:
        from evalcard.cli.verdict import print_verdict

        click.echo()
        print_verdict(verdict, found.run.models)


def _print(found: "SideBySide", comparison: "Comparison") -> None:
    from evalcard.cli.flips import echo
    from evalcard.cli.lines import fact
    from evalcard.cli.tables import print_comparison

    echo(fact("baseline", _introduced(found.baseline)))
    echo(line for model in found.compressed for line in fact("compressed", _introduced(model)))
    click.echo()
    print_comparison(found.run, comparison)


def _introduced(model: "StoredModel") -> str:
    """Where it comes from, and what it is called below where that says something else."""
    slug = model.model.slug
    return model.origin if model.origin.endswith(f":{slug}") else f"{slug}: {model.origin}"


def _print_fidelity(comparison: "Comparison") -> None:
    """What another program measured over all tokens of a text; what the answers tell is on the card."""
    from evalcard.card import numbers
    from evalcard.cli.flips import echo
    from evalcard.cli.lines import fact

    for one in comparison.fidelity:
        if one.unit != "tokens":
            continue
        click.echo()
        sizes = {"mean": one.kl_mean, "median": one.kl_median, "99\N{NO-BREAK SPACE}%": one.kl_p99, "most": one.kl_max}
        told = ", ".join(f"{name} {numbers.nats(size)}" for name, size in sizes.items() if size is not None)
        same = f"; same top token {numbers.in_percent(one.top_agreement)} %" if one.top_agreement is not None else ""
        echo(fact("fidelity", f"{one.model} over {one.items} tokens of {one.row}: KL {told} nats{same}"))


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


def print_kept(paths: list[Any]) -> None:
    """Where the card lies and what can be done with it; on stderr, as stdout may be passed on."""
    from evalcard.cli.lines import on_one_line

    folder = shlex.quote(str(paths[0].parent))
    click.echo(on_one_line(f"Card: {paths[0]}"), err=True)
    click.echo(on_one_line(f"Judge it with evalcard gate {folder}, read it with evalcard report {folder}."), err=True)
