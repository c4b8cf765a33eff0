"""The keys of the front matter, as the Hub checks them when a card is pushed."""

from collections.abc import Iterator, Mapping
from typing import Any

from evalcard.card.check.faults import MISSING, Faults, get
from evalcard.card.check.frontmatter import FrontMatter, Path, kind_of
from evalcard.card.check.language import check_languages
from evalcard.card.check.license import check_license
from evalcard.card.check.lists import date_of, libraries, nearest, pipeline_tags
from evalcard.card.check.modelindex import check_model_index
from evalcard.card.check.names import fault_of_id
from evalcard.card.check.problem import Problem, shown

RELATIONS = ("adapter", "merge", "quantized", "finetune")
_MAX_DEPTH = 20


def check_metadata(front: FrontMatter, files: Mapping[str, bytes]) -> list[Problem]:
    """All problems of the keys that the Hub knows, and of empty ones anywhere; other keys are nobody's business.

    files: what lies beside the card; where it is empty that is not known.
    """
    if front.data is None:
        return []
    faults = Faults(front.lines)
    data = front.data
    _nulls(faults, data)
    _base_model(faults, data)
    check_license(faults, data, files)
    check_languages(faults, get(data, "language"))
    _pipeline(faults, get(data, "pipeline_tag"))
    _library(faults, get(data, "library_name"))
    _tags(faults, get(data, "tags"))
    _ids(faults, "datasets", get(data, "datasets"), "data set")
    _texts(faults, "metrics", get(data, "metrics"))
    _new_version(faults, get(data, "new_version"))
    check_model_index(faults, get(data, "model-index"))
    return faults.problems


def _nulls(faults: Faults, data: Any) -> None:
    for path in _empty_keys(data, (), set()):
        faults.add(path, "the key has no value", "Give one or remove the key: clients drop it before the Hub sees it.")


def _empty_keys(data: Any, path: Path, seen: set[int]) -> Iterator[Path]:
    """An alias may lead back to what holds it, so that nothing is entered twice."""
    if not isinstance(data, Mapping | list) or id(data) in seen or len(path) > _MAX_DEPTH:
        return
    seen.add(id(data))
    pairs = data.items() if isinstance(data, Mapping) else enumerate(data)
    for key, value in pairs:
        here = (*path, key if isinstance(key, int) and not isinstance(key, bool) else str(key))
        if value is None:
            yield here
        else:
            yield from _empty_keys(value, here, seen)


def _base_model(faults: Faults, data: Mapping[str, Any]) -> None:
    value, relation = get(data, "base_model"), get(data, "base_model_relation")
    _ids(faults, "base_model", value, "model")
    if relation not in (MISSING, None) and relation not in RELATIONS:
        known = nearest(str(relation), RELATIONS)
        advice = f"Write {known}." if known else f"It is one of {', '.join(RELATIONS)}."
        faults.add(("base_model_relation",), f"{shown(relation)} is no relation that the Hub knows", advice)
    elif relation in RELATIONS and value is MISSING:
        faults.add(
            ("base_model_relation",), "there is no base_model that it could be about", "Give base_model.", "warning"
        )
    if isinstance(value, list) and len(value) > 1 and relation is MISSING:
        what = f"{len(value)} models without base_model_relation are taken for a merge"
        faults.add(("base_model",), what, "Give the relation, or the one model that was compressed.", "warning")


def _ids(faults: Faults, key: str, value: Any, kind: str) -> None:
    """One id or a list of them."""
    if value is MISSING or value is None:
        return
    if value == []:
        faults.array((key,), value)
    many = value if isinstance(value, list) else [value]
    for number, one in enumerate(many):
        path: Path = (key, number) if isinstance(value, list) else (key,)
        text = faults.text(path, one, need=False)
        fault = fault_of_id(text, kind) if text else None
        if fault:
            faults.add(path, *fault)


def _pipeline(faults: Faults, value: Any) -> None:
    text = faults.text(("pipeline_tag",), value, need=False)
    if text and text not in pipeline_tags():
        known = nearest(text, pipeline_tags())
        advice = f"Write {known}." if known else "Language models have text-generation."
        what = f"{shown(text)} is no task of the Hub (list of {date_of('pipeline_tags')})"
        faults.add(("pipeline_tag",), what, advice, "warning")


def _library(faults: Faults, value: Any) -> None:
    text = faults.text(("library_name",), value, need=False)
    if text and text not in libraries():
        known = nearest(text, libraries())
        advice = f"Write {known}." if known else "Write transformers where transformers loads the model."
        what = f"{shown(text)} is no library of the Hub (list of {date_of('libraries')}): the page gets no button"
        faults.add(("library_name",), what, advice, "warning")


def _tags(faults: Faults, value: Any) -> None:
    if isinstance(value, str):
        faults.add(("tags",), "it must be an array and is a text", "Write its items with `- ` before each.")
        return
    _texts(faults, "tags", value)
    if isinstance(value, list):
        twice = sorted({one for one in value if isinstance(one, str) and value.count(one) > 1})
        for one in twice:
            faults.add(("tags",), f"{shown(one)} is in it twice", "Keep one.", "warning")


def _texts(faults: Faults, key: str, value: Any) -> None:
    if value is MISSING or value is None or isinstance(value, str):
        return
    for number, one in enumerate(faults.array((key,), value) or []):
        if one is not None and not isinstance(one, str):
            what = f"it must be text and is the {kind_of(one)} {shown(one)}"
            faults.add((key, number), what, f'Put it in quotes: "{one}".')


def _new_version(faults: Faults, value: Any) -> None:
    text = faults.text(("new_version",), value, need=False)
    fault = fault_of_id(text, "model") if text else None
    if fault:
        faults.add(("new_version",), *fault)
