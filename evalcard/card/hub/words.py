"""What a commit says of itself; its title also tells our own pull requests from others."""

from collections.abc import Sequence

from evalcard.card.environment import make_environment
from evalcard.card.hub.local import LocalCard
from evalcard.resources import card_templates

_TITLE, _DESCRIPTION = "publish.title.j2", "publish.description.j2"


def commit_title() -> str:
    """The same for every card, so that a repository has one pull request of ours at a time."""
    return make_environment(card_templates()).get_template(_TITLE).render().strip()


def commit_description(card: LocalCard, paths: Sequence[str]) -> str:
    """In Markdown; ``paths`` are the files that change."""
    names = {"slug": card.slug, "run": card.run, "base_model": card.base_model, "paths": list(paths)}
    return make_environment(card_templates()).get_template(_DESCRIPTION).render(names).strip() + "\n"
