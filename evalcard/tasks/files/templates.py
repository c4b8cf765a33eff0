"""Jinja templates of task files: compiled once, in a sandbox, and blamed by field and item when they fail."""

import functools
import re
from collections.abc import Callable
from typing import Any

import jinja2
import lm_eval.utils

from evalcard.errors import UserError
from evalcard.tasks.files.bounded import BoundedEnvironment, bounded_text
from evalcard.tasks.files.suggest import near

_SETTINGS = (
    "block_start_string", "block_end_string", "variable_start_string", "variable_end_string", "comment_start_string",
    "comment_end_string", "line_statement_prefix", "line_comment_prefix", "trim_blocks", "lstrip_blocks",
    "newline_sequence", "keep_trailing_newline", "optimized", "undefined", "finalize", "autoescape",
)  # fmt: skip
_VARIABLE = re.compile(r"'(?P<name>\w+)' is undefined")


def render(template: str, doc: dict[str, Any]) -> str:
    """The text the harness would make of it. jinja2.TemplateError for what is no template or names what is not there.

    A template cannot reach Python: it sees the document's values, the harness's filters, and no underscored attribute.
    Nor can it go on for ever, or grow without end.
    """
    return bounded_text(_compiled(template), doc)


@functools.lru_cache(maxsize=4096)
def _compiled(template: str) -> jinja2.Template:
    return _environment().from_string(template)


@functools.cache
def _environment() -> jinja2.Environment:
    """The harness's environment with Python out of reach; what it sets and adds is taken over, so texts stay equal."""
    plain = lm_eval.utils.env
    sandbox = BoundedEnvironment(
        **{name: getattr(plain, name) for name in _SETTINGS}, extensions=list(plain.extensions), loader=plain.loader
    )
    sandbox.take_filters(plain.filters)
    sandbox.tests.update(plain.tests)
    sandbox.globals.update({name: value for name, value in plain.globals.items() if name not in sandbox.globals})
    return sandbox


class NamedFields:
    """Mixin before the harness's task classes: a template that fails names task, field, item and the columns there are.

    Raises UserError for it; every other error passes.
    """

    config: Any

    def doc_to_text(self, doc: Any, *args: Any, **kwargs: Any) -> Any:
        return self._named("doc_to_text", doc, super().doc_to_text, doc, *args, **kwargs)  # type: ignore[misc]

    def doc_to_target(self, doc: Any, *args: Any, **kwargs: Any) -> Any:
        return self._named("doc_to_target", doc, super().doc_to_target, doc, *args, **kwargs)  # type: ignore[misc]

    def doc_to_choice(self, doc: Any, *args: Any, **kwargs: Any) -> Any:
        return self._named("doc_to_choice", doc, super().doc_to_choice, doc, *args, **kwargs)  # type: ignore[misc]

    def doc_to_prefix(self, doc: Any) -> Any:
        return self._named("gen_prefix", doc, super().doc_to_prefix, doc)  # type: ignore[misc]

    def resolve_field(self, doc: Any, field: str | None = None) -> Any:
        """The harness renders the description, and a worked example's prefix, by this."""
        name = "description" if field == self.config.description else "fewshot_config: gen_prefix"
        return self._named(name, doc, super().resolve_field, doc, field)  # type: ignore[misc]

    def _named(self, field: str, doc: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except jinja2.TemplateError as error:
            raise UserError(f"task {self.config.task}, {self._place(doc)}: {_explained(field, doc, error)}") from error

    def _place(self, doc: Any) -> str:
        """Which item it is; looked for only once something has failed."""
        docs: Any = self.eval_docs  # type: ignore[attr-defined]
        position = next((place for place, one in enumerate(docs) if one == doc), None)
        if position is None:
            return "in a worked example"
        settings = (self.config.metadata or {}).get("evalcard")
        id_field = settings.get("id_field") if isinstance(settings, dict) else None
        return f"item {doc.get(id_field, position) if id_field else position}"


def _explained(field: str, doc: Any, error: jinja2.TemplateError) -> str:
    columns = list(doc) if isinstance(doc, dict) else []
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{field} is no valid template: {error.message} (its line {error.lineno}). Correct the task's file."
    if isinstance(error, jinja2.UndefinedError):
        found = _VARIABLE.search(error.message or "")
        hint = near(found["name"], columns) if found else ""
        return f"{field} uses what is not there: {error.message}{hint}. The document has: {', '.join(columns)}."
    return f"{field} cannot be rendered: {error.message}. Templates may use the document's values and filters only."
