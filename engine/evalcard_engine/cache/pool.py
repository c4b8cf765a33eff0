"""The keys and values of all layers: page after page, written by slot."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class KVShape:
    """One layer's share of a page; keys and values may have their own head sizes."""

    kv_heads: int
    key_size: int
    value_size: int

    @property
    def elements_per_token(self) -> int:
        return self.kv_heads * (self.key_size + self.value_size)


class KVPool:
    """Keys and values of every layer as [num_pages, kv_heads, page_size, head_size].

    ``keys[layer]`` and ``values[layer]`` are read by the attention; `write` fills slots. Pages start at zero, because
    attention reads whole pages and multiplies what lies beyond a sequence's end by zero, which must not be NaN.
    """

    def __init__(
        self, layers: Sequence[KVShape], num_pages: int, page_size: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        assert num_pages > 0 and page_size > 0 and layers, (num_pages, page_size, len(layers))
        self.num_pages = num_pages
        self.page_size = page_size
        self.keys = [
            torch.zeros(num_pages, shape.kv_heads, page_size, shape.key_size, dtype=dtype, device=device)
            for shape in layers
        ]
        self.values = [
            torch.zeros(num_pages, shape.kv_heads, page_size, shape.value_size, dtype=dtype, device=device)
            for shape in layers
        ]
        self.tainted = False
        """Whether a value that is not finite was ever written; attention then clears what a sequence must not see."""

    @property
    def num_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*self.keys, *self.values))

    def write(self, layer: int, rows: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        """Store a step's keys and values.

        key [num_tokens, kv_heads, key_size] and value [num_tokens, kv_heads, value_size] of the layer; rows int64
        [num_tokens * kv_heads] as `slot_rows` makes them.
        """
        for pages, fresh in ((self.keys[layer], key), (self.values[layer], value)):
            size = pages.shape[-1]
            pages.view(-1, size).index_copy_(0, rows, fresh.reshape(-1, size).to(pages.dtype))
        # Elsewhere attention never reads past a sequence's end, and asking would wait for the device.
        if value.device.type == "cpu" and not self.tainted and not bool(torch.isfinite(key.sum() + value.sum())):
            self.tainted = True

    def slot_rows(self, slots: torch.Tensor) -> torch.Tensor:
        """Where slots lie in a layer's tensor seen as rows of one head: int64 [num_tokens * kv_heads]."""
        kv_heads = self.keys[0].shape[1]
        assert all(keys.shape[1] == kv_heads for keys in self.keys), [keys.shape[1] for keys in self.keys]
        page, offset = slots // self.page_size, slots % self.page_size
        heads = torch.arange(kv_heads, device=slots.device)
        return ((page[:, None] * kv_heads + heads) * self.page_size + offset[:, None]).reshape(-1)

    def copy_tokens(self, source_page: int, target_page: int, count: int) -> None:
        """Copy the first ``count`` slots of one page to another, in every layer."""
        assert 0 <= count <= self.page_size and source_page != target_page, (source_page, target_page, count)
        for tensor in (*self.keys, *self.values):
            tensor[target_page, :, :count] = tensor[source_page, :, :count]
