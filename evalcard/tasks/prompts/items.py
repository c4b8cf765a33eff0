"""The items of one task, made once by each tokenizer of a run, and the proof that all models read the same ones."""

import functools
from collections.abc import Sequence
from dataclasses import replace

from evalcard.backends.backend import Item
from evalcard.errors import UserError
from evalcard.spec import RunSpec
from evalcard.tasks.harness import HarnessTask
from evalcard.tasks.prompts.decoding import Generation, decoding_of, repeats_of, untouched_by, with_flags
from evalcard.tasks.prompts.encode import Encoded, encode_items, parts, room_checker
from evalcard.tasks.prompts.lengths import LongPrompts
from evalcard.tasks.prompts.requests import Chat
from evalcard.tasks.prompts.tokenizer import Ids, Tokenizer


def items_of(
    task: HarnessTask,
    positions: Sequence[int],
    spec: RunSpec,
    tokenizers: Sequence[Tokenizer],
    stop_ids: tuple[int, ...],
    max_model_len: int,
) -> Encoded:
    """Items by the first tokenizer, one each for (item, repeat), in document order.

    A tokenizer that does the same work as the first needs no second encoding. Raises UserError for prompts that cannot
    be built or do not fit, and with the first difference where two models would read different ones.
    """
    assert tokenizers, "a run has at least one model"
    first, *others = tokenizers
    generation, notes = generation_of(task, spec, first, stop_ids)
    encoded = _encode(task, positions, spec, first, generation, max_model_len)
    for other in others:
        if not _is_same(spec, first, other):
            own = _encode(task, positions, spec, other, generation, max_model_len)
            require_equal_prompts(encoded.items, own.items, first.name, other.name, first, other)
    return replace(encoded, notes=(*notes, *encoded.notes))


def generation_of(
    task: HarnessTask, spec: RunSpec, tokenizer: Tokenizer, stop_ids: tuple[int, ...]
) -> tuple[Generation | None, list[str]]:
    """How answers are generated, flags before the task's own words; None for scored tasks, which no such flag touches.

    Raises UserError for arguments that cannot be honoured, and repeats of greedy answers.
    """
    if not task.is_generated:
        given = untouched_by(spec)
        says = (
            f"{task.name}: scored by log-probabilities; {' and '.join(given)} {'has' if len(given) == 1 else 'have'} "
        )
        return None, [says + "no part in it"] if given else []
    arguments = with_flags(task.generation, spec)
    decoding = decoding_of(task.name, arguments, tokenizer.eos_text, spec.max_new_tokens, spec.seed)
    repeats, notes = repeats_of(task.name, task.repeats, decoding, spec)
    return Generation(decoding, stop_ids, repeats), notes


def chat_of(spec: RunSpec, tokenizer: Tokenizer) -> Chat:
    """Worked examples become turns of their own wherever a chat template is applied, unless the spec says otherwise."""
    if not spec.chat_template:
        return Chat(system=spec.system)
    render = functools.partial(tokenizer.render_chat, arguments=spec.chat_template_args)
    return Chat(render, spec.fewshot_as_multiturn is not False, spec.system)


def _encode(
    task: HarnessTask,
    positions: Sequence[int],
    spec: RunSpec,
    tokenizer: Tokenizer,
    generation: Generation | None,
    max_model_len: int,
) -> Encoded:
    fits = room_checker(tokenizer, max_model_len, generation) if spec.drop_shots else None
    prompts = task.prompts(positions, chat_of(spec, tokenizer), fits)
    notes = []
    if short := [prompt for prompt in prompts if prompt.shots is not None]:
        left = min(prompt.shots or 0 for prompt in short)
        notes.append(f"{task.name}: {len(short)} of {len(prompts)} prompts have fewer than {task.num_fewshot} shots so "
                     f"that they fit, the shortest {left} (--drop-shots)")  # fmt: skip
    if task.mended_shots:
        notes.append(f"{task.name}: {len(task.mended_shots)} items would have been among their own shots, and were "
                     "given another one; the harness lets them")  # fmt: skip
    try:
        encoded = encode_items(task.name, prompts, task.docs, tokenizer, max_model_len, generation)
    except LongPrompts as error:
        # With --drop-shots a prompt that still does not fit has lost all of them.
        raise error.without_shots() if spec.drop_shots or not task.num_fewshot else error from None
    return replace(encoded, notes=(*notes, *encoded.notes))


def _is_same(spec: RunSpec, one: Tokenizer, other: Tokenizer) -> bool:
    same_template = not spec.chat_template or one.template_digest == other.template_digest
    return one.digest == other.digest and same_template


def require_equal_prompts(
    items_a: Sequence[Item], items_b: Sequence[Item], name_a: str, name_b: str, tokenizer_a: Tokenizer,
    tokenizer_b: Tokenizer,
) -> None:  # fmt: skip
    """Raise UserError with the first difference between what two models would read."""
    if len(items_a) != len(items_b):
        raise UserError(f"{name_a} and {name_b} have {len(items_a)} and {len(items_b)} items; they cannot be compared.")
    for one, other in zip(items_a, items_b, strict=True):
        if one.prompt_hash == other.prompt_hash:
            continue
        for ids, other_ids in zip(_all_ids(one), _all_ids(other), strict=True):
            if ids != other_ids:
                place = next((i for i, pair in enumerate(zip(ids, other_ids, strict=False)) if pair[0] != pair[1]),
                             min(len(ids), len(other_ids)))  # fmt: skip
                raise UserError(
                    f"{name_a} and {name_b} read different prompts, first in task {one.task}, item {one.item_id}, at "
                    f"token {place}: {_around(ids, place, tokenizer_a)} against "
                    f"{_around(other_ids, place, tokenizer_b)}. Their tokenizers or chat templates differ; give both "
                    "the same tokenizer files, then compare."
                )


def _all_ids(item: Item) -> list[Ids]:
    return [ids for request in item.requests for ids in parts(request)]


def _around(ids: Ids, place: int, tokenizer: Tokenizer) -> str:
    shown = ids[place : place + 4]
    return f"ids {list(shown)} {tokenizer.tokens(shown)}" if shown else "the end"
