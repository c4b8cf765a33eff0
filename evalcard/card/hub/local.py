"""What is to be published, read from a run's folder; all that forbids it is told here, before anything is asked."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evalcard.card.check.rendering import Rendering, check_rendering, rendering_of
from evalcard.card.hub.merge import README, own_metadata
from evalcard.card.section import BEGIN, END, section_of
from evalcard.errors import UserError
from evalcard.modelspec import DEMO, ModelSpec
from evalcard.results.agreement import read_agreeing
from evalcard.results.compared import Comparison
from evalcard.results.files import is_file, safe_name
from evalcard.results.incomplete import is_incomplete
from evalcard.results.records import ModelRecord, RunRecord
from evalcard.results.store import RunFolder

_ID = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
SENT = ("figures/*.png", ".eval_results/*.yaml")
"""What goes with a card, by pattern below its folder. Weights are never among it."""


@dataclass(frozen=True, slots=True)
class LocalCard:
    """One compressed model's card as it lies in a run's folder."""

    run: str
    slug: str
    base_model: str
    text: str
    files: Mapping[str, bytes]
    """Figures and results by their path in the repository."""


def check_repo_id(repo: str) -> str:
    """``repo`` itself. Raises UserError where no repository of the Hub can have that id."""
    name = repo.rsplit("/", 1)[-1]
    is_valid = _ID.fullmatch(repo) and not re.search(r"--|\.\.|[-.]$|[-.]/|\.git$", repo)
    if not is_valid or len(repo) > 96:
        raise UserError(
            f"--repo {repo[:200]!r} is no id of a model repository. Write ORG/NAME, of letters, digits, `-`, `_` and "
            f"`.`, such as my-org/{name[:40] if re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9-]*', name) else 'my-model-w8a8'}."
        )
    return repo


def read_card(folder: RunFolder, run: RunRecord, slug: str | None) -> LocalCard:
    """The card of one compressed model, written first where it is missing. Raises UserError for what must not be
    published: a run that is not finished, a scheme that has no checkpoint, an unknown origin, a card with errors or one
    that does not say what the run gives."""
    if run.finished is None:
        raise UserError(is_incomplete(run, ", and a card of a part of it must not be published"))
    model = _model(run, slug)
    _check_scheme(model)
    comparison = read_agreeing(folder, run)
    place = folder.path / "models" / safe_name(model.slug)
    text = _text(folder, run, comparison, place / README)
    files = {
        path.relative_to(place).as_posix(): path.read_bytes()
        for pattern in SENT
        for path in sorted(place.glob(pattern))
        if path.is_file()
    }
    base = own_metadata(text).get("base_model")
    if not base:
        raise UserError(
            f"the base model of {model.slug} is not known, as its baseline was a local folder. Name its Hub id: "
            f"`evalcard card {shlex.quote(str(folder.path))} --base-model ORG/NAME`, then publish again."
        )
    _check_card(text, files, place / README, rendering_of(folder.path, run, comparison))
    return LocalCard(run.name, model.slug, str(base), text, files)


def _model(run: RunRecord, slug: str | None) -> ModelRecord:
    compressed = run.models[1:]
    names = ", ".join(model.slug for model in compressed)
    if not compressed:
        raise UserError(f"the run {run.name} has no compressed model, so that there is no card to publish.")
    if slug is None and len(compressed) > 1:
        raise UserError(f"the run {run.name} has several compressed models: {names}. Name one with --model.")
    found = next((model for model in compressed if slug in (None, model.slug)), None)
    if found is None:
        raise UserError(f"the run {run.name} has no compressed model {slug!r}. It has: {names}.")
    return found


def _check_scheme(model: ModelRecord) -> None:
    if model.scheme:
        source = DEMO if model.name == ModelSpec(source=DEMO).name else model.name
        raise UserError(
            f"{model.slug} was compressed by evalcard while loading ({model.scheme}), so that there is no checkpoint "
            f"that this card could describe. Write one, `evalcard quantize {shlex.quote(source)} --scheme "
            f"{model.scheme} --out "
            "DIR`, run that as --compressed, and publish its card."
        )


def _text(folder: RunFolder, run: RunRecord, comparison: Comparison, path: Path) -> str:
    """The card; rendered anew where it is missing or is that of an older evalcard, without marks."""
    for attempt in (1, 2):
        if is_file(path):
            # No translation of line breaks: what is compared with the Hub are bytes.
            text = path.read_bytes().decode("utf-8")
            if section_of(text) is not None:
                return text
        if attempt == 1:
            _write(folder, run, comparison)
    raise UserError(
        f"the card {path} lacks the lines `{BEGIN}` and `{END}`, each once, which say what of a README is evalcard's. "
        "Put them into the template, give `evalcard card` again, then publish."
    )


def _write(folder: RunFolder, run: RunRecord, comparison: Comparison) -> None:
    from evalcard.card.render import write_cards

    write_cards(folder, run, comparison)


def _check_card(text: str, files: Mapping[str, bytes], path: Path, rendering: Rendering) -> None:
    from evalcard.card.check.check import check_card

    problems = [problem for problem in check_card(text, files=files, own=True) if problem.level == "error"]
    told = {problem.line for problem in problems if problem.line is not None}
    problems += check_rendering(rendering, path, text, files, told)
    if problems:
        faults = [f"line {one.line}: {one.message}" if one.line else one.message for one in problems]
        advice = "Give `evalcard card` again with what is right, then publish."
        raise UserError(f"the card {path} has errors: {' '.join(faults)} {advice}", faults=faults, advice=advice)
