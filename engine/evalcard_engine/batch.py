"""One step's metadata: built once by the runner, frozen, and passed down the model as an argument."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Span:
    """One sequence's share of a step: query tokens [query_start, query_start + query_len) of the packed row.

    They sit at the absolute positions [context_len, context_len + query_len) of the sequence, whose keys and
    values live in ``pages``: position p is slot p % page_size of pages[p // page_size].
    """

    query_start: int
    query_len: int
    context_len: int
    pages: tuple[int, ...]
    is_long: bool = False
    """Whether the sequence's positions are encoded for long ones."""

    @property
    def end_len(self) -> int:
        """Tokens of the sequence once this step is done."""
        return self.context_len + self.query_len


@dataclass(frozen=True, slots=True)
class Batch:
    """A packed row of tokens of several sequences, without padding.

    token_ids, positions, slots: int64 [num_tokens] on the model's device; a slot is page * page_size + offset.
    logits_rows: int64 [num_logits], the rows of the packed row whose logits are asked for, ascending.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    logits_rows: torch.Tensor
    spans: tuple[Span, ...]
    page_size: int

    def __post_init__(self) -> None:
        num_tokens = self.token_ids.numel()
        for name in ("token_ids", "positions", "slots", "logits_rows"):
            tensor = getattr(self, name)
            assert tensor.dtype == torch.int64 and tensor.dim() == 1, (name, tensor.dtype, tuple(tensor.shape))
            assert tensor.device == self.token_ids.device, (name, tensor.device, self.token_ids.device)
            assert name == "logits_rows" or tensor.numel() == num_tokens, (name, tensor.numel(), num_tokens)
        packed = sum(span.query_len for span in self.spans)
        assert packed == num_tokens, (packed, num_tokens)
