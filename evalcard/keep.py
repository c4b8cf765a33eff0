"""Two stored results beside each other, kept as a run of their own: gate, card, report and publish then work on it.

Nothing is measured and nothing made up. What the results do not tell of a model (its weights, its tokenizer, the
hardware) is None or empty in the record, and the card says so.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalcard.card.render import write_cards
from evalcard.errors import UserError
from evalcard.gate.judge import with_verdict
from evalcard.gate.verdict import GateVerdict
from evalcard.results.compared import Comparison
from evalcard.results.files import encode, exists, is_file, is_temporary
from evalcard.results.journal import Address
from evalcard.results.lock import CARDS_LOCK_FILE, LOCK_FILE, OWNER_FILE, PUBLISH_LOCK_FILE
from evalcard.results.origin import versions
from evalcard.results.records import ItemId, RunRecord, Sample, SourceRecord, TaskRecord, Verdict
from evalcard.results.store import RUN_FILE, RunFolder
from evalcard.results.stored import StoredModel
from evalcard.runrecord import now
from evalcard.stored import SideBySide

_ADVICE = "Give a folder that can be written with --card FOLDER."
_SANITIZED = re.compile(r"^(?:[A-Za-z]|\.{1,2}|~)?__(?:.*__)?(?=[^_])")
_DIGEST = "compared"
"""In ``RunRecord.resolved``: what tells two such runs apart."""


def keep_comparison(
    found: SideBySide,
    comparison: Comparison,
    *,
    out: Path,
    folder: Path | None = None,
    verdict: GateVerdict | None = None,
    limits: Mapping[str, Any] | None = None,
    command: Sequence[str] = (),
) -> list[Path]:
    """Write a run's folder from a baseline and one compressed model; returns its cards, the folder's README.md first.

    folder: where; by default one below the results root ``out``, named after both models. comparison: ``found``'s, at
    the confidence it is to be shown at and with what was added. verdict: the gate's word on it. limits: what
    ``evalcard gate`` takes where it is given none. The same answers kept again replace the folder; UserError for a
    folder that holds anything else, or cannot be written.
    """
    assert len(found.compressed) == 1, [model.origin for model in found.compressed]
    digest = _digest(found)
    path = folder.expanduser() if folder is not None else out.expanduser() / _name(found, digest)
    _refuse_taken(path, digest)
    with RunFolder.locked(path, _ADVICE) as held:
        _refuse_taken(path, digest)  # since, by another process
        run = _record(found, path.resolve().name or "compared", digest, limits or {}, command)
        comparison = comparison.model_copy(update={"run": run.name})
        if verdict is not None:
            named = verdict.model_copy(update={"run": run.name, "finished": run.finished})
            comparison = with_verdict(comparison, named)
        # As a run grows: only the last file says that it is finished.
        held.write_run(run.model_copy(update={"finished": None}))
        _write_answers(held, found, run)
        comparison = comparison.model_copy(update={"made_from": held.answer_digests(run)})
        held.write_comparison(comparison)
        cards = write_cards(held, run, comparison)
        held.write_run(run)
    return cards


def _refuse_taken(path: Path, digest: str) -> None:
    """A folder with anything in it is taken, unless it holds the same comparison, or what a writer that was killed at
    its first file left."""
    if is_file(path / RUN_FILE):
        there = RunFolder(path).read_run()
        if there.resolved.get(_DIGEST) == digest:
            return
        raise UserError(
            f"{path} holds another run, {there.name}, made of other answers. Give a new folder with --card FOLDER."
        )
    if exists(path) and not path.is_dir():
        raise UserError(f"--card {path} is a file; give a folder, or leave its name out.")
    if exists(path) and any(not _is_left(one) for one in path.iterdir()):
        raise UserError(f"--card {path} is a folder with other files in it. Give a new one, or leave its name out.")


def _is_left(path: Path) -> bool:
    return path.name in (LOCK_FILE, OWNER_FILE, CARDS_LOCK_FILE, PUBLISH_LOCK_FILE) or is_temporary(path)


def _name(found: SideBySide, digest: str) -> str:
    baseline, compressed = (model.slug for model in found.run.models)
    return f"{compressed[:40]}-against-{baseline[:40]}-{digest[:8]}"


def _digest(found: SideBySide) -> str:
    """Over what is compared: the answers' keys, which name them, and what was said of each."""
    both = (found.baseline, *found.compressed)
    names = [task.name for task in found.run.tasks]
    answers = {
        "rows": [row.name for row in found.run.rows],
        "tasks": [[task.name, task.items_selected, task.item_ids] for task in found.run.tasks],
        "keys": [[sorted(one.key for one in model.samples.get(name, ())) for name in names] for model in both],
        "said": [[[_said(one) for one in model.verdicts.get(name, ())] for name in names] for model in both],
    }
    return hashlib.sha256(encode(answers)).hexdigest()


def _said(verdict: Verdict) -> list[Any]:
    return [verdict.item_id, verdict.repeat, verdict.outcome, *(score.value for score in verdict.scores)]


def _record(found: SideBySide, name: str, digest: str, limits: Mapping[str, Any], command: Sequence[str]) -> RunRecord:
    both = (found.baseline, *found.compressed)
    slugs = [model.slug for model in found.run.models]
    base_model = found.runs[0].resolved.get("base_model") if found.runs and _all_own(found) else None
    resolved = {_DIGEST: digest, **limits, **({"base_model": base_model} if base_model else {})}
    return found.run.model_copy(
        update={
            "name": name,
            "created": found.run.created or now(),
            "finished": now(),
            "resolved": resolved,
            "versions": _shared(found, "versions") or _own_version(),
            "hardware": _shared(found, "hardware"),
            "command": [_without_folders(word) for word in command],
            "sources": {slug: _source(model, both) for slug, model in zip(slugs, both, strict=True)},
        }
    )


def _without_folders(word: str) -> str:
    """lm-eval names a folder after the model's whole path, with ``__`` for each slash; its last part is enough."""
    path, colon, model = word.partition(":") if not word.startswith("-") else (word, "", "")
    parts = path.rstrip("/").split("/")
    parts[-1] = _SANITIZED.sub("", parts[-1])
    return "/".join(parts) + colon + model


def _own_version() -> dict[str, str]:
    """Of what compared; nothing is known of the packages that measured, beyond what the sources say."""
    return {name: version for name, version in versions().items() if name == "evalcard"}


def _all_own(found: SideBySide) -> bool:
    return len(found.runs) == 1 + len(found.compressed)


def _shared(found: SideBySide, what: str) -> dict[str, Any]:
    """What all runs of evalcard say alike; empty where one of the results is another program's."""
    told = [getattr(run, what) for run in found.runs]
    return dict(told[0]) if _all_own(found) and all(one == told[0] for one in told) else {}


def _source(model: StoredModel, both: Sequence[StoredModel]) -> SourceRecord:
    source = model.source or SourceRecord(program=model.origin, prompts=model.prompts)
    return source if _has_same_prompts(both) else source.model_copy(update={"prompts": "none"})


def _has_same_prompts(both: Sequence[StoredModel]) -> bool:
    kinds = {model.prompts for model in both}
    return len(kinds) == 1 and "none" not in kinds


def _write_answers(folder: RunFolder, found: SideBySide, run: RunRecord) -> None:
    """Of what is compared only: an item that one of the two lacks is in no score."""
    both = (found.baseline, *found.compressed)
    is_alike = _has_same_prompts(both)
    for task in run.tasks:
        graded = [{(one.item_id, one.repeat): one for one in model.verdicts.get(task.name, ())} for model in both]
        samples = [{(one.item_id, one.repeat): one for one in model.samples.get(task.name, ())} for model in both]
        shared = _shared_answers([*graded, *samples], task)
        for slug, verdicts, answers in zip((model.slug for model in run.models), graded, samples, strict=True):
            folder.write_samples(slug, task.name, [_stored(answers[at], is_alike) for at in shared])
            folder.write_verdicts(slug, task.name, [verdicts[at] for at in shared])
    folder.write_questions(_questions(both))


def _shared_answers(sides: Sequence[Mapping[Address, Any]], task: TaskRecord) -> list[Address]:
    """In the order of the first side; of the task's items only where these were narrowed."""
    wanted = None if task.item_ids is None else set(task.item_ids)
    return [at for at in sides[0] if all(at in one for one in sides[1:]) and (wanted is None or at[0] in wanted)]


def _stored(sample: Sample, has_same_prompts: bool) -> Sample:
    """Hashes of prompts that cannot be compared are left out, and with them the key: such an answer stands for no
    other."""
    if has_same_prompts:
        return sample
    key = hashlib.sha256(f"compared {sample.key}".encode()).hexdigest()
    return sample.model_copy(update={"prompt_hash": "", "key": key})


def _questions(both: Sequence[StoredModel]) -> dict[str, dict[ItemId, str]]:
    found: dict[str, dict[ItemId, str]] = {}
    for model in reversed(both):
        for task, by_item in model.questions.items():
            found.setdefault(task, {}).update(by_item)
    return found


def with_fidelity(run: RunRecord, comparison: Comparison, path: Path) -> Comparison:
    """The comparison with what llama-perplexity measured in ``path`` of its one compressed model.

    Raises UserError for several compressed models, of which the file names none, and for a file that cannot be read.
    """
    from evalcard.results.imported.llama_perplexity import read_fidelity

    slugs = [model.slug for model in run.models[1:]]
    if len(slugs) != 1:
        raise UserError(
            f"--fidelity is of one compressed model; there are {len(slugs)}: {', '.join(slugs)}. Name one, as "
            "RUN:MODEL."
        )
    record = read_fidelity(path, slugs[0])
    kept = [one for one in comparison.fidelity if (one.row, one.unit) != (record.row, record.unit)]
    return comparison.model_copy(update={"fidelity": [*kept, record]})
