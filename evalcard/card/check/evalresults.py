"""``.eval_results/*.yaml``: scores for the Hub's leaderboards, one bare number each."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from evalcard.card.check.faults import MISSING, Faults, get
from evalcard.card.check.frontmatter import Path, read_yaml
from evalcard.card.check.lists import benchmarks, date_of
from evalcard.card.check.names import fault_of_id
from evalcard.card.check.problem import Problem, shown

FOLDER = ".eval_results"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?")
_KNOWN = {"dataset", "value", "verifyToken", "date", "source", "notes"}


def check_eval_results(files: Mapping[str, bytes]) -> list[Problem]:
    """All problems of the files in that folder. files: those beside the card, by path relative to it."""
    problems: list[Problem] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for name in sorted(files):
        if name.startswith(f"{FOLDER}/") and name.endswith((".yaml", ".yml")):
            problems += _check_file(name, files[name], seen)
    return problems


def _check_file(name: str, content: bytes, seen: Counter[tuple[str, str, str]]) -> list[Problem]:
    if name.endswith(".yml"):
        return [Problem(None, name, "the Hub reads files that end in .yaml", "Rename it.", "error")]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return [Problem(None, name, "it is no UTF-8", "Save it as UTF-8.", "error")]
    data, lines, problems = read_yaml(text, 0, name)
    faults = Faults(lines, name)
    if data is None and not problems:
        faults.add((), "it is empty", "Remove it.")
    elif data is not None:
        for number, item in enumerate(faults.array((), data) or []):
            found = faults.mapping((number,), item)
            if found is not None:
                _check_item(faults, (number,), found, seen)
    # Lines of this file are no lines of the card.
    told = [Problem(None, f"{name}, line {p.line}" if p.line else name, p.what, p.advice, p.level) for p in problems]
    return told + faults.problems


def _check_item(faults: Faults, path: Path, item: Mapping[str, Any], seen: Counter[tuple[str, str, str]]) -> None:
    dataset = faults.mapping((*path, "dataset"), get(item, "dataset"))
    if dataset is not None:
        identity = (*_dataset(faults, (*path, "dataset"), dataset), str(item.get("notes", "")))
        seen[identity] += 1
        if seen[identity] == 2:
            faults.add(
                path, "the same benchmark has a score with the same notes already", "Tell the two apart in notes."
            )
    value = faults.number((*path, "value"), get(item, "value"))
    if value is not None and 0 < value <= 1:
        what = f"{value:g} looks like a fraction, and the Hub's pages show percent"
        faults.add((*path, "value"), what, f"Write {100 * value:g}, if that is what is meant.", "warning")
    _date(faults, (*path, "date"), get(item, "date"))
    _source(faults, (*path, "source"), get(item, "source"))
    faults.text((*path, "notes"), get(item, "notes"), need=False)
    for key in sorted(str(key) for key in item if key not in _KNOWN):
        faults.add((*path, key), "the Hub knows no such key here", f"It knows {', '.join(sorted(_KNOWN))}.", "warning")


def _dataset(faults: Faults, path: Path, dataset: Mapping[str, Any]) -> tuple[str, str]:
    name = faults.text((*path, "id"), get(dataset, "id"), advice="Give the benchmark's Hub id.") or ""
    task = faults.text((*path, "task_id"), get(dataset, "task_id"), advice="Give the task of its eval.yaml.") or ""
    faults.text((*path, "revision"), get(dataset, "revision"), need=False)
    fault = fault_of_id(name, "data set") if name else None
    date = date_of("benchmarks")
    if fault:
        faults.add((*path, "id"), *fault)
    elif name and name not in benchmarks():
        what = f"{shown(name)} was no registered benchmark on {date}, and other scores are not shown"
        faults.add((*path, "id"), what, "Keep it if it is one now; else put the score into model-index.", "warning")
    elif task and task not in benchmarks().get(name, (task,)):
        what = f"{shown(task)} was no task of {name} on {date}"
        advice = f"Known ones are {', '.join(benchmarks()[name])}; its eval.yaml decides."
        faults.add((*path, "task_id"), what, advice, "warning")
    return name, task


def _date(faults: Faults, path: Path, value: Any) -> None:
    if value is MISSING or value is None:
        return
    if not isinstance(value, str):
        faults.add(path, "YAML reads it as a date, and the Hub takes text", f'Put it in quotes: "{value}".')
    elif not _DATE.fullmatch(value):
        faults.add(path, f"{shown(value)} is no ISO date", 'Write it as "2026-11-30".')


def _source(faults: Faults, path: Path, value: Any) -> None:
    if value is MISSING or value is None:
        return
    source = faults.mapping(path, value)
    if source is None:
        return
    url = faults.text((*path, "url"), get(source, "url"))
    if url and not url.startswith(("https://", "http://")):
        faults.add((*path, "url"), f"{shown(url)} is no URL", "Begin it with https://.")
    for key in ("name", "user", "org"):
        faults.text((*path, key), get(source, key), need=False)
