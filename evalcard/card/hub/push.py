"""From a card to a commit: where it goes, what would change there, and the one request that changes it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from evalcard.card.hub.client import MAIN, Hub, Pushed, Request
from evalcard.card.hub.local import LocalCard
from evalcard.card.hub.merge import README
from evalcard.card.hub.plan import Plan, make_plan
from evalcard.errors import UserError

NEW = "new"
"""Head of a repository that is still to be made."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asks for."""

    create_pr: bool | None = None
    """None: a pull request where the repository is not the user's own."""
    revision: str | None = None
    """A branch or refs/pr/N to commit to; None for main."""
    create: bool = False
    """Whether a repository that is not there is made."""
    private: bool = False
    overwrite: bool = False
    """Whether files that evalcard did not make are replaced."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """Where the commit goes."""

    revision: str
    head: str
    """The commit it goes on, or NEW."""
    opens_request: bool
    request: Request | None
    """Our open pull request that is updated."""
    others: tuple[Request, ...] = ()
    """Older ones of ours that are still open."""
    author: str | None = None
    """Whose token it is; None without one."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a push would do."""

    target: Target
    plan: Plan
    unregistered: tuple[str, ...] = ()
    """Results files of a data set that the Hub, as it says now, has no leaderboard for; it passes over them."""


def look(hub: Hub, card: LocalCard, wish: Wish, title: str) -> Look:
    """Ask the Hub, change nothing. Raises PublishFailed, or UserError where the wish or what is there forbids it."""
    _check_wish(hub, wish)
    target = _target(hub, wish, title)
    wanted: dict[str, bytes | None] = {README: None, **card.files}
    there: Mapping[str, bytes] = {} if target.head == NEW else hub.read(wanted, target.head)
    plan = make_plan(card, there, overwrite=wish.overwrite)
    return Look(target, plan, _unregistered(hub, plan))


def _unregistered(hub: Hub, plan: Plan) -> tuple[str, ...]:
    import yaml

    results = [change for change in plan.changes if change.path.endswith(".yaml")]
    known = hub.benchmarks() if results else None
    if known is None:
        return ()
    used = {one.path: {entry["dataset"]["id"] for entry in yaml.safe_load(one.after)} for one in results}
    return tuple(path for path, ids in used.items() if not ids <= known)


def push(hub: Hub, seen: Look, wish: Wish, title: str, description: str) -> Pushed:
    """The commit, on the very state that was looked at: where the repository changed since, it is refused.

    Another machine may have opened a pull request for the same card since; the Hub does not refuse a second one, so it
    is named in the warnings.
    """
    assert seen.plan.changes and not wish.dry_run, seen
    target = seen.target
    head = target.head
    if head == NEW:
        hub.create(wish.private)
        head = hub.head(MAIN)
    done = hub.commit(
        {change.path: change.after for change in seen.plan.changes},
        title=title, description=description, parent=head, revision=target.revision, create_pr=target.opens_request,
    )  # fmt: skip
    return replace(done, warnings=(*done.warnings, *_doubles(hub, target, done, title)))


def _doubles(hub: Hub, target: Target, done: Pushed, title: str) -> list[str]:
    """What is to be said of other open requests of ours, once one was opened. The commit is made, so that a Hub which
    does not answer here is no failure."""
    if done.request_num is None or target.author is None:
        return []
    try:
        others = [one for one in hub.requests(target.author, title) if one.num != done.request_num]
    except UserError:
        return ["the Hub did not say whether another pull request of yours was opened at the same time; look there."]
    return [f"pull request #{one.num} of yours was opened at the same time: {one.url} Close one." for one in others]


def _check_wish(hub: Hub, wish: Wish) -> None:
    if wish.create_pr and wish.revision not in (None, MAIN):
        raise UserError(
            f"--create-pr proposes a change to main, and --revision {wish.revision} names another place. Give one."
        )
    if not hub.has_token and not wish.dry_run:
        raise UserError(
            "there is no token for the Hub. Make one that may write at https://huggingface.co/settings/tokens, then "
            "`hf auth login` or set HF_TOKEN; --dry-run shows without one what would change."
        )


def _target(hub: Hub, wish: Wish, title: str) -> Target:
    account = hub.account() if hub.has_token else None
    is_own = account is not None and hub.repo.split("/")[0] in account.writable
    if wish.create and not hub.exists():
        return Target(MAIN, NEW, opens_request=False, request=None)
    branch = wish.revision or MAIN
    by_request = wish.create_pr if wish.create_pr is not None else not is_own and branch == MAIN
    if not by_request:
        return Target(branch, hub.head(branch), opens_request=False, request=None)
    author = account.name if account else None
    requests = hub.requests(author, title) if author else []
    if requests:
        newest, *others = requests
        return Target(newest.revision, hub.head(newest.revision), False, newest, tuple(others), author)
    return Target(MAIN, hub.head(MAIN), opens_request=True, request=None, author=author)
