"""Jinja as cards use it: strict about names, the user's own template before ours, and faults said by their line."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcard.card import escape
from evalcard.card.templatefaults import OWN, check_blocks, check_names, fault, place_of, said
from evalcard.errors import UserError
from evalcard.resources import card_templates

if TYPE_CHECKING:
    from jinja2 import Environment, StrictUndefined

MAX_STEPS, MAX_SECONDS = 200_000, 10.0
"""Rounds of loops and calls in which a user's template is to make a card, and for how long; ours makes a thousand or
two."""
MAX_SIZE, MAX_MADE = 4_000_000, 100_000_000
"""Characters of a card or of any value on the way, and of all of these. The Hub shows pages of 200,000."""


def make_environment(templates: Path, own: Mapping[str, str] | None = None) -> "Environment":
    """Jinja over a folder of templates; no HTML escapes, as the output is Markdown.

    ``own``: templates of the user's by name. A run's folder may come from others, so these run in Jinja's sandbox, and
    end: docs/cards.md has the bounds.
    """
    from jinja2 import ChoiceLoader, FileSystemLoader, FunctionLoader
    from jinja2.sandbox import SandboxedEnvironment

    given = {f"{OWN}{name}": text for name, text in (own or {}).items()}

    def load(name: str) -> tuple[str, str, Callable[[], bool]] | None:
        return (given[name], name, lambda: True) if name in given else None

    kind = _bounded_environment() if given else SandboxedEnvironment
    environment: Any = kind(
        loader=ChoiceLoader([FunctionLoader(load), FileSystemLoader(templates)]),
        undefined=_undefined(),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        finalize=lambda value: escape.plain(value) if isinstance(value, str) else value,
    )
    filters: dict[str, Callable[..., Any]] = {
        "cell": escape.escape_cell,
        "prose": escape.escape_prose,
        "code": escape.code,
        "fenced": escape.fenced,
        "literal": escape.literal,
        "whole": escape.on_one_line,
        "sentences": escape.join_words,
    }
    environment.take_filters(filters) if given else environment.filters.update(filters)
    return environment


@functools.cache
def _bounded_environment() -> "type[Any]":
    """The sandbox that ends, which lets a template fill lists of its own, as ours do."""
    from jinja2 import TemplateNotFound
    from jinja2.sandbox import SandboxedEnvironment

    from evalcard.tasks.files.bounded import BoundedEnvironment, Bounds

    class Bounded(BoundedEnvironment):
        def bounds(self) -> Bounds:
            return Bounds(MAX_STEPS, MAX_SIZE, MAX_MADE, MAX_SECONDS)

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return SandboxedEnvironment.is_safe_attribute(self, obj, attr, value)

        def join_path(self, template: str, parent: str) -> str:
            # No template can name the user's, so that none comes to extend, include or import itself.
            if template.startswith(OWN):
                raise TemplateNotFound(template)
            return super().join_path(template, parent)

    return Bounded


def _undefined() -> "type[StrictUndefined]":
    """Undefined names stop the rendering, and those of our views are said in a reader's words."""
    from jinja2 import StrictUndefined, UndefinedError

    class Named(StrictUndefined):
        @property
        def _undefined_message(self) -> str:
            fields = getattr(type(self._undefined_obj), "__dataclass_fields__", None)
            if fields is None:
                return super()._undefined_message
            from evalcard.tasks.files.suggest import near

            kind, name = type(self._undefined_obj).__name__, str(self._undefined_name)
            return f"a {kind} has no {name!r}{near(name, fields)}; it has {', '.join(fields)}"

        def __repr__(self) -> str:
            # A list that holds one is printed by it.
            raise UndefinedError(self._undefined_message)

    return Named


def render(environment: "Environment", template: str, names: Mapping[str, object]) -> str:
    """The page. Raises UserError for what is wrong with a template of the user's; a fault of ours stays what it is."""
    from jinja2 import TemplateSyntaxError

    is_own = template.startswith(OWN)
    try:
        text = _render_own(environment, template, names) if is_own else environment.get_template(template).render(names)
    except UserError:
        raise
    except TemplateSyntaxError as error:
        if not (error.name or "").startswith(OWN):
            raise
        raise fault(error.name, error.lineno, error.message) from None
    except Exception as error:
        own, line = place_of(error, template)
        # What a template of the user's asks of a value may raise anything; in ours it is our error.
        if own is None:
            raise
        raise fault(own, line, said(environment, error)) from None
    # Blocks that are left out leave their blank lines behind.
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip("\n") + "\n"


def _render_own(environment: "Environment", template: str, names: Mapping[str, object]) -> str:
    from evalcard.tasks.files.bounded import BoundedEnvironment, bounded_text

    assert isinstance(environment, BoundedEnvironment), environment
    environment.start()
    check_names(environment, template)
    check_blocks(environment, template)
    return bounded_text(environment.get_template(template), names)


def card_environment(own: Mapping[str, str] | None = None) -> "Environment":
    """Over the templates that ship with evalcard."""
    return make_environment(card_templates(), own)
