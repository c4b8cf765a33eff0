"""MXFP4 experts against transformers' own conversion, and exponents against exact arithmetic."""

import math

import pytest
import torch

from evalcard_engine.checkpoint.mxfp4 import expert_weights, powers_of_two
from evalcard_engine.errors import EngineError


def packed(experts: int, rows: int, groups: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(experts)
    blocks = torch.randint(0, 256, (experts, rows, groups, 16), dtype=torch.uint8, generator=generator)
    return blocks, torch.randint(110, 140, (experts, rows, groups), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 2), (2, 17, 7)])
def test_experts_equal_transformers_conversion(shape: tuple[int, int, int]) -> None:
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    blocks, scales = packed(*shape)
    theirs = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)  # [experts, in, out]
    ours = expert_weights("experts.down_proj", blocks, scales)
    assert len(ours) == shape[0] and ours[0].num_bytes == blocks[0].nbytes + 4 * scales[0].numel()
    assert torch.equal(torch.stack([one.dequantize() for one in ours]), theirs.transpose(1, 2))


def test_one_value_by_hand() -> None:
    blocks = torch.zeros(1, 1, 1, 16, dtype=torch.uint8)
    blocks[0, 0, 0, 0] = 0xE7  # low nibble first: 6, then -4
    (found,) = expert_weights("e", blocks, torch.full((1, 1, 1), 128, dtype=torch.uint8))
    assert found.dequantize()[0, :3].tolist() == [12.0, -8.0, 0.0]


def test_every_exponent_is_exact() -> None:
    codes = torch.arange(255, dtype=torch.uint8)
    assert powers_of_two(codes).double().tolist() == [math.ldexp(1.0, code - 127) for code in range(255)]


def test_faults_are_named_together() -> None:
    blocks, scales = packed(2, 3, 4)
    with pytest.raises(EngineError, match=r"layer 3: scales hold 255"):
        expert_weights("layer 3", blocks, scales.index_fill(2, torch.tensor([1]), 255))
    with pytest.raises(EngineError) as caught:
        expert_weights("layer 3", blocks[..., :8], scales[:1])
    assert "blocks is uint8 [2, 3, 4, 8]" in str(caught.value) and "scales is uint8 [1, 3, 4]" in str(caught.value)
