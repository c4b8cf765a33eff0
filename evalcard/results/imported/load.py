"""Stored results of lm-eval, lighteval and inspect_ai -> one StoredModel for each model."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from evalcard.errors import UserError
from evalcard.results.imported import inspect_log, lighteval, lm_eval
from evalcard.results.imported.detect import Found, Kind, found_in, stray_in
from evalcard.results.imported.files import laid_out
from evalcard.results.imported.parts import Log, Part, single_rows
from evalcard.results.records import ModelRecord, SourceRecord
from evalcard.results.stored import LeftOut, StoredModel

_LISTED = 10


class _Reader(NamedTuple):
    log: Callable[[Found], Log]
    read: Callable[[Log, Sequence[str]], Part]


_READERS: dict[Kind, _Reader] = {
    "lm_eval": _Reader(lm_eval.read_log, lm_eval.read),
    "lighteval": _Reader(lighteval.read_log, lighteval.read),
    "inspect": _Reader(inspect_log.read_log, inspect_log.read),
}


def import_results(path: Path, model: str | None = None) -> list[StoredModel]:
    """One StoredModel for each model whose results lie in ``path``, a file or a folder; roles are all 'baseline'.

    Of several results of a model the newest counts for each task, finished ones before unfinished ones; ``origin``
    names the files. ``model`` picks by slug, name or Hub id. Raises UserError where nothing was found, what is there
    lacks its samples or is damaged, and where no model is called ``model``.
    """
    found = list(found_in(path))
    kinds = list(dict.fromkeys(one.kind for one in found))
    if not found:
        raise UserError(
            f"{path} holds no results of lm-eval, lighteval or inspect. Give the folder or file that one of them wrote."
        )
    if len(kinds) > 1:
        raise UserError(f"{path} holds results of {' and '.join(kinds)}. Name the folder or file of one of them.")
    reader = _READERS[kinds[0]]
    results = [one for one in found if one.role == "results"]
    models = _by_model([_log(one, reader) for one in results or found])
    chosen = {slug: logs for slug, logs in models.items() if model is None or _is_called(slug, logs, model)}
    if not chosen:
        raise UserError(f"{path} holds no model called {model!r}. It holds: {', '.join(list(models)[:_LISTED])}.")
    strays = stray_in(path, found)
    return [_stored(slug, logs, reader, _strays_of(logs, strays, len(models))) for slug, logs in chosen.items()]


def _log(found: Found, reader: _Reader) -> Log:
    with laid_out(found.path, found.kind):
        return reader.log(found)


def _by_model(logs: Sequence[Log]) -> dict[str, list[Log]]:
    """Slug -> logs of one model, the one that counts most first."""
    groups: dict[str, list[Log]] = {}
    for log in sorted(logs, key=lambda one: (one.is_complete, one.created or "", str(one.path)), reverse=True):
        groups.setdefault(log.identity, []).append(log)
    plain = {identity: _slug(group[0].model.name) for identity, group in groups.items()}
    counts = Counter(plain.values())
    named = {
        f"{slug}-{hashlib.sha256(identity.encode()).hexdigest()[:4]}" if counts[slug] > 1 else slug: groups[identity]
        for identity, slug in plain.items()
    }
    return dict(sorted(named.items()))


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name.rsplit("/", 1)[-1]).strip("-.") or "model"


def _is_called(slug: str, logs: Sequence[Log], model: str) -> bool:
    return model in {slug, *(name for log in logs for name in (log.model.name, log.model.hub_id, *log.names))}


def _strays_of(logs: Sequence[Log], strays: Mapping[Path, str], num_models: int) -> dict[str, LeftOut]:
    """By file, what may be this model's; beside several models, only what lies in a folder of its own results."""
    folders = {log.path.parent for log in logs}
    return {path.name: LeftOut(why) for path, why in strays.items() if num_models == 1 or path.parent in folders}


def _stored(slug: str, logs: Sequence[Log], reader: _Reader, strays: Mapping[str, LeftOut]) -> StoredModel:
    parts: list[tuple[Log, Part]] = []
    seen: set[str] = set()
    for log in logs:
        wanted = [task for task in log.tasks if task not in seen]
        seen.update(wanted)
        if wanted:
            with laid_out(log.path, log.writer):
                parts.append((log, reader.read(log, wanted)))
    whole = _joined([part for _, part in parts])
    whole.left_out.update(strays)
    used = [log for log, part in parts if part.tasks]
    if not used:
        raise UserError(
            f"{slug}: nothing can be compared item by item in {_files(logs)}. {'; '.join(dict.fromkeys(whole.notes))}."
        )
    return StoredModel(
        origin=_origin(used, logs, whole.notes),
        model=_record(slug, used),
        rows=tuple(whole.rows),
        tasks=whole.tasks,
        samples=whole.samples,
        verdicts=whole.verdicts,
        prompts="text",
        questions=whole.questions,
        seed=used[0].seed,
        created=max((log.created for log in used if log.created), default=None),
        is_complete=all(log.is_complete for log in used),
        left_out=whole.left_out,
        source=_source(used, whole),
    )


def _source(used: Sequence[Log], whole: Part) -> SourceRecord:
    created = max((log.created for log in used if log.created), default=None)
    names = list(dict.fromkeys(log.path.name for log in used))
    tells_endings = all(one.finish != "not_told" for samples in whole.samples.values() for one in samples)
    return SourceRecord(
        program=used[0].writer, files=names, created=created, prompts="text", tells_endings=tells_endings
    )


def _joined(parts: Sequence[Part]) -> Part:
    """The parts of one model, which share no task. A group whose name is taken comes as its tasks."""
    whole = Part()
    for part in parts:
        taken = {row.name for row in whole.rows}
        for row in part.rows:
            whole.rows.extend(single_rows(row.tasks) if row.name in taken else [row])
        whole.left_out.update(part.left_out)
        whole.tasks.update(part.tasks)
        whole.samples.update(part.samples)
        whole.verdicts.update(part.verdicts)
        whole.questions.update(part.questions)
    return whole


def _record(slug: str, logs: Sequence[Log]) -> ModelRecord:
    """The newest log's; a chat template of any of them, as tasks say themselves whether they used it."""
    templates = [log.model.template_digest for log in logs if log.model.template_digest is not None]
    update = {"slug": slug, "template_digest": templates[0] if templates else None}
    return logs[0].model.model_copy(update=update)


def _origin(used: Sequence[Log], logs: Sequence[Log], notes: Sequence[str]) -> str:
    """Which harness and files, what was passed over, and what was left out."""
    text = f"{used[0].writer}: {_files(used)}"
    older = len(logs) - len(used)
    text += f"; {older} older or unfinished {'file' if older == 1 else 'files'} of it not used" if older else ""
    return "; ".join([text, *dict.fromkeys(notes)])


def _files(logs: Sequence[Log]) -> str:
    shown = [f"{log.path.name} ({log.date})" for log in logs[:_LISTED]]
    more = len(logs) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
