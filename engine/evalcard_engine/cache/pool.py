"""The keys and values of all layers: page after page, written by slot."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from evalcard_engine.cache.kv_codes import KVCodes, Pages, Stored


@dataclass(frozen=True, slots=True)
class KVShape:
    """One layer's share of a page; keys and values may have their own head sizes."""

    kv_heads: int
    key_size: int
    value_size: int

    @property
    def elements_per_token(self) -> int:
        return self.kv_heads * (self.key_size + self.value_size)


def token_bytes(layers: Sequence[KVShape], dtype: torch.dtype, codes: Sequence[KVCodes] | None) -> int:
    """Bytes of a token's keys and values over all layers; ``dtype`` is that of numbers, where nothing is coded."""
    if codes is None:
        return sum(shape.elements_per_token for shape in layers) * dtype.itemsize
    return sum(
        shape.elements_per_token * how.dtype.itemsize + 2 * shape.kv_heads * how.scale_bytes
        for shape, how in zip(layers, codes, strict=True)
    )


class KVPool:
    """Keys and values of every layer as [num_pages, kv_heads, page_size, head_size].

    ``keys[layer]`` and ``values[layer]`` are what is stored, numbers or codes; `read_keys` and `read_values` give
    numbers, `write` fills slots. Pages start at zero, because attention reads whole pages and multiplies what lies
    beyond a sequence's end by zero, which must not be NaN.
    """

    def __init__(
        self,
        layers: Sequence[KVShape],
        num_pages: int,
        page_size: int,
        dtype: torch.dtype,
        device: torch.device | str,
        codes: Sequence[KVCodes] | None = None,
    ) -> None:
        """codes: how each layer stores its keys and values in eight bits; None stores them as ``dtype``."""
        assert num_pages > 0 and page_size > 0 and layers, (num_pages, page_size, len(layers))
        assert codes is None or len(codes) == len(layers), (len(layers), codes)
        self.num_pages = num_pages
        self.page_size = page_size
        self.dtype = dtype
        """Of numbers, and of what codes are made from: what the model is computed in."""
        self.is_coded = codes is not None
        self._keys: list[Pages] = []
        self._values: list[Pages] = []
        for layer, shape in enumerate(layers):
            how = codes[layer] if codes is not None else None
            place = (num_pages, shape.kv_heads, page_size)
            key_scale, value_scale = (None, None) if how is None else (how.key_scale, how.value_scale)
            self._keys.append(Pages((*place, shape.key_size), dtype, device, how, key_scale))
            self._values.append(Pages((*place, shape.value_size), dtype, device, how, value_scale))
        self.keys = [pages.data for pages in self._keys]
        self.values = [pages.data for pages in self._values]
        self.tainted = False
        """Whether a value that is not finite was ever written; attention then clears what a sequence must not see."""

    @property
    def num_bytes(self) -> int:
        return sum(pages.num_bytes for pages in (*self._keys, *self._values))

    def write(self, layer: int, rows: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        """Store a step's keys and values.

        key [num_tokens, kv_heads, key_size] and value [num_tokens, kv_heads, value_size] of the layer; rows int64
        [num_tokens * kv_heads] as `slot_rows` makes them.
        """
        self._keys[layer].write(rows, key)
        self._values[layer].write(rows, value)
        # Elsewhere attention never reads past a sequence's end, and asking would wait for the device.
        if value.device.type == "cpu" and not self.tainted and not bool(torch.isfinite(key.sum() + value.sum())):
            self.tainted = True

    def read_keys(self, layer: int, pages: int | torch.Tensor) -> torch.Tensor:
        """What `write` left, as numbers: [kv_heads, page_size, key_size] of a page, [n, ...] of pages int64 [n]."""
        return self._keys[layer].read(pages, self._may_be_nan)

    def read_values(self, layer: int, pages: int | torch.Tensor) -> torch.Tensor:
        """Likewise [kv_heads, page_size, value_size] or [n, ...]."""
        return self._values[layer].read(pages, self._may_be_nan)

    def stored(self, layer: int) -> tuple[Stored, Stored]:
        """A layer's keys and values as they lie in memory."""
        return self._keys[layer].stored, self._values[layer].stored

    @property
    def _may_be_nan(self) -> bool:
        return self.tainted or self.keys[0].device.type != "cpu"

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
        for pages in (*self._keys, *self._values):
            pages.copy_tokens(source_page, target_page, count)
