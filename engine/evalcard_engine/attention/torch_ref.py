"""The plain definition of attention over a paged cache: one sequence at a time, dense scores, no blocks.

Tests hold the fast paths against it (in float64 if asked), and GPUs without Triton's kernels run on it.
"""

import torch

from evalcard_engine.attention.reach import Reach, first_seen
from evalcard_engine.batch import Batch, Span
from evalcard_engine.cache.pool import KVPool


def attend(
    query: torch.Tensor,
    pool: KVPool,
    layer: int,
    batch: Batch,
    *,
    scale: float,
    window: Reach = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """query [num_tokens, heads, key_size] -> [num_tokens, heads, value_size], computed and returned in ``dtype``.

    window: what tokens see of those before them. sinks [heads]: for each head one more score in the softmax, of no
    token, which takes its share of the weights (gpt-oss).
    """
    outputs = []
    for span in batch.spans:
        pages = torch.tensor(span.pages[: -(-span.end_len // batch.page_size)], device=query.device)
        keys = joined(pool.read_keys(layer, pages), span.end_len).to(dtype)
        values = joined(pool.read_values(layer, pages), span.end_len).to(dtype)
        rows = query[span.query_start : span.query_start + span.query_len].to(dtype)
        outputs.append(_dense(rows, keys, values, span, scale, window, softcap, sinks))
    return torch.cat(outputs)


def joined(pages: torch.Tensor, length: int) -> torch.Tensor:
    """A sequence's pages [n, kv_heads, page_size, size] one after the other: [kv_heads, length, size]."""
    return pages.transpose(0, 1).reshape(pages.shape[1], -1, pages.shape[3])[:, :length]


def hidden_from(span: Span, window: Reach, device: torch.device) -> torch.Tensor:
    """bool [query_len, end_len]: True where a token must not look (later tokens, and those out of reach)."""
    at = torch.arange(span.context_len, span.end_len, device=device)[:, None]
    keys = torch.arange(span.end_len, device=device)
    hidden = keys > at
    return hidden if window is None else hidden | (keys < first_seen(at, window))


def _dense(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    span: Span,
    scale: float,
    window: Reach,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """query [query_len, heads, key_size], keys and values [kv_heads, end_len, size] -> [query_len, heads, size]."""
    num_tokens, heads, _ = query.shape
    kv_heads = keys.shape[0]
    grouped = query.view(num_tokens, kv_heads, heads // kv_heads, -1)
    scores = torch.einsum("qhgd,hkd->qhgk", grouped, keys) * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    hidden = hidden_from(span, window, query.device)[:, None, None]
    scores = scores.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        column = sinks.to(scores.dtype).view(1, kv_heads, -1, 1).expand(num_tokens, -1, -1, 1)
        scores = torch.cat((scores, column), dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., : keys.shape[1]]
    return torch.einsum("qhgk,hkd->qhgd", weights, values).reshape(num_tokens, heads, -1)
