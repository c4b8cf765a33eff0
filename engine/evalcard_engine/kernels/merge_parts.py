"""Attention over several stretches of keys made one by log-sum-exp, in the order of the stretches."""

import torch
import triton
import triton.language as tl

from evalcard_engine.kernels.launch import is_interpreted, launch
from evalcard_engine.kernels.rounding import narrow


@triton.jit
def _merge_parts_kernel(
    parts, part_tops, tokens, starts, order, out, heads, size, BLOCK: tl.constexpr, INTERPRETED: tl.constexpr
):
    """out[tokens[i], h] = sum over parts p = order[starts[i]], ..., order[starts[i + 1] - 1] of
    parts[p, h] 2^(part_tops[p, h] - T), T = log2 of the sum of the 2^part_tops[p, h]. 0 where every top is -inf; as it
    was where there are no parts."""
    number = tl.program_id(0)
    head = tl.program_id(1)
    columns = tl.arange(0, BLOCK)
    mask = columns < size
    top = tl.full((1,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((1,), dtype=tl.float32)
    mean = tl.zeros((BLOCK,), dtype=tl.float32)
    first = tl.load(starts + number)
    stop = tl.load(starts + number + 1)
    for place in range(first, stop):
        line = tl.load(order + place).to(tl.int64) * heads + head
        here = tl.load(part_tops + line + tl.zeros((1,), dtype=tl.int32))
        new_top = tl.maximum(top, here)
        level = tl.where(new_top == float("-inf"), 0.0, new_top)
        old_share = tl.exp2(top - level)
        new_share = tl.exp2(here - level)
        mean = mean * old_share + tl.load(parts + line * size + columns, mask=mask, other=0.0) * new_share
        total = total * old_share + new_share
        top = new_top
    mean = mean / tl.where(total == 0.0, 1.0, total)
    line = tl.load(tokens + number).to(tl.int64) * heads + head
    tl.store(out + line * size + columns, narrow(mean, out.dtype.element_ty, INTERPRETED), mask=mask & (first < stop))


def merge_parts(
    parts: torch.Tensor,
    part_tops: torch.Tensor,
    tokens: torch.Tensor,
    starts: torch.Tensor,
    order: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Fill the rows ``tokens`` of out [num_tokens, heads, size], of any float dtype, from their parts.

    parts float32 [parts, heads, size] and part_tops float32 [parts, heads], in powers of two; tokens int32 [n], starts
    int32 [n + 1], order int32: the parts of tokens[i] are order[starts[i]], ..., in the order in which they are added.
    All contiguous. A token without parts may be any: its row is left alone.
    """
    heads, size = out.shape[1:]
    assert parts.dtype == part_tops.dtype == torch.float32, f"merge_parts: {parts.dtype}, {part_tops.dtype}"
    assert tuple(parts.shape) == (*part_tops.shape, size), f"merge_parts: parts {tuple(parts.shape)}"
    assert part_tops.shape[1] == heads, f"merge_parts: part_tops {tuple(part_tops.shape)}, {heads} heads"
    assert starts.shape[0] == tokens.shape[0] + 1, f"merge_parts: starts {tuple(starts.shape)}"
    for name, part in (("tokens", tokens), ("starts", starts), ("order", order)):
        assert part.dtype == torch.int32 and part.is_contiguous(), f"merge_parts: {name} is {part.dtype}"
    assert parts.is_contiguous() and part_tops.is_contiguous() and out.is_contiguous(), "merge_parts: strides"
    if tokens.shape[0] == 0:
        return
    arguments = {"parts": parts, "part_tops": part_tops, "tokens": tokens, "starts": starts, "order": order,
                 "out": out, "heads": heads, "size": size}  # fmt: skip
    constants = {"BLOCK": triton.next_power_of_2(size), "INTERPRETED": is_interpreted()}
    grid = (tokens.shape[0], heads)
    launch(_merge_parts_kernel, grid, arguments, constants, warps=1, stages=1, fp_fusion=True)


def merge_parts_reference(
    parts: torch.Tensor, part_tops: torch.Tensor, tokens: torch.Tensor, starts: torch.Tensor, order: torch.Tensor
) -> torch.Tensor:
    """float64 [n, heads, size]: the same by its definition, in one softmax over the tops of each token's parts."""
    merged = []
    for number in range(len(tokens)):
        picked = order[int(starts[number]) : int(starts[number + 1])].long()
        weights = torch.softmax(part_tops[picked].double() * torch.log(torch.tensor(2.0, dtype=torch.float64)), dim=0)
        merged.append((parts[picked].double() * weights.nan_to_num(0.0)[..., None]).sum(dim=0))
    return torch.stack(merged)
