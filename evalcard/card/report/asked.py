"""What the answers of a run were asked: the questions, and the prompts as the models read them, where that can be had.

Runs do not store prompts, which can be built again from the task files and documents. A document that changed since is
told by its hash, a prompt that is not the one that was answered by that of its token ids; neither is shown.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from evalcard.card.paths import without_paths
from evalcard.errors import UserError
from evalcard.progress import Silent
from evalcard.results.records import ItemId, RunRecord

if TYPE_CHECKING:
    from evalcard.backends.backend import Item
    from evalcard.spec import RunSpec
    from evalcard.tasks.prepare import PreparedTask
    from evalcard.tasks.prompts.tokenizer import Tokenizer

_LEAST_SHARED = 80
"""Characters at the head of all prompts of a task from which they are stored once."""


class Hashes(NamedTuple):
    """Of what was answered."""

    item: str
    prompt: str


Wanted = Mapping[str, Mapping[ItemId, Hashes]]
"""By task and item."""


@dataclass
class Asked:
    """By task and item; what is missing is named."""

    questions: dict[str, dict[ItemId, str]] = field(default_factory=dict)
    prompts: dict[str, dict[ItemId, tuple[str, ...]]] = field(default_factory=dict)
    """Each in one part, or in two where its head is that of all prompts of the task."""
    missing: list[str] = field(default_factory=list)
    """Why some are, in the middle of a sentence, without paths."""
    is_checked: bool = True
    """Whether the prompts' token ids were seen to be those that were answered."""
    is_stored: bool = False
    """Whether these are what other harnesses' results hold of them, which say nothing of prompts."""


def read_asked(run: RunRecord, wanted: Wanted, data_root: str | None, trust_task_code: bool) -> Asked:
    """Of as many items as can be had; whatever stands in the way is told and never raised.

    data_root, trust_task_code: as for evalcard.tasks.questions.read_questions.
    """
    from evalcard.tasks.regrade import prepare_stored

    found = Asked()
    try:
        tasks = prepare_stored(run, {}, data_root, trust_task_code, Silent())
        spec = _spec_of(run, data_root, trust_task_code)
    except UserError as error:
        found.missing.append(_told(error))
        return found
    tokenizer = _tokenizer(spec, found)
    for name, items in wanted.items():
        if name in tasks:
            known = _of_task(tasks[name], items, found)
            _add_prompts(tasks[name], known, spec, tokenizer, found)
    found.missing = list(dict.fromkeys(found.missing))
    return found


def _spec_of(run: RunRecord, data_root: str | None, trust_task_code: bool) -> "RunSpec":
    from evalcard.spec import make_spec

    here = {"trust_task_code": trust_task_code} | ({} if data_root is None else {"data_root": data_root})
    return make_spec(dict(run.resolved) | here, origin=f"run.json of {run.name}")


def _tokenizer(spec: "RunSpec", found: Asked) -> "Tokenizer | None":
    """The baseline's; all models of a run read the same ids, which its own command proved."""
    from evalcard.tasks.prompts.tokenizer import shared_tokenizer, tokenizer_source

    try:
        return shared_tokenizer(*tokenizer_source(spec, spec.models[0]))
    except UserError as error:
        found.is_checked = False
        if spec.chat_template or spec.drop_shots:
            found.missing.append(_told(error))
        return None


def _of_task(task: "PreparedTask", items: Mapping[ItemId, Hashes], found: Asked) -> dict[ItemId, Hashes]:
    """Add the questions; returns the items whose documents are those that were answered."""
    from evalcard.tasks.prompts.encode import hash_document
    from evalcard.tasks.questions import question_of

    documents = dict(zip(task.task.item_ids, task.task.docs, strict=True))
    known = {item: one for item, one in items.items() if item in documents}
    known = {item: one for item, one in known.items() if hash_document(documents[item]) == one.item}
    if len(known) < len(items):
        found.missing.append(f"the documents of {len(items) - len(known)} items of {task.name} changed since")
    try:
        questions = {item: question_of(task.task, task.task.position(item)) for item in known}
    except UserError as error:
        found.missing.append(_told(error))
        questions = {}
    found.questions[task.name] = questions
    return known


def _add_prompts(
    task: "PreparedTask", known: Mapping[ItemId, Hashes], spec: "RunSpec", tokenizer: "Tokenizer | None", found: Asked
) -> None:
    if not known or (tokenizer is None and (spec.chat_template or spec.drop_shots)):
        return
    positions = sorted(task.task.position(item) for item in known)
    try:
        made = dict(
            _plain(task, positions, spec) if tokenizer is None else _checked(task, positions, spec, tokenizer, known)
        )
    except UserError as error:
        found.missing.append(_told(error))
        return
    if len(made) < len(known):
        found.missing.append(
            f"the prompts of {len(known) - len(made)} items of {task.name} cannot be built again as they were answered"
        )
    found.prompts[task.name] = _parted(made)


def _plain(task: "PreparedTask", positions: list[int], spec: "RunSpec") -> Iterator[tuple[ItemId, str]]:
    """Without a tokenizer: what is sent where there is no chat template, not held against the ids."""
    from evalcard.tasks.prompts.requests import Chat

    for prompt in task.task.prompts(positions, Chat(system=spec.system)):
        yield prompt.item_id, _joined(str(arguments[0]) for arguments in prompt.arguments)


def _checked(
    task: "PreparedTask", positions: list[int], spec: "RunSpec", tokenizer: "Tokenizer", known: Mapping[ItemId, Hashes]
) -> Iterator[tuple[ItemId, str]]:
    """Those whose token ids have the hash that the answers state."""
    from evalcard.tasks.prompts.items import items_of

    max_len = spec.max_model_len or tokenizer.max_len
    made = items_of(task.task, positions, spec, [tokenizer], tokenizer.stop_ids, max_len)
    for item in made.items:
        if item.repeat == 0 and item.prompt_hash == known[item.item_id].prompt:
            yield item.item_id, _text_of(item)


def _text_of(item: "Item") -> str:
    from evalcard.backends.backend import GenerateRequest

    if item.is_rolling:
        return _joined(one.continuation for one in item.requests if not isinstance(one, GenerateRequest))
    return _joined(one.prompt if isinstance(one, GenerateRequest) else one.context for one in item.requests)


def _joined(texts: Iterable[str]) -> str:
    """Choices of one item mostly follow the same context; where they do not, each is shown."""
    return "\n\n".join(dict.fromkeys(text for text in texts if text))


def _parted(prompts: Mapping[ItemId, str]) -> dict[ItemId, tuple[str, ...]]:
    """Split after the lines that all of them begin with, such as the same worked examples."""
    shared = os.path.commonprefix(list(prompts.values())) if len(prompts) > 1 else ""
    length = shared.rfind("\n") + 1
    if length < _LEAST_SHARED:
        return {item: (text,) for item, text in prompts.items()}
    return {item: (text[:length], text[length:]) for item, text in prompts.items()}


def _told(error: UserError) -> str:
    return without_paths(" ".join(str(error).split()))
