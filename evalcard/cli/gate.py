"""``evalcard gate``: judge a stored comparison against limits."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalcard.cli.limits import GivenLimits, RowLimit

if TYPE_CHECKING:
    from evalcard.gate.spec import GateSpec
    from evalcard.gate.verdict import GateVerdict
    from evalcard.results.compared import Comparison
    from evalcard.results.records import RunRecord

_FILE, _OUTPUT = click.Path(path_type=Path), click.Path(path_type=Path, readable=False)


@click.command("gate")
@click.argument("run", default="latest")
@click.option("--gate-file", type=_FILE, metavar="FILE", help="Limits in YAML; flags win over it.")
@click.option("--min-recovery", type=float, metavar="P", help="Least recovery of every row, in percent.")
@click.option("--max-drop", type=float, metavar="P", help="Greatest loss of score on every row, in points.")
@click.option("--task", "tasks", type=RowLimit(), multiple=True, help="Least recovery of one row; may be repeated.")
@click.option(
    "--average", "averages", type=RowLimit("CATEGORY"), multiple=True, help="Of a category's average; may be repeated."
)
@click.option("--overall", type=float, metavar="P", help="Least recovery of the average over all rows, in percent.")
@click.option("--min-score", "scores", type=RowLimit(), multiple=True, help="Least score on one row; may be repeated.")
@click.option("--confidence", type=float, metavar="C", help="Of the intervals, as a fraction (default 0.95).")
@click.option(
    "--decide",
    type=click.Choice(["interval", "point"]),
    help="What is held against a limit: the interval (default), or the measured value however unsure it is.",
)
@click.option(
    "--on-inconclusive",
    type=click.Choice(["fail", "pass"]),
    help="Exit with 1 or 0 instead of 3 where the run cannot decide.",
)
@click.option("--junit", type=_OUTPUT, metavar="FILE", help="Write JUnit XML.")
@click.option("--summary", type=_OUTPUT, metavar="FILE", help="Append Markdown, for $GITHUB_STEP_SUMMARY.")
@click.option("--annotations", is_flag=True, help="Print GitHub workflow commands that annotate the build.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--out", type=_FILE, default=Path("results"), help="Results root.")
@click.option("--write-gate", type=_FILE, metavar="FILE", help="Keep these limits, with what they were set for.")
@click.option("--reason", metavar="TEXT", help="Why --write-gate lowers a limit, or sets it for other models.")
def command(
    run: str, out: Path, as_json: bool, on_inconclusive: str | None, write_gate: Path | None, reason: str | None,
    junit: Path | None, summary: Path | None, annotations: bool, **limits: Any,
) -> int:  # fmt: skip
    """Judge RUN (a folder, a name under the results root, or `latest`).

    Only the limits that are given are asked. Without any, by flag or file, those hold that the run was started with;
    where it was started without, every row needs a recovery of 99 %.

    Exit code 0: every limit is met. 1: one is not. 3: not decided. 4: cannot be judged. 2: the question was wrong.
    """
    from evalcard.card.annotations import annotations as workflow_commands
    from evalcard.cli.latest import warn_of_newer
    from evalcard.cli.outputs import GateOutputs, check_apart, check_writable
    from evalcard.gate.judge import read_judgeable
    from evalcard.results.runs import find_run
    from evalcard.run import gate_run

    outputs = GateOutputs(junit, summary, fails_inconclusive=on_inconclusive == "fail")
    outputs.check()
    check_writable(write_gate, "--write-gate")
    given = GivenLimits(**limits)
    given.resolve()  # a limit that is none is told before anything is read
    folder = find_run(out, run)
    warn_of_newer(out, (run,), "judged")
    check_apart(
        {"--junit": junit, "--summary": summary, "--write-gate": write_gate}, folder.path, gate_file=given.gate_file
    )
    record, comparison = read_judgeable(folder)
    spec, limits_from = given.resolve_for(record)
    kept = _keep_limits(record, comparison, spec, write_gate, reason)
    verdict = gate_run(out, str(folder.path), spec, limits_from)
    # Before anything is printed, which a reader that goes away may end.
    fault = outputs.write(verdict, record, comparison)
    code = fault.exit_code if fault is not None else _exit_code(verdict, on_inconclusive)
    strict = outputs.fails_inconclusive
    commands = workflow_commands(verdict, record, fails_inconclusive=strict) if annotations else []
    if as_json:
        click.echo(verdict.model_copy(update={"exit_code": code}).model_dump_json(indent=1))
        for line in (*kept, *commands):
            click.echo(line, err=True)
    else:
        _show(verdict, record, folder.path, on_inconclusive, kept, commands)
    if fault is not None:
        raise fault
    return code


def _exit_code(verdict: "GateVerdict", on_inconclusive: str | None) -> int:
    """Of the process, which may let through what is not decided."""
    if verdict.outcome == "INCONCLUSIVE" and on_inconclusive:
        return {"fail": 1, "pass": 0}[on_inconclusive]
    return verdict.exit_code


def _keep_limits(
    run: "RunRecord", comparison: "Comparison", spec: "GateSpec", path: Path | None, reason: str | None
) -> list[str]:
    """Write the limits, whatever the verdict will be, but never limits that this run cannot be asked.

    The line that says what was written, if anything was.
    """
    from evalcard.cli.lines import on_one_line
    from evalcard.errors import UserError
    from evalcard.gate.gatefile import write_gate
    from evalcard.gate.judge import judge

    if path is None and reason is None:
        return []
    if path is None:
        raise UserError("--reason says why --write-gate changes limits; give --write-gate FILE with it.")
    judge(comparison, spec, run)
    # Through a link, which would else be replaced by the file.
    changes = write_gate(path.resolve(), spec, run, comparison, reason)
    said = "a new gate file" if changes is None else "; ".join(one.in_words() for one in changes) or "no limit changed"
    return [on_one_line(f"Wrote {path}: {said}.")]


def _show(
    verdict: "GateVerdict", run: "RunRecord", folder: Path, on_inconclusive: str | None, kept: Sequence[str],
    commands: Sequence[str],
) -> None:  # fmt: skip
    """The verdict, what was kept, and the workflow commands, for a person and a build's log."""
    from evalcard.cli.verdict import print_verdict

    # A line of the table may hold anything, and one that starts like a command must not be obeyed as one.
    pause = secrets.token_hex(16) if commands else None
    if pause:
        click.echo(f"::stop-commands::{pause}")
    print_verdict(verdict, run.models, folder=folder, on_inconclusive=on_inconclusive)
    for line in kept:
        click.echo(line)
    if pause:
        click.echo(f"::{pause}::")
    for line in commands:
        click.echo(line)
