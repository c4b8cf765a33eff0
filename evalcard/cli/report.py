"""``evalcard report``: one HTML page of a stored run, with a browser over its answers."""

from pathlib import Path

import click


@click.command("report")
@click.argument("run", default="latest")
@click.option(
    "--out-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the page goes (default: report.html in the run's folder).",
)
@click.option(
    "--data-root", type=click.Path(), help="Folder that holds data sets by their Hub ids; questions are there."
)
@click.option("--trust-task-code", is_flag=True, help="Run Python that task files name or lead to.")
@click.option("--open", "opens", is_flag=True, help="Show the page in the browser.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), help="Results root.")
def command(
    run: str, out_file: Path | None, data_root: str | None, trust_task_code: bool, opens: bool, out: Path
) -> int:
    """Write the report of RUN (a folder, a name under the results root, or `latest`) as one HTML file.

    It holds tables, figures, findings and every answer of every model, side by side with the baseline's, and needs
    neither a network nor a server. Nothing is measured and no model is loaded.
    """
    from evalcard.card.report.build import write_report
    from evalcard.cli.latest import warn_of_newer
    from evalcard.cli.lines import tell
    from evalcard.results.runs import find_run

    folder = find_run(out, run)
    warn_of_newer(out, (run,), "reported")
    report = write_report(folder, out_file, data_root, trust_task_code)
    for why in report.missing:
        tell(f"note: questions or prompts are not shown where they could not be read: {why}", err=True)
    click.echo(f"{report.path} ({report.num_rows} items, {report.num_bytes / 1e6:.1f} MB)")
    if opens:
        click.launch(report.path.resolve().as_uri())
    return 0
