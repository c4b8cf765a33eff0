"""The last layer, computed only for the rows whose logits are asked for: of the others it owes keys and values alone.

A prompt of a thousand tokens is asked for the logits of one. Its other tokens are wanted in the last layer's cache, and
what attention, output product and MLP would make of them is read by nobody. So the layer runs twice: over all rows
until their keys and values are stored, and as a whole over the rows that count. Rows of a prepared model on the CPU do
not know their company, so no bit changes.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import nn

from evalcard_engine.attention.hook import STEP_ARGUMENT, Step, Stored
from evalcard_engine.batch import Batch, Span

LEAST_DROPPED = 48
"""Rows that must be left out of the last layer to be worth a second, smaller run of it."""


def last_rows(batch: Batch, least_dropped: int | None = None) -> tuple[torch.Tensor, Batch] | None:
    """The rows of ``batch`` that the last layer must compute, int64 [num_kept], and a batch of them alone.

    Of each sequence all tokens from the first on whose logits are asked for. None where that leaves out fewer than
    ``least_dropped`` rows (LEAST_DROPPED), or all: a step without any logits ends with its keys and values.
    """
    num_tokens = batch.token_ids.numel()
    if num_tokens - batch.logits_rows.numel() < (LEAST_DROPPED if least_dropped is None else least_dropped):
        return None
    asked = batch.logits_rows.tolist()
    rows: list[int] = []
    spans: list[Span] = []
    at = 0
    for span in batch.spans:
        stop = span.query_start + span.query_len
        if at == len(asked) or asked[at] >= stop:
            continue
        first = asked[at]
        while at < len(asked) and asked[at] < stop:
            at += 1
        context_len = span.context_len + first - span.query_start
        spans.append(replace(span, query_start=len(rows), query_len=stop - first, context_len=context_len))
        rows.extend(range(first, stop))
    if num_tokens - len(rows) < max(1, LEAST_DROPPED if least_dropped is None else least_dropped):
        return None
    kept = torch.tensor(rows, dtype=torch.int64, device=batch.token_ids.device)
    picked = {name: getattr(batch, name)[kept] for name in ("token_ids", "positions", "slots")}
    return kept, replace(batch, **picked, logits_rows=torch.searchsorted(kept, batch.logits_rows), spans=tuple(spans))


def compute_asked_rows_only(layer: nn.Module) -> None:
    """Let a model's last decoder layer leave out the rows that its step leaves out; without any it is as it was."""
    # Of the object, not of its class, which another engine in the process may use otherwise.
    vars(layer)["forward"] = MethodType(partial(_forward, whole=layer.forward), layer)


def _forward(self: nn.Module, hidden_states: torch.Tensor, *args: Any, whole: Callable[..., Any], **kwargs: Any) -> Any:
    """hidden_states [1, num_tokens, hidden]; the rows left out come back as zeros. ``whole``: the layer's forward."""
    step = kwargs[STEP_ARGUMENT]
    assert isinstance(step, Step), type(step)
    if step.last is None:
        return whole(hidden_states, *args, **kwargs)
    num_tokens, rows = hidden_states.shape[1], step.last.rows
    with suppress(Stored):
        whole(hidden_states, *args, **{**kwargs, STEP_ARGUMENT: replace(step, is_store_only=True)})
        raise AssertionError(f"{type(self).__name__} came to its end without attention")
    if not rows.numel():
        return torch.zeros_like(hidden_states)
    given = {name: _pick(value, rows, num_tokens) for name, value in kwargs.items()}
    positional = [_pick(value, rows, num_tokens) for value in args]
    made = whole(hidden_states[:, rows], *positional, **{**given, STEP_ARGUMENT: step.last.step})
    return _spread(made, rows, hidden_states)


def _pick(value: Any, rows: torch.Tensor, num_tokens: int) -> Any:
    """``rows`` of whatever holds something for each token: [1, num_tokens, ...], or tuples and mappings of such."""
    if isinstance(value, torch.Tensor):
        return value[:, rows] if value.dim() > 1 and value.shape[1] == num_tokens else value
    if isinstance(value, tuple):
        return tuple(_pick(each, rows, num_tokens) for each in value)
    if isinstance(value, Mapping):
        return {name: _pick(each, rows, num_tokens) for name, each in value.items()}
    return value


def _spread(made: Any, rows: torch.Tensor, like: torch.Tensor) -> Any:
    """A layer's output, or the first of several, put back at its rows."""
    if isinstance(made, tuple):
        return (_spread(made[0], rows, like), *made[1:])
    return torch.zeros_like(like).index_copy_(1, rows, made)
