"""Jinja as cards use it: strict about names, the user's own template before ours, and faults said by their line."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcard.card import escape
from evalcard.errors import UserError
from evalcard.resources import card_templates

if TYPE_CHECKING:
    from jinja2 import Environment, StrictUndefined

OWN = "own/"
"""Before the name of a user's template, so that it may be called as ours is and still extend it."""


def make_environment(templates: Path, own: Mapping[str, str] | None = None) -> "Environment":
    """Jinja over a folder of templates; no HTML escapes, as the output is Markdown.

    ``own``: templates of the user's by name. A run's folder may come from others, so these run in Jinja's sandbox.
    """
    from jinja2 import ChoiceLoader, FileSystemLoader, FunctionLoader
    from jinja2.sandbox import SandboxedEnvironment

    given = {f"{OWN}{name}": text for name, text in (own or {}).items()}

    def load(name: str) -> tuple[str, str, Callable[[], bool]] | None:
        return (given[name], name, lambda: True) if name in given else None

    environment = SandboxedEnvironment(
        loader=ChoiceLoader([FunctionLoader(load), FileSystemLoader(templates)]),
        undefined=_undefined(),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        finalize=lambda value: escape.plain(value) if isinstance(value, str) else value,
    )
    environment.filters |= {
        "cell": escape.escape_cell,
        "prose": escape.escape_prose,
        "code": escape.code,
        "fenced": escape.fenced,
        "literal": escape.literal,
        "whole": escape.on_one_line,
        "sentences": escape.join_words,
    }
    return environment


def _undefined() -> "type[StrictUndefined]":
    """Undefined names stop the rendering, and those of our views are said in a reader's words."""
    from jinja2 import StrictUndefined

    class Named(StrictUndefined):
        @property
        def _undefined_message(self) -> str:
            fields = getattr(type(self._undefined_obj), "__dataclass_fields__", None)
            if fields is None:
                return super()._undefined_message
            from evalcard.tasks.files.suggest import near

            kind, name = type(self._undefined_obj).__name__, str(self._undefined_name)
            return f"a {kind} has no {name!r}{near(name, fields)}; it has {', '.join(fields)}"

    return Named


def render(environment: "Environment", template: str, names: Mapping[str, object]) -> str:
    """The page. Raises UserError for what is wrong with a template of the user's; a fault of ours stays what it is."""
    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        if template.startswith(OWN):
            _check_blocks(environment, template)
        text = environment.get_template(template).render(names)
    except TemplateSyntaxError as error:
        if not (error.name or "").startswith(OWN):
            raise
        raise _fault(error.name, error.lineno, error.message) from None
    except Exception as error:
        own, line = _place(error, template)
        # What a template of the user's asks of a value may raise anything; in ours it is our error.
        if own is None:
            raise
        said = error.message if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"
        raise _fault(own, line, said) from None
    # Blocks that are left out leave their blank lines behind.
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip("\n") + "\n"


def _check_blocks(environment: "Environment", template: str) -> None:
    """A block that the extended template does not have would be left out without a word."""
    from jinja2 import nodes

    loader = environment.loader
    assert loader is not None
    parsed = environment.parse(loader.get_source(environment, template)[0], template, template)
    parents = [node.template.value for node in parsed.find_all(nodes.Extends) if isinstance(node.template, nodes.Const)]
    if not parents or parents[0].startswith(OWN):
        return
    known = environment.get_template(parents[0]).blocks
    for node in parsed.body:
        if isinstance(node, nodes.Block) and node.name not in known:
            from evalcard.tasks.files.suggest import near

            raise _fault(
                template, node.lineno,
                f"{parents[0]} has no block {node.name!r}{near(node.name, known)}; it has {', '.join(sorted(known))}",
            )  # fmt: skip


def card_environment(own: Mapping[str, str] | None = None) -> "Environment":
    """Over the templates that ship with evalcard."""
    return make_environment(card_templates(), own)


def _place(error: Exception, template: str) -> tuple[str | None, int | None]:
    """The innermost line of a user's template that led to the error; (None, None) where none did."""
    found: tuple[str | None, int | None] = (template, None) if template.startswith(OWN) else (None, None)
    trace: Any = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(OWN):
            found = name, trace.tb_lineno
        trace = trace.tb_next
    return found


def _fault(name: str | None, line: int | None, said: str | None) -> UserError:
    where = f"{(name or '').removeprefix(OWN)}{f', line {line}' if line else ''}"
    return UserError(
        f"the template {where}: {(said or 'it cannot be rendered').rstrip('.')}. What a card's template may use is in "
        "docs/cards.md; mend it, or leave --template out to use evalcard's own."
    )
