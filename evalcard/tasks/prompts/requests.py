"""One document as text: the requests that a model is sent for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lm_eval.api.task import Task

from evalcard.errors import UserError
from evalcard.results.records import ItemId
from evalcard.tasks.own.documents import Documents

RequestKind = Literal["score", "rolling", "generate"]
Arguments = tuple[tuple[Any, ...], ...]

_REQUEST_KINDS: dict[str, RequestKind] = {
    "loglikelihood": "score",
    "loglikelihood_rolling": "rolling",
    "generate_until": "generate",
}


@dataclass(frozen=True, slots=True)
class Chat:
    """How prompts become chat turns; ``render(messages, add_generation_prompt)`` is None for plain text."""

    render: Any = None
    as_multiturn: bool = False
    system: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """All requests of one document as text: (context, continuation), (context, generation kwargs) or (text,)."""

    position: int
    """Place of the document in the task's own order."""
    item_id: ItemId
    kind: RequestKind
    arguments: Arguments
    shots: int | None = None
    """Worked examples in it where some were left out; None where it has them all."""


Fits = Callable[[Sequence[Prompt]], list[bool]]
"""Which of the prompts leave the model room to answer."""


def requests_of(
    task: Task, name: str, position: int, doc: dict[str, Any], num_fewshot: int, chat: Chat
) -> tuple[RequestKind, Arguments]:
    """What the harness's own evaluator sends for a document. Raises what the task's templates and functions raise.

    A data file's system turn is its column's text: the blank line after a description is for plain prompts, and the
    harness leaves it in a chat, too.
    """
    is_chat = chat.render is not None
    own = getattr(task.config, "custom_dataset", None)
    if is_chat and isinstance(own, Documents):
        doc = own.as_turn(doc, position)
    context = task.fewshot_context(
        doc,
        num_fewshot=num_fewshot,
        system_instruction=chat.system,
        apply_chat_template=is_chat,
        fewshot_as_multiturn=chat.as_multiturn,
        chat_template=chat.render,
        gen_prefix=task.doc_to_prefix(doc),
    )
    made = task.construct_requests(
        doc=doc,
        ctx=context,
        metadata=(name, position, 1),
        apply_chat_template=is_chat,
        chat_template=chat.render,
    )
    instances = made if isinstance(made, list) else [made]
    kinds = {instance.request_type for instance in instances}
    if len(kinds) != 1:
        raise UserError(f"task {name} mixes {' and '.join(sorted(kinds))} in one item; that is not supported.")
    return _REQUEST_KINDS[kinds.pop()], tuple(tuple(one.args) for one in instances)
