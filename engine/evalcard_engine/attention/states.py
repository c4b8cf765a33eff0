"""What attention over some blocks has come to, and how it goes on: averages that are merged in the order of the blocks.

A block gives its softmax average o, a largest score m and a sum l of e^(s - m); any m will do that l goes with. Blocks
are merged (online softmax: Milakov and Gimelshein, arXiv 1805.02867) with M' = max(M, m), A = L e^(M - M'),
B = l e^(m - M'), L' = A + B, O' = O A / L' + o B / L'.
A sink, one more score t of no token, comes last: O' = O A / (A + e^(t - M')) with M' = max(M, t).
"""

import torch

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Average of the values so far [kv_heads, n, value_size], largest score and sum of exponentials [kv_heads, n, 1]."""


def rows_of(state: State, dim: int, start: int, stop: int) -> State:
    """Views of rows [start, stop)."""
    out, top, total = (part.narrow(dim, start, stop - start) for part in state)
    return out, top, total


def pick(state: State, places: torch.Tensor) -> State:
    """Copies of what lies at ``places``, int64 [n], of the first dimension."""
    out, top, total = (part.index_select(0, places) for part in state)
    return out, top, total


def joined(found: list[State], dim: int = 1) -> State:
    """States of different rows as one."""
    if len(found) == 1:
        return found[0]
    out, top, total = (torch.cat(each, dim=dim) for each in zip(*found, strict=True))
    return out, top, total


def merge(state: State, block: State) -> None:
    """Add a block to the state, in place."""
    out, top, total = state
    block_out, block_top, block_total = block
    new_top = torch.maximum(top, block_top)
    old_share = total * torch.exp(top - new_top)
    new_share = block_total * torch.exp(block_top - new_top)
    new_total = old_share + new_share
    out.mul_(old_share.div_(new_total)).add_(block_out.mul_(new_share.div_(new_total)))
    top.copy_(new_top)
    total.copy_(new_total)


def sink(state: State, sinks: torch.Tensor) -> torch.Tensor:
    """The averages once a score without a value, float32 [kv_heads, n, 1], has taken its share; in place."""
    out, top, total = state
    new_top = torch.maximum(top, sinks)
    share = total * torch.exp(top - new_top)
    return out.mul_(share / (share + torch.exp(sinks - new_top)))
