"""Data sets fetched before they are needed: what is in no data root is loaded through the Hub's client."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalcard.errors import UserError
from evalcard.modelspec import DEMO
from evalcard.spec import make_spec


@dataclass(frozen=True, slots=True)
class Fetched:
    """Documents of one asked name."""

    name: str
    places: tuple[str, ...]
    """Where they lie now: the folders common to many subsets once."""
    documents: int
    error: str | None = None
    """Why they cannot be had; the rest is empty then."""


def prefetch(names: Sequence[str], data_root: str | None = None, trust_task_code: bool = False) -> Iterator[Fetched]:
    """Build each task, which fetches what is in no data root and no cache; a name that fails stops no other.

    names: as for ``describe``. Raises UserError for unknown names.
    """
    from evalcard.tasks.build import build
    from evalcard.tasks.data.roots import data_roots
    from evalcard.tasks.files.select import select

    roots = data_roots(data_root)
    asked = make_spec({"baseline": DEMO, "tasks": list(names)}).tasks
    selected = list(zip(asked, [select([name]) for name in asked], strict=True))
    for name, found in selected:
        try:
            built = build(found, roots, trust_task_code)
        except UserError as error:
            yield Fetched(name, (), 0, str(error))
            continue
        places = dict.fromkeys(_place(task.task) for task in built.tasks)
        yield Fetched(name, tuple(places), sum(len(task.docs) for task in built.tasks))


def _place(task: object) -> str:
    """The data set with the root or cache it lies in; a group's many subsets have one place."""
    from evalcard.tasks.data.roots import place_of
    from evalcard.tasks.own.documents import Documents

    config = getattr(task, "config", None)
    own = getattr(config, "custom_dataset", None)
    if isinstance(own, Documents):
        return str(own.path.resolve())
    dataset, place = str(getattr(config, "dataset_path", None)), place_of(getattr(task, "dataset", None))
    if place is None:
        return f"{dataset}: made in memory"
    slashed = place.replace("\\", "/")
    for part in (f"/{dataset}", "/" + dataset.replace("/", "___")):
        if part in slashed:
            return f"{dataset}: {place[: slashed.index(part) + len(part)]}"
    return f"{dataset}: {place}"
