"""Attention by kernels beside torch's own over the same numbers: answers, prompts, caches of codes, shared prefixes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from gpu_bench import Bench, Roof, Row, Work

from evalcard_engine.attention import torch_ref, triton
from evalcard_engine.batch import Batch, Span
from evalcard_engine.cache.kv_codes import KVCodes
from evalcard_engine.cache.pool import KVPool, KVShape

HEADS, KV_HEADS, SIZE = 32, 8, 128  # an 8B model's
ALLOWED = 2**-6
"""Of the greatest number: bfloat16 rounds weights and results once each."""


@dataclass
class Case:
    """Sequences of one length; ``shared_len`` tokens at their start are the same pages."""

    name: str
    sequences: int
    context_len: int
    query_len: int
    codes: KVCodes | None = None
    shared_len: int = 0
    page_size: int = 256

    @property
    def end_len(self) -> int:
        return self.context_len + self.query_len


CASES = [
    *(Case("decode", count, 2047, 1) for count in (1, 16, 64, 256)),
    Case("decode pages 16", 64, 2047, 1, page_size=16),
    Case("decode fp8", 64, 2047, 1, KVCodes("fp8_e4m3", 0.01, 0.01)),
    Case("decode int8", 64, 2047, 1, KVCodes("int8")),
    Case("decode shared", 64, 2047, 1, shared_len=1792),
    Case("prefill", 4, 0, 2048),
    Case("prefill chunk", 2, 6144, 1024),
]
REHEARSED = [
    Case("decode", 2, 20, 1),
    Case("decode pages 16", 2, 20, 1, page_size=16),
    Case("decode fp8", 2, 20, 1, KVCodes("fp8_e4m3", 0.01, 0.01)),
    Case("decode int8", 2, 20, 1, KVCodes("int8")),
    Case("decode shared", 3, 260, 1, shared_len=256),
    Case("prefill", 1, 0, 19),
    Case("prefill chunk", 1, 17, 5),
]


def attention_rows(bench: Bench, roof: Roof) -> Iterator[Row]:
    """One row a case. Bytes are those of keys and values that must be read once and of queries and results; operations
    those of the keys that each query sees."""
    heads, kv_heads, size = (4, 2, 32) if bench.is_rehearsal else (HEADS, KV_HEADS, SIZE)
    for case in REHEARSED if bench.is_rehearsal else CASES:
        spans, num_pages = lay_out(case)
        codes = None if case.codes is None else [case.codes]
        pool = KVPool([KVShape(kv_heads, size, size)], num_pages, case.page_size, torch.bfloat16, bench.device, codes)
        _fill(bench, pool, num_pages)
        num_tokens = case.sequences * case.query_len
        query = bench.randn(num_tokens, heads, size)
        plan = triton.plan_step(spans, pool, heads, kv_heads, None)
        scale = size**-0.5

        def work(query=query, pool=pool, plan=plan, scale=scale) -> torch.Tensor:
            return triton.attend(query, pool, 0, plan, scale=scale)

        nothing = torch.zeros(num_tokens, dtype=torch.int64, device=bench.device)
        batch = Batch(nothing, nothing, nothing, nothing[:0], tuple(spans), case.page_size)
        expected = torch_ref.attend(query, pool, 0, batch, scale=scale)
        error = float((work().float() - expected).abs().max() / expected.abs().max())
        seen = case.query_len * (case.context_len + (case.query_len + 1) / 2)
        read = case.sequences * (case.end_len - case.shared_len) + case.shared_len
        token_bytes = pool.num_bytes / (num_pages * case.page_size)
        cost = Work(roof, "bf16", 4 * case.sequences * seen * heads * size,
                    read * token_bytes + 2 * query.nbytes)  # fmt: skip
        times = bench.ms(work), bench.ms(_own(case, spans, pool, query, scale))
        yield cost.row(case.name, case.sequences, "", times, error, ALLOWED)


def lay_out(case: Case) -> tuple[list[Span], int]:
    """Spans whose pages lie side by side but for the shared ones, which are the first sequence's; and all pages."""
    count, shared = -(-case.end_len // case.page_size), case.shared_len // case.page_size
    assert case.shared_len % case.page_size == 0, case
    spans = [
        Span(
            number * case.query_len,
            case.query_len,
            case.context_len,
            tuple(range(number * count, (number + 1) * count)),
        )
        for number in range(case.sequences)
    ]
    first = spans[0].pages[:shared]
    return [replace(span, pages=first + span.pages[shared:]) for span in spans], count * case.sequences


def _fill(bench: Bench, pool: KVPool, num_pages: int) -> None:
    """Random numbers, some pages at a time, so that making codes takes little memory."""
    kv_heads, size = pool.keys[0].shape[1], pool.keys[0].shape[3]
    for low in range(0, num_pages, 64):
        count = (min(low + 64, num_pages) - low) * pool.page_size
        slots = torch.arange(low * pool.page_size, low * pool.page_size + count, device=bench.device)
        pool.write(0, pool.slot_rows(slots), *(bench.randn(count, kv_heads, size) for _ in range(2)))


def _own(case: Case, spans: list[Span], pool: KVPool, query: torch.Tensor, scale: float):
    """torch's attention over keys and values that lie in memory as it likes them, as bfloat16."""
    pages = torch.tensor([span.pages for span in spans], device=query.device)

    def gathered(read) -> torch.Tensor:
        numbers = read(0, pages.flatten()).bfloat16().unflatten(0, pages.shape)
        return numbers.transpose(1, 2).flatten(2, 3)[:, :, : case.end_len].contiguous()

    keys, values = gathered(pool.read_keys), gathered(pool.read_values)
    rows = query.view(case.sequences, case.query_len, *query.shape[1:]).transpose(1, 2).contiguous()
    at = torch.arange(case.context_len, case.end_len, device=query.device)[:, None]
    is_whole = case.context_len == 0
    seen = None if is_whole or case.query_len == 1 else torch.arange(case.end_len, device=query.device) <= at
    return lambda: F.scaled_dot_product_attention(
        rows, keys, values, attn_mask=seen, is_causal=is_whole, scale=scale, enable_gqa=True
    )
