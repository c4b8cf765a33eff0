"""``evalcard rescore``: new verdicts on stored answers."""

import json
from pathlib import Path

import click


def _judges(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """``TASK=JUDGE`` pairs; only the first ``=`` divides, as a judge may be a pattern."""
    pairs = {}
    for value in values:
        task, equals, judge = value.partition("=")
        if not equals or not task.strip() or not judge.strip():
            raise click.BadParameter(f"{value!r} is not TASK=JUDGE, such as gsm8k=number.", ctx, param)
        if task.strip() in pairs:
            raise click.BadParameter(f"{task.strip()} is given two judges; name one.", ctx, param)
        pairs[task.strip()] = judge.strip()
    return pairs


@click.command("rescore")
@click.argument("run", default="latest")
@click.option(
    "--judge",
    "judges",
    multiple=True,
    callback=_judges,
    metavar="TASK=JUDGE",
    help="Another judge for one task or row: math, number, choice, exact, contains or regex=PATTERN. May be given "
    "several times.",
)
@click.option("--data-root", type=click.Path(), help="Folder that holds data sets by their Hub ids.")
@click.option("--trust-task-code", is_flag=True, help="Run Python that task files name or lead to.")
@click.option(
    "--accept-changed-items",
    is_flag=True,
    help="Grade items whose documents changed since they were answered, such as a corrected right answer, by what "
    "they say now. Counted on the card.",
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), help="Results root.")
@click.option("--json", "as_json", is_flag=True, help="Print what changed as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def command(
    run: str,
    judges: dict[str, str],
    data_root: str | None,
    trust_task_code: bool,
    accept_changed_items: bool,
    out: Path,
    as_json: bool,
    quiet: bool,
) -> int:
    """Grade the stored answers of RUN (a folder, a name under the results root, or `latest`) again, without a model.

    Each task is graded as it is defined now, or by the judge given for it. Verdicts, comparison and cards are
    written anew; `evalcard run` goes back to the tasks' own grading.
    """
    from evalcard.cli.latest import warn_of_newer
    from evalcard.cli.lines import tell
    from evalcard.cli.progress import make_progress
    from evalcard.cli.tables import print_outcome
    from evalcard.rescore import rescore
    from evalcard.run import Outcome

    bars = make_progress(quiet or as_json)
    warn_of_newer(out, (run,), "graded again")
    done = rescore(out, run, judges, data_root, trust_task_code, bars, accept_changed_items)
    if as_json:
        click.echo(json.dumps(done.summary(), indent=1))
        return 0
    for line in done.lines():
        tell(line)
    if done.comparison is not None and done.card is not None:
        print_outcome(Outcome(done.run, done.comparison, done.card))
    return 0
