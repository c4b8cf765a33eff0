"""What is wrong with a template of the user's: found before it is rendered, or said with the line that led to it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from evalcard.errors import UserError

if TYPE_CHECKING:
    from jinja2 import Environment

OWN = "own/"
"""Before the name of a user's template, so that it may be called as ours is and still extend it."""


def check_names(environment: "Environment", template: str) -> None:
    """Templates that are named outright are looked for first, where the line that asks is known."""
    from jinja2 import nodes

    loader = environment.loader
    assert loader is not None
    parsed = environment.parse(loader.get_source(environment, template)[0], template, template)
    asking: Iterator[Any] = parsed.find_all((nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport))
    for node in asking:
        asked = node.template.value if isinstance(node.template, nodes.Const) else None
        if isinstance(asked, str) and not getattr(node, "ignore_missing", False) and not _is_there(environment, asked):
            raise fault(template, node.lineno, _missing(environment, [asked]))


def check_blocks(environment: "Environment", template: str) -> None:
    """A block that the extended template does not have would be left out without a word."""
    from jinja2 import nodes

    loader = environment.loader
    assert loader is not None
    parsed = environment.parse(loader.get_source(environment, template)[0], template, template)
    parents = [node.template.value for node in parsed.find_all(nodes.Extends) if isinstance(node.template, nodes.Const)]
    if not parents:
        return
    known = environment.get_template(parents[0]).blocks
    for node in parsed.body:
        if isinstance(node, nodes.Block) and node.name not in known:
            from evalcard.tasks.files.suggest import near

            raise fault(
                template, node.lineno,
                f"{parents[0]} has no block {node.name!r}{near(node.name, known)}; it has {', '.join(sorted(known))}",
            )  # fmt: skip


def place_of(error: Exception, template: str) -> tuple[str | None, int | None]:
    """The innermost line of a user's template that led to the error; (None, None) where none did."""
    found: tuple[str | None, int | None] = (template, None) if template.startswith(OWN) else (None, None)
    trace: Any = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(OWN):
            found = name, trace.tb_lineno
        trace = trace.tb_next
    return found


def said(environment: "Environment", error: Exception) -> str | None:
    """The error in a reader's words."""
    from jinja2 import TemplateError, TemplateNotFound

    if isinstance(error, RecursionError):
        return "it calls itself, or its brackets are nested, deeper than Python can follow"
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    if isinstance(error, TemplateNotFound):
        return _missing(environment, getattr(error, "templates", None) or [error.name])
    return error.message if isinstance(error, TemplateError) else f"{type(error).__name__}: {error}"


def fault(name: str | None, line: int | None, what: str | None) -> UserError:
    where = f"{(name or '').removeprefix(OWN)}{f', line {line}' if line else ''}"
    return UserError(
        f"the template {where}: {(what or 'it cannot be rendered').rstrip('.')}. What a card's template may use is in "
        "docs/cards.md; mend it, or leave --template out to use evalcard's own."
    )


def _missing(environment: "Environment", asked: Sequence[Any]) -> str:
    from evalcard.tasks.files.suggest import near

    names = _shared(environment)
    told = " or ".join(f"{one!r}{near(str(one), names)}" for one in asked)
    return (
        f"it asks for {told}, which is not there. A template can extend, include or import evalcard's own ones, "
        f"neither itself nor other files: {', '.join(names)}"
    )


def _shared(environment: "Environment") -> list[str]:
    """Those of ours that a user's may extend, include or import: pages of Markdown, and their parts."""
    from jinja2 import ChoiceLoader

    loader = environment.loader
    assert isinstance(loader, ChoiceLoader), loader
    return [name for name in loader.loaders[-1].list_templates() if name.endswith(".md.j2")]


def _is_there(environment: "Environment", name: str) -> bool:
    from jinja2 import TemplateNotFound

    loader = environment.loader
    assert loader is not None
    try:
        loader.get_source(environment, name)
    except TemplateNotFound:
        return False
    return not name.startswith(OWN)
