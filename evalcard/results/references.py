"""What an argument of ``evalcard compare`` names: a run or another harness's files, and maybe one of their models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalcard.errors import UserError
from evalcard.results.files import exists, is_file
from evalcard.results.records import ModelRecord
from evalcard.results.runs import LATEST, find_run
from evalcard.results.store import RUN_FILE, RunFolder


@dataclass(frozen=True, slots=True)
class Reference:
    """A stored result that is there."""

    given: str
    """As the user named it, without the model."""
    path: Path
    folder: RunFolder | None
    """None for files of another harness."""
    model: str | None
    """Which of its models; None where that was not said."""

    def naming(self, name: str) -> str:
        """How to name one of its models."""
        return f"{self.given}:{name}"


def locate(out: Path, given: str) -> Reference:
    """Where ``given`` leads. What exists is taken whole, so a path may hold a colon; else its end names a model.

    Raises UserError listing the runs below ``out`` where nothing is there, or no result can be read from it.
    """
    out, unread = Path(out).expanduser(), None
    for which, model in _readings(given):
        if which == LATEST:
            folder = find_run(out)
            return Reference(which, folder.path, folder, model)
        for path in (out / which, Path(which).expanduser()):
            found = _reference(which, path, model)
            if found is not None:
                return found
            unread = unread or (path if exists(path) and which == given else None)
    if unread is not None:
        from evalcard.results.imported.detect import refuse_damaged

        refuse_damaged(unread)
        raise UserError(
            f"{unread} holds no stored result: neither a run of evalcard ({RUN_FILE}) nor results with answers of "
            "lm-eval, lighteval or inspect_ai. Name a run, or the folder or file that its harness wrote."
        )
    try:
        find_run(out, given)  # it lists the runs that there are
    except UserError as error:
        raise UserError(f"{error} What another harness wrote is named by its folder or file.") from None
    raise AssertionError(f"{given} is a run, and was not found")


def _readings(given: str) -> Iterator[tuple[str, str | None]]:
    """(result, model): the whole first, then parted at each colon, the last one first."""
    yield given, None
    at = given.rfind(":")
    while at > 0:
        if given[at + 1 :]:
            yield given[:at], given[at + 1 :]
        at = given.rfind(":", 0, at)


def _reference(which: str, path: Path, model: str | None) -> Reference | None:
    folder = path.parent if path.name == RUN_FILE else path
    if is_file(folder / RUN_FILE):
        return Reference(which, folder, RunFolder(folder), model)
    if not exists(path):
        return None
    from evalcard.results.imported.detect import is_foreign

    return Reference(which, path, None, model) if is_foreign(path) else None


def pick(reference: Reference, models: Sequence[ModelRecord]) -> ModelRecord:
    """The model that ``reference`` asks for, by slug, scheme, name, Hub id or as
    ``baseline``, in any case.

    Raises UserError listing how to name each, where none or several of them are meant.
    """
    assert reference.model is not None, reference
    asked = reference.model.lower()
    by_slug = [model for model in models if model.slug.lower() == asked]
    named = by_slug or [model for model in models if asked in _names(model)]
    if len(named) == 1:
        return named[0]
    what = f"{len(named)} models {reference.model!r}" if named else f"no model {reference.model!r}"
    raise UserError(f"{reference.given} has {what}. {spellings(reference, named or models)}")


def spellings(reference: Reference, models: Sequence[ModelRecord]) -> str:
    """How to name each of these models, as the end of a message."""
    return f"Name one: {', '.join(reference.naming(model.slug) for model in models)}."


def _names(model: ModelRecord) -> set[str]:
    role = "baseline" if model.role == "baseline" else None
    return {name.lower() for name in (role, model.scheme, model.name, model.hub_id) if name}
