"""``evalcard card``: write the cards of a stored run again."""

from pathlib import Path

import click


@click.command("card")
@click.argument("run", default="latest")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), help="Results root.")
def command(run: str, out: Path) -> int:
    """Render the cards of RUN (a folder, a name under the results root, or `latest`) from what is stored.

    Nothing is measured: the numbers are those of comparison.json.
    """
    from evalcard.card.render import write_cards
    from evalcard.cli.latest import warn_of_newer
    from evalcard.results.agreement import read_agreeing
    from evalcard.results.runs import find_run

    folder = find_run(out, run)
    warn_of_newer(out, (run,), "rendered")
    record = folder.read_run()
    for path in write_cards(folder, record, read_agreeing(folder, record)):
        click.echo(path)
    return 0
