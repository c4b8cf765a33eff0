"""Prompts that do not fit the model: those of all tasks in one error, with advice that helps. Light."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evalcard.errors import UserError
from evalcard.results.records import ItemId

_SHOWN_ITEMS = 5
_SHOWN_TASKS = 3


@dataclass(frozen=True, slots=True)
class TooLong:
    """The prompts of one task that do not fit."""

    task: str
    over: tuple[tuple[ItemId, int], ...]
    """Items with the tokens that the model would have to hold."""
    num_prompts: int
    limit: int
    """Tokens that it can hold."""
    what: str
    """What these tokens are beside the prompt's own."""
    is_bare: bool = False
    """Whether no worked example is left in these prompts that could be taken out."""

    @property
    def needed(self) -> int:
        """Tokens with which all would fit."""
        return max(length for _, length in self.over)

    def __str__(self) -> str:
        shown = ", ".join(f"item {item_id} ({length} tokens)" for item_id, length in self.over[:_SHOWN_ITEMS])
        more = f" and {len(self.over) - _SHOWN_ITEMS} more" if len(self.over) > _SHOWN_ITEMS else ""
        count = f"{len(self.over)} of {self.num_prompts} prompts do not fit the model's {self.limit} tokens"
        return f"task {self.task}: {count} {self.what}: {shown}{more}"


class LongPrompts(UserError):
    """Prompts that are longer than the model reads; one message for all tasks."""

    def __init__(self, too_long: Sequence[TooLong]):
        self.too_long = tuple(too_long)
        said, advice = [str(one) for one in too_long], f"Prompts are never cut. {_advice(too_long)}"
        super().__init__(f"{'; '.join(said)}. {advice}", said, advice)

    def without_shots(self) -> "LongPrompts":
        """The same, of prompts in which no worked example is left."""
        return LongPrompts([replace(one, is_bare=True) for one in self.too_long])


def join_long(errors: Sequence[LongPrompts]) -> LongPrompts:
    """All prompts that do not fit in one error, so that one longer limit mends all."""
    return LongPrompts([one for error in errors for one in error.too_long])


def _advice(faults: Sequence[TooLong]) -> str:
    bare = [fault for fault in faults if fault.is_bare]
    length = f"give --max-model-len {max(fault.needed for fault in faults)} if the model can read that far"
    if not bare:
        return f"Ask for fewer shots with --num-fewshot, leave out as many as need be with --drop-shots, or {length}."
    longest = max(bare, key=lambda fault: fault.needed)
    alone = (
        f"Without any worked example the question alone is too long{_in_tasks(bare) if len(faults) > 1 else ''} "
        f"({longest.needed} tokens of {longest.limit}): "
    )
    out = "leave such items out" if len(faults) == 1 else "leave such tasks or items out"
    shots = "" if len(bare) == len(faults) else ". For the others fewer shots help, too (--num-fewshot, --drop-shots)"
    return f"{alone}{length}, or {out}{shots}."


def _in_tasks(faults: Sequence[TooLong]) -> str:
    more = f" and {len(faults) - _SHOWN_TASKS} more" if len(faults) > _SHOWN_TASKS else ""
    return f" in {', '.join(fault.task for fault in faults[:_SHOWN_TASKS])}{more}"
