"""Cards, and what fits on them."""

from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.footprint.footprint import footprint_of
from evalcard.footprint.gpus import GIB, GPUS, Room, fit, parse_gpu
from evalcard.footprint.weights import scheme_of


def test_a_number_counts_gib():
    """ "80 GB" on a card is 80 GiB; who means 10^9 bytes says so."""
    assert parse_gpu("80").num_bytes == parse_gpu("80GiB").num_bytes == GPUS["a100-80"].num_bytes == 80 * GIB
    assert parse_gpu("80 GB").num_bytes == 80 * 10**9 and parse_gpu("79.5").num_bytes == 159 * GIB // 2
    assert parse_gpu("H100-80") is GPUS["h100-80"]
    assert 79 * GIB < GPUS["h100-80"].num_bytes < 80 * GIB and 140 * GIB < GPUS["h200"].num_bytes < 141 * GIB


@pytest.mark.parametrize("text", ["h100", "0", "-80", "nan", "inf", "80TB", "", "1e3", "9" * 30])
def test_other_cards_are_refused_by_name(text: str):
    with pytest.raises(UserError, match="a100-80, h100-80, h200, l40s, or the memory of one card"):
        parse_gpu(text)


def test_llama_3_70b_on_four_cards(published: dict[str, dict[str, Any]]):
    found = footprint_of(published["Meta-Llama-3-70B"])
    four = fit(found.weight_bytes(None), found.cache.num_bytes(32768), Room(parse_gpu("80"), 1.0), gpus=4)
    assert round(four.free_bytes / GIB, 1) == 188.6 and four.requests == 18


@pytest.mark.parametrize("gpu, share", [("80", 1.0), ("80GB", 1.0), ("h100-80", 0.9)])
def test_llama_4_scout_by_scheme(published: dict[str, dict[str, Any]], gpu: str, share: float):
    found = footprint_of(published["Llama-4-Scout"])
    request, room = found.cache.num_bytes(8192), Room(parse_gpu(gpu), share)
    sizes = [found.weight_bytes(scheme_of(name)) for name in ("bf16", "w8a8", "w4a16")]
    assert [fit(size, request, room).gpus for size in sizes] == [3, 2, 1]


def test_the_fewest_that_hold_so_many_requests():
    room = Room(parse_gpu("10"), 1.0)
    exact = fit(7 * GIB, GIB, room, requests=3)
    assert (exact.gpus, exact.requests, exact.free_bytes) == (1, 3, 3 * GIB)
    more = fit(7 * GIB, GIB, room, requests=4)
    assert (more.gpus, more.requests, more.free_bytes) == (2, 13, 13 * GIB)
    assert fit(7 * GIB + 1, GIB, room, requests=3).gpus == 2


def test_what_does_not_fit_holds_nothing():
    none = fit(21 * GIB, GIB, Room(parse_gpu("10"), 1.0), gpus=2)
    assert (none.gpus, none.requests, none.free_bytes) == (2, 0, -GIB)


def test_a_share_is_taken_of_each_card():
    assert Room(parse_gpu("80"), 0.9).num_bytes(3) == 3 * (80 * GIB * 9 // 10)
    with pytest.raises(AssertionError):
        Room(parse_gpu("80"), 0.0)
