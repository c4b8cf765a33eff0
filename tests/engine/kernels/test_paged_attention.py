"""The launcher: what it refuses, and one item by hand. Its numbers are tested by attention/test_triton.py."""

from typing import Any

import pytest
import torch

from evalcard_engine.cache.kv_codes import Stored
from evalcard_engine.kernels.launch import Tile
from evalcard_engine.kernels.paged_attention import Items, Rows, paged_attention, tiles_of


def index(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def call() -> dict[str, Any]:
    """One token at position 2 of a sequence on page 1, of two pages of four slots; one key head, two heads."""
    generator = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(2, 1, 4, size, generator=generator) for size in (6, 5))
    return {
        "query": torch.randn(1, 2, 6, generator=generator),
        "keys": Stored(keys),
        "values": Stored(values),
        "items": Items(index(0, 1, 0, 0, 0, 3, 0, 0, 1)[None], Tile(16, 16, 16, 4, 2)),
        "rows": Rows(index(0), index(0), index(2), index(1)),
        "out": torch.zeros(1, 2, 5),
        "parts": torch.zeros(1, 2, 5),
        "part_tops": torch.zeros(1, 2),
    }


def test_one_token_as_a_whole_and_as_a_part() -> None:
    given = call()
    paged_attention(**given, scale=0.5)
    scores = 0.5 * given["query"][0] @ given["keys"].data[1, 0, :3].t()
    expected = torch.softmax(scores, dim=-1) @ given["values"].data[1, 0, :3]
    torch.testing.assert_close(given["out"][0], expected)
    assert not given["parts"].any()
    given["items"].table[0, 7] = 1
    given["out"].zero_()
    paged_attention(**given, scale=0.5)
    assert not given["out"].any()
    torch.testing.assert_close(given["parts"][0], expected)
    torch.testing.assert_close(given["part_tops"][0], scores.exp().sum(-1).log2())


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("query", torch.zeros(1, 2, 6, dtype=torch.float64), "query is torch.float64"),
        ("query", torch.zeros(1, 3, 6).expand(1, 3, 6)[:, :, ::2], "strides"),
        ("query", torch.zeros(1, 2, 6, dtype=torch.bfloat16), "keys are torch.float32"),
        ("keys", Stored(torch.zeros(2, 1, 4, 7)), "keys"),
        ("keys", Stored(torch.zeros(2, 1, 4, 6, dtype=torch.int8)), "without the scales"),
        ("values", Stored(torch.zeros(2, 1, 4, 5), torch.ones(1)), "values of torch.float32"),
        ("out", torch.zeros(1, 2, 6), "out"),
        ("part_tops", torch.zeros(2, 2), "parts"),
        ("rows", Rows(index(0), index(0).long(), index(2), index(1)), "firsts is torch.int64"),
    ],
)  # fmt: skip
def test_a_bad_tensor_is_named(name: str, wrong: object, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        paged_attention(**(call() | {name: wrong}), scale=0.5)


def test_heads_that_are_too_large() -> None:
    with pytest.raises(AssertionError):
        tiles_of(torch.bfloat16, 257, 64, False, 90)
