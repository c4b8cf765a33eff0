"""The attention's plan of a decoding step at fixed sizes: how much room its tables have, and how they are padded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

if TYPE_CHECKING:  # Triton is not everywhere
    from evalcard_engine.attention.paged_plan import HostPlan, PagedPlan
    from evalcard_engine.kernels.launch import Tile

LEAST_MANY = 4
"""Items of many rows that there is room for where there is one."""


class Room(NamedTuple):
    """Capacities: multiples of the step's size by powers of two, so that few of them cover long answers."""

    few: int
    """Items of few rows."""
    many: int
    """Items of many rows."""
    places: int
    parts: int

    def static_plan(
        self, tiles: "tuple[Tile, Tile]", views: Sequence[torch.Tensor], pages: torch.Tensor
    ) -> "PagedPlan":
        """A plan over buffers: views of what `pad_plan` makes."""
        from evalcard_engine.attention.paged_plan import PagedPlan
        from evalcard_engine.kernels.paged_attention import ITEM_COLUMNS, Items, Rows

        items = [Items(table.view(-1, ITEM_COLUMNS), tile) for table, tile in zip(views[:2], tiles, strict=True)]
        rows = Rows(views[2], views[3], views[4], pages)
        return PagedPlan(tuple(one for one in items if len(one.table)), rows, self.parts, views[5], views[6], views[7])


def room_for(plan: "HostPlan", size: int, num_rows: int) -> Room:
    """The room of a step of ``num_rows`` sequences that is padded to ``size``."""
    few, many = (len(table) for table in plan.tables)
    padding = size - num_rows
    return Room(
        few=_rounded(few + padding, size),
        many=_rounded(many, LEAST_MANY),
        places=_rounded(len(plan.tokens) + padding, size),
        parts=_rounded(plan.num_parts, size),
    )


def pad_plan(plan: "HostPlan", room: Room, size: int, num_rows: int) -> list[np.ndarray]:
    """int32 arrays: items of few and of many rows, tokens, firsts, lasts, merged tokens, merge starts, merge order.

    Rows [num_rows, size) of the step each have an item of their own over one key, that of the page after the plan's.
    """
    padding, place = size - num_rows, len(plan.tokens)
    few = _padded(plan.tables[0], room.few)
    own = few[len(plan.tables[0]) : len(plan.tables[0]) + padding]
    own[:, 0], own[:, 2] = np.arange(place, place + padding), len(plan.pages)
    own[:, 1] = own[:, 5] = own[:, 8] = 1  # one token, one key, a sink where there are any
    tokens = _padded(plan.tokens, room.places)
    tokens[place : place + padding] = np.arange(num_rows, size)
    num_merges = size if room.parts else 0
    starts = np.full(num_merges + 1, plan.num_parts, np.int32)
    starts[: len(plan.starts)] = plan.starts
    return [
        few.reshape(-1),
        _padded(plan.tables[1], room.many).reshape(-1),
        tokens,
        _padded(plan.firsts, room.places),
        _padded(plan.lasts, room.places),
        _padded(plan.merged, num_merges),
        starts,
        _padded(plan.order, room.parts),
    ]


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    """With zeros behind, which mean nothing: no tokens, and no keys."""
    out = np.zeros((length, *array.shape[1:]), np.int32)
    out[: len(array)] = array
    return out


def _rounded(count: int, unit: int) -> int:
    """The least unit * 2^n that holds ``count``; 0 for none."""
    return 0 if count == 0 else unit << (-(-count // unit) - 1).bit_length()
