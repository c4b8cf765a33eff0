"""The plain reference against torch's own attention, where the two can be compared."""

import pytest
import torch

from evalcard_engine.attention import torch_ref
from evalcard_engine.batch import Batch, Span
from evalcard_engine.cache.pool import KVPool, KVShape


@pytest.mark.parametrize("window", [None, 1, 5])
def test_equals_scaled_dot_product_attention(window: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    pool = KVPool([KVShape(2, 8, 6)], 5, 4, torch.float64, "cpu")
    keys = torch.randn(2, 14, 8, dtype=torch.float64, generator=generator)
    values = torch.randn(2, 14, 6, dtype=torch.float64, generator=generator)
    query = torch.randn(5, 6, 8, dtype=torch.float64, generator=generator)
    span = Span(0, 5, 9, (3, 0, 4, 1))
    slots = torch.tensor([span.pages[p // 4] * 4 + p % 4 for p in range(14)])
    pool.write(0, pool.slot_rows(slots), keys.transpose(0, 1), values.transpose(0, 1))
    zeros = torch.zeros(5, dtype=torch.int64)
    batch = Batch(zeros, zeros, zeros, zeros[:0], (span,), 4)
    found = torch_ref.attend(query, pool, 0, batch, scale=0.3, window=window, dtype=torch.float64)
    hidden = torch_ref.hidden_from(span, window, query.device)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(0, 1),
        keys.repeat_interleave(3, dim=0),
        values.repeat_interleave(3, dim=0),
        attn_mask=~hidden,
        scale=0.3,
    ).transpose(0, 1)
    torch.testing.assert_close(found, expected)


def test_a_token_sees_itself_and_what_came_before_within_the_window() -> None:
    span = Span(0, 2, 3, (0,))
    assert torch_ref.hidden_from(span, None, torch.device("cpu")).tolist() == [[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]
    assert torch_ref.hidden_from(span, 2, torch.device("cpu")).tolist() == [[1, 1, 0, 0, 1], [1, 1, 1, 0, 0]]
