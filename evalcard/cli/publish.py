"""``evalcard publish``: put a card into its repository on the Hub."""

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from evalcard.card.hub.local import LocalCard
    from evalcard.card.hub.push import Look, Target, Wish

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@click.command("publish")
@click.argument("run", default="latest")
@click.option("--repo", required=True, metavar="ORG/NAME", help="Model repository of the compressed checkpoint.")
@click.option("--model", "slug", metavar="SLUG", help="Which compressed model, where the run has several.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    "--create-pr/--no-create-pr",
    default=None,
    help="Propose the card in a pull request, or commit it. Default: propose where the repository is not yours.",
)
@click.option("--revision", metavar="BRANCH", help="Commit to this branch, or to refs/pr/N, in the place of main.")
@click.option("--create", is_flag=True, help="Make the repository where there is none.")
@click.option("--private", is_flag=True, help="With --create: only you, or the organisation, may see it.")
@click.option("--overwrite", is_flag=True, help="Replace figures and results that evalcard did not make.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before pushing; without a terminal nobody is asked.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), help="Results root.")
def command(run: str, repo: str, slug: str | None, out: Path, yes: bool, **wish: Any) -> int:
    """Publish the card of RUN (a folder, a name under the results root, or `latest`) in one commit.

    In a README that is there only evalcard's marked section and its own metadata keys change; the rest stays byte for
    byte. What would change is shown first. Publishing the same again makes no commit. Weights are never uploaded.

    Exit code 0: published, or nothing to do. 2: the card, the question or what is on the Hub forbids it. 5: the Hub did
    not take it. Nothing is lost by either, and the same command can be given again.
    """
    from evalcard.card.hub.local import check_repo_id, read_card
    from evalcard.card.hub.push import Wish
    from evalcard.cli.latest import warn_of_newer
    from evalcard.results.lock import publish_lock
    from evalcard.results.runs import find_run

    check_repo_id(repo)
    folder = find_run(out, run)
    warn_of_newer(out, (run,), "published")
    card = read_card(folder, folder.read_run(), slug)
    asked = Wish(**wish)
    with contextlib.nullcontext() if asked.dry_run else publish_lock(folder.path):
        _publish(card, repo, asked, yes)
    return 0


def _publish(card: "LocalCard", repo: str, asked: "Wish", yes: bool) -> None:
    from evalcard.card.hub.client import Hub
    from evalcard.card.hub.push import look, push
    from evalcard.card.hub.words import commit_description, commit_title

    hub = Hub(repo)
    title = commit_title()
    seen = look(hub, card, asked, title)
    _show(seen, repo, card.slug)
    if not seen.plan.changes or asked.dry_run:
        return
    if not (yes or _agreed()):
        click.echo("Nothing was pushed.")
        return
    paths = [change.path for change in seen.plan.changes]
    done = push(hub, seen, asked, title, commit_description(card, paths))
    for said in done.warnings:
        _say(f"Warning: {said}", err=True)
    opened = f"Opened pull request: {done.request_url}" if done.request_url else None
    updated = f"Updated pull request: {seen.target.request.url}" if seen.target.request else None
    _say(opened or updated or f"Published: {hub.endpoint}/{repo}", f"Commit: {done.url}")


def _agreed() -> bool:
    """Only a person at a terminal can be asked."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    return click.confirm("Push this?", default=False)


def _say(*lines: str, err: bool = False) -> None:
    from evalcard.cli.lines import on_one_line

    for line in lines:
        click.echo(on_one_line(line), err=err)


def _show(seen: "Look", repo: str, slug: str) -> None:
    from evalcard.card.hub.diff import diff_lines, num_changed

    where = _where(seen.target)
    for other in seen.target.others:
        _say(f"Note: pull request #{other.num} of yours is open as well: {other.url}")
    if not seen.plan.changes:
        _say(f"Nothing to publish: {repo}, {where}, says all of the card of {slug} already.")
        return
    _say(f"Card of {slug} -> {repo}, {where}", "")
    for line in diff_lines(seen.plan):
        _show_line(line)
    for path in seen.unregistered:
        _say(f"Note: the Hub lists no leaderboard for the data set of {path} any more, and would pass over it.")
    added, removed = num_changed(seen.plan)
    files = len(seen.plan.changes)
    _say(
        "",
        f"{files} file{'' if files == 1 else 's'} to push, {len(seen.plan.same)} unchanged; +{added} -{removed} lines",
    )


def _where(target: "Target") -> str:
    if target.request is not None:
        return f"pull request #{target.request.num}"
    if target.opens_request:
        return "a new pull request"
    return f"{target.revision} of a new repository" if target.head == "new" else target.revision


def _show_line(line: str) -> None:
    """On a terminal coloured and in pieces of its width; for a program as it is."""
    from evalcard.cli.lines import WIDTH, cut, disarmed

    plain = disarmed(line)
    if not sys.stdout.isatty():
        click.echo(plain)
        return
    colour = None if os.environ.get("NO_COLOR") else _STYLES.get(line[:1])
    first, *more = cut(plain, WIDTH - 1) or [""]
    for piece in (first, *(f" {piece}" for piece in more)):
        click.echo(click.style(piece, fg=colour) if colour else piece)
