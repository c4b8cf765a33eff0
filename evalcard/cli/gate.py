"""``evalcard gate``: judge a stored comparison against limits."""

from pathlib import Path

import click

from evalcard.cli.values import KeyValues


@click.command("gate")
@click.argument("run", default="latest")
@click.option(
    "--min-recovery", type=float, default=99.0, show_default=True, metavar="PERCENT", help="Limit of every row."
)
@click.option(
    "--task",
    "task_limits",
    type=KeyValues(),
    multiple=True,
    metavar="TASK=PERCENT",
    help="Another limit for one row. May be given several times.",
)
@click.option(
    "--decide",
    type=click.Choice(["point"]),
    required=True,
    help="point: compare the recovery itself with the "
    "limit. Stated on purpose: it does not know how sure the recovery is.",
)
@click.option(
    "--on-inconclusive",
    type=click.Choice(["fail", "pass"]),
    help="Exit with 1 or 0 instead of 3 where the run cannot decide.",
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), help="Results root.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def command(
    run: str,
    min_recovery: float,
    task_limits: tuple[dict[str, str], ...],
    decide: str,
    on_inconclusive: str | None,
    out: Path,
    as_json: bool,
) -> int:
    """Judge RUN (a folder, a name under the results root, or `latest`).

    Exit code 0: every limit is met. 1: one is not. 3: inconclusive. 4: cannot be judged. 2: the question was wrong.
    """
    from evalcard.cli.tables import print_verdict
    from evalcard.errors import UserError
    from evalcard.gate.judge import GateSpec
    from evalcard.run import gate_run

    limits = {}
    for pairs in task_limits:
        for task, text in pairs.items():
            try:
                limits[task] = float(text)
            except ValueError:
                raise UserError(
                    f"--task {task}={text}: {text!r} is no number. Write TASK=PERCENT, such as gsm8k=98."
                ) from None
    verdict = gate_run(out, run, GateSpec(min_recovery=min_recovery, tasks=limits, decide="point"))
    if as_json:
        click.echo(verdict.model_dump_json(indent=1))
    else:
        print_verdict(verdict)
    if verdict.outcome == "INCONCLUSIVE" and on_inconclusive:
        return {"fail": 1, "pass": 0}[on_inconclusive]
    return verdict.exit_code
