"""Findings on two stored results that were not made by one run."""

from evalcard.results.compared import Finding
from evalcard.results.records import ModelRecord, TaskRecord


def subset_against_full(ours: TaskRecord, theirs: TaskRecord, common: int | None = None) -> Finding | None:
    """What two results of one task lack of each other's items; None where they were made of the same ones.

    common: how many items both have, where only these are compared. That is a warning that counts the others;
    otherwise scores of different items stand side by side, which is a blocker.
    """
    if _same_items(ours, theirs):
        return None
    said = f"{_set_of(ours)} stands against {_set_of(theirs)}"
    said = said[0].upper() + said[1:]
    if common is None:
        return Finding(finding=f"{said}.", severity="blocker", where=ours.name, advice=_OTHER_ITEMS, row=ours.name)
    left = f"{ours.items_selected - common} items of the one and {theirs.items_selected - common} of the other"
    text = f"{said}; only the {common} items that both have are compared, and {left} are left out."
    return Finding(finding=text, severity="warning", where=ours.name, advice=_COMMON, row=ours.name)


def tokenizers_differ(a: ModelRecord, b: ModelRecord) -> Finding | None:
    """A warning where two models read their prompts through other tokenizers or chat templates."""
    parts = [
        said
        for said, name in (("tokenizers", "tokenizer_digest"), ("chat templates", "template_digest"))
        if getattr(a, name) != getattr(b, name)
    ]
    if not parts:
        return None
    text = f"The {' and '.join(parts)} of {a.slug} and {b.slug} differ."
    return Finding(finding=text, severity="warning", where=b.slug, advice=_TOKENIZERS, model=b.slug)


def _same_items(ours: TaskRecord, theirs: TaskRecord) -> bool:
    if (ours.items_selected, ours.items_total) != (theirs.items_selected, theirs.items_total):
        return False
    return _ids(ours) == _ids(theirs)


def _ids(task: TaskRecord) -> set[int | str] | None:
    """Of a subset; None for all items."""
    return None if task.item_ids is None else set(task.item_ids)


def _set_of(task: TaskRecord) -> str:
    if task.items_selected == task.items_total:
        return f"all {task.items_total} items"
    return f"a subset of {task.items_selected} of {task.items_total} items ({task.selection})"


_OTHER_ITEMS = "Evaluate both on the same items; an easier subset looks like a better model."
_COMMON = "Give one result of the full set for each model if you can."
_TOKENIZERS = "Same text, other tokens: part of the difference may be the prompt's. Use the baseline's tokenizer files."
