"""``evalcard card``: write the cards of a stored run again, with what its user adds to them; look for what is wrong."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalcard.errors import UserError

if TYPE_CHECKING:
    from evalcard.card.options import Given

_FILE = click.Path(path_type=Path)


@click.command("card")
@click.argument("run", default="latest")
@click.option("--out", type=_FILE, default=Path("results"), help="Results root.")
@click.option("--template", type=_FILE, metavar="FILE", help="Your own template, or one that extends card.md.j2.")
@click.option("--notes", type=_FILE, metavar="FILE", help="Your own words, as Markdown, for a section of their own.")
@click.option("--base-model", metavar="ORG/NAME", help="Hub id of the model that was compressed.")
@click.option("--repo", metavar="ORG/NAME", help="Hub id that the compressed model is published as, for snippets.")
@click.option("--license", "license_id", metavar="ID", help="Licence as the Hub names it, such as mit; or other.")
@click.option("--license-name", metavar="NAME", help="With --license other.")
@click.option("--license-link", metavar="LINK", help="With --license other: LICENSE, LICENSE.md or a URL.")
@click.option("--language", "languages", multiple=True, metavar="CODE", help="Such as en; may be repeated.")
@click.option("--check", "is_check", is_flag=True, help="Say what is wrong with a card; exit code 1 for an error.")
def command(
    run: str, out: Path, template: Path | None, notes: Path | None, base_model: str | None, repo: str | None,
    license_id: str | None, license_name: str | None, license_link: str | None, languages: tuple[str, ...],
    is_check: bool,
) -> int:  # fmt: skip
    """Render the cards of RUN (a folder, a name under the results root, or `latest`) from what is stored.

    Nothing is measured: the numbers are those of comparison.json. What is given is kept in the run's card.json, so that
    later renderings have it too; an empty value, as in --license "", forgets it. Without --notes, a notes.md in the
    run's folder is taken.

    With --check and no other flag nothing is rendered: the cards are looked at as they lie there. RUN may then also be
    any card, or a folder with one, evalcard's or not. With other flags the run's cards are rendered before.
    """
    from evalcard.card.options import Given

    words = {
        "base_model": base_model, "repo": repo, "license": license_id, "license_name": license_name,
        "license_link": license_link,
    }  # fmt: skip
    given = Given(template, notes, words, languages)
    if is_check:
        return _check(run, out, given)
    for path in _write(run, out, given):
        click.echo(path)
    return 0


def _check(run: str, out: Path, given: "Given") -> int:
    """What is on disk; rendered anew only where a flag says what is to be on it."""
    from evalcard.cli.checked import check, is_only_a_card, refuse_url

    refuse_url(run)
    flags = _flags(given)
    if flags and is_only_a_card(run, out):
        raise UserError(
            f"{flags[0]} is for the cards of a run, and what is to be checked is no run: it is left as it is. Leave "
            "the flag out, or name a run."
        )
    return check(run, out, len(_write(run, out, given)) if flags else 0)


def _flags(given: "Given") -> list[str]:
    """Those of what was given."""
    words = [key for key, value in (given.words or {}).items() if value is not None]
    words += ["language"] if given.language else []
    words += [key for key in ("template", "notes") if getattr(given, key) is not None]
    return [f"--{word.replace('_', '-')}" for word in words]


def _write(run: str, out: Path, given: "Given") -> list[Path]:
    from evalcard.card.options import store_options
    from evalcard.card.render import write_cards
    from evalcard.cli.checked import is_only_a_card
    from evalcard.cli.latest import warn_of_newer
    from evalcard.results.runs import find_run
    from evalcard.unfinished import comparison_to_show

    if is_only_a_card(run, out):
        raise UserError(
            f"{run[:200]} is a card, and only those of a run are rendered. Name the run, or see what is wrong with the "
            f"card: `evalcard card {shlex.quote(run)} --check`."
        )
    folder = find_run(out, run)
    warn_of_newer(out, (run,), "rendered")
    record = folder.read_run()
    comparison = comparison_to_show(folder, record)
    with store_options(folder, given) as options:
        return write_cards(folder, record, comparison, options)
