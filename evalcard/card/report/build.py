"""From a stored run to its report: one HTML file that needs nothing beside it and asks nobody for anything."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalcard.card.escape import join_words
from evalcard.card.report.asked import Asked, Hashes, read_asked
from evalcard.card.report.items import item_parts
from evalcard.card.report.pool import embedded
from evalcard.card.report.view import report_view
from evalcard.errors import UserError
from evalcard.resources import card_templates
from evalcard.results.agreement import read_agreeing
from evalcard.results.compared import Comparison
from evalcard.results.files import write_whole
from evalcard.results.incomplete import is_incomplete
from evalcard.results.records import ItemId, RunRecord
from evalcard.results.store import RunFolder
from evalcard.results.stored import StoredModel
from evalcard.stored import load_stored

if TYPE_CHECKING:
    from jinja2 import Environment

REPORT_FILE = "report.html"
_PAGE = "report.html.j2"
_PARTS = "report"
"""Folder of styles and scripts below the templates; each kind is put together in the order of the names."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was written."""

    path: Path
    num_bytes: int
    num_rows: int
    """Items, each counted once for every repeat."""
    missing: tuple[str, ...]
    """Why questions or prompts are not shown."""


def write_report(
    folder: RunFolder, to: Path | None = None, data_root: str | None = None, trust_task_code: bool = False
) -> Report:
    """Write RUN/report.html, or ``to``, from what is stored. No model is asked and no number is measured.

    Questions and prompts come from the task files and documents, as far as these can be read. Raises UserError where
    the run or its comparison cannot be read, or the file cannot be written.
    """
    run = folder.read_run()
    comparison = read_agreeing(folder, run)
    if not run.models:
        raise UserError(is_incomplete(run, ": it has no model with complete answers"))
    models = [_load(folder, model.slug) for model in run.models]
    asked = asked_of(run, models, data_root, trust_task_code)
    parts = item_parts(run, models, asked)
    page = render_page(run, comparison, embedded(parts), asked).encode("utf-8", "backslashreplace")
    path = to or folder.path / REPORT_FILE
    write_whole(path, page)
    return Report(path, len(page), len(parts[0]["columns"]["id"]), tuple(asked.missing))


def render_page(run: RunRecord, comparison: Comparison, data: list[str], asked: Asked) -> str:
    """The page; ``data`` are the JSON texts of ``item_parts``."""
    style, script = assembled("css"), f'"use strict";\n(() => {{\n{assembled("js")}}})();\n'
    for text in (style, script):
        assert "</" not in text and "<!--" not in text, "it would end its element"
    names = {
        "report": report_view(run, comparison),
        "asked": asked,
        "data": data,
        "style": style,
        "script": script,
        "policy": {"style": _source(style), "script": _source(script)},
    }
    return make_environment(card_templates()).get_template(_PAGE).render(names)


def assembled(kind: str) -> str:
    """All files of one kind (css, js), one behind the other."""
    files = sorted((card_templates() / _PARTS).glob(f"*.{kind}"))
    assert files, kind
    return "".join(file.read_text(encoding="utf-8") for file in files)


def make_environment(templates: Path) -> "Environment":
    """Jinja for HTML: whatever a run holds is escaped, and a name that a view lacks stops the rendering."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    environment.filters["sentences"] = join_words
    return environment


def _source(text: str) -> str:
    """How a content security policy names exactly this style or script (CSP level 3, hash-source)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def _load(folder: RunFolder, slug: str) -> StoredModel:
    place = folder.path.resolve()
    return load_stored(place.parent, f"{place.name}:{slug}")


def asked_of(run: RunRecord, models: list[StoredModel], data_root: str | None, trust_task_code: bool) -> Asked:
    """What other harnesses' results hold themselves, else what the task files and documents say."""
    if run.sources:
        stored: dict[str, dict[ItemId, str]] = {}
        for model in reversed(models):
            for task, of_task in model.questions.items():
                stored.setdefault(task, {}).update(of_task)
        return Asked(questions=stored, is_stored=True)
    wanted: dict[str, dict[ItemId, Hashes]] = {}
    for model in reversed(models):
        for task, samples in model.samples.items():
            hashes = {one.item_id: Hashes(one.item_hash, one.prompt_hash) for one in samples}
            wanted.setdefault(task, {}).update(hashes)
    return read_asked(run, wanted, data_root, trust_task_code)
