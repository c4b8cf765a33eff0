"""``evalcard list``: names of tasks and finished runs."""

import fnmatch
from pathlib import Path

import click

from evalcard.cli.lines import tell


@click.command("list")
@click.argument("pattern", required=False)
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), help="Results root.")
@click.option("--runs", "only_runs", is_flag=True, help="Runs under the results root instead of tasks.")
def command(pattern: str | None, out: Path, only_runs: bool) -> int:
    """List task and group names, those that match PATTERN where one is given (such as `mmlu_*`)."""
    names = _runs(out) if only_runs else _tasks()
    shown = [line for name, line in names if pattern is None or fnmatch.fnmatch(name, pattern)]
    for line in shown:
        tell(line)
    if not shown:
        click.echo(f"Nothing matches {pattern!r}." if pattern else "Nothing there yet.", err=True)
    return 0


def _tasks() -> list[tuple[str, str]]:
    from evalcard.tasks.files.select import list_names

    return [(name, name) for name in list_names()]


def _runs(out: Path) -> list[tuple[str, str]]:
    from evalcard.results.runs import run_folders

    found = []
    for folder in run_folders(out):
        run = folder.read_run()
        state = f"finished {run.finished}" if run.finished else "incomplete"
        found.append((folder.name, f"{folder.name}  {state}  {', '.join(model.slug for model in run.models)}"))
    return found
