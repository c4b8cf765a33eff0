"""Bytes in memory are counted from storages, not from what a scheme says of itself."""

import pytest
import torch
from torch import nn

from evalcard_engine.quant.held import held_bytes
from evalcard_engine.quant.linear import plain_linear, quantized_linear
from evalcard_engine.quant.quantize import quantize
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.quant.workspace import Workspace

OUT, WIDTH = 512, 768


@pytest.mark.parametrize(
    ("scheme", "most"),
    [("w4a16", 0.27), ("w4a16_asym", 0.28), ("nf4", 0.30), ("mxfp4a16", 0.28), ("nvfp4a16", 0.30), ("w8a16", 0.51),
     ("w8a16_fp8", 0.51), ("fp8", 0.51), ("w8a8", 0.51)],
)  # fmt: skip
def test_a_packed_linear_is_about_as_small_as_it_is_stored(scheme: str, most: float) -> None:
    matrix = torch.randn(OUT, WIDTH, generator=torch.Generator().manual_seed(0)).bfloat16()
    weight = quantize(matrix, parse_scheme(scheme))
    workspace = Workspace()
    packed = quantized_linear(weight, None, torch.float32, workspace=workspace)
    packed(torch.zeros(3, WIDTH))
    share = held_bytes(packed) / (2 * OUT * WIDTH)
    assert 0.9 * weight.stored_bytes / (2 * OUT * WIDTH) <= share <= most


def test_an_expanded_linear_is_counted_whole() -> None:
    linear = plain_linear(torch.randn(64, 32), torch.randn(64))
    assert held_bytes(linear) == 4 * (64 * 32 + 64)


def test_shared_storage_counts_once_and_a_view_counts_whole() -> None:
    big = torch.zeros(100)
    module = nn.Module()
    module.first, module.second = big[:3], {"part": [big[50:]]}
    assert held_bytes(module) == 400
    module.child = nn.Linear(4, 4, bias=False)
    assert held_bytes(module) == 464
