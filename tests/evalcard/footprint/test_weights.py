"""Bytes of weights under schemes, against what the engine's quantizer and its exporter make."""

from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.footprint.footprint import footprint_of
from evalcard.footprint.parts import Part
from evalcard.footprint.weights import scheme_of, weight_bytes

GIB, GB = 2**30, 10**9


@pytest.mark.parametrize("name", ["w8a8", "w8a16-g64", "w4a16", "w4a16-g32", "w4a16-channel", "fp8", "fp8_block",
                                  "w8a16_fp8", "nf4", "nvfp4a16", "mxfp4a16", "sparse24+w4a16"])  # fmt: skip
@pytest.mark.parametrize("shape", [(6, 96), (200, 384), (130, 576)])
def test_a_matrix_takes_what_the_engine_counts(name: str, shape: tuple[int, int]):
    import torch

    from evalcard_engine.quant.quantize import quantize

    scheme = scheme_of(name)
    assert scheme is not None
    held = quantize(torch.randn(shape, dtype=torch.bfloat16), scheme)
    stored = held.stored_bytes
    if name == "nf4":
        assert held.codebook is not None
        stored -= held.codebook.nbytes  # a constant of the format
    beside = {"nvfp4a16": 4}.get(name, 0)  # the scale of scales
    assert weight_bytes([Part("mlp", *shape, is_linear=True)], scheme) == stored + beside


def test_zero_points_are_packed_as_checkpoints_store_them():
    import torch

    from evalcard_engine.checkpoint.ct_write import parts_of
    from evalcard_engine.quant.quantize import quantize

    scheme = scheme_of("w4a16_asym")
    assert scheme is not None
    weight = torch.randn(64, 384, dtype=torch.bfloat16)
    written = parts_of(quantize(weight, scheme), weight)
    stored = sum(part.nbytes for name, part in written.items() if name != "weight_shape")
    assert weight_bytes([Part("mlp", 64, 384, is_linear=True)], scheme) == stored


def test_what_stays_in_16_bits():
    parts = [Part("embedding", 10, 8), Part("router", 4, 8), Part("norms", 8), Part("vision", 8, 8)]
    plain = 2 * (80 + 32 + 8 + 64)
    assert weight_bytes(parts, scheme_of("w4a16")) == weight_bytes(parts, None) == plain
    linear = Part("attention", 8, 8, count=3, is_linear=True)
    assert weight_bytes([linear], scheme_of("kv=fp8")) == weight_bytes([linear], None) == 2 * 192
    assert weight_bytes([linear], scheme_of("w8a8")) == 3 * (64 + 16)
    assert weight_bytes([linear], scheme_of("w8a8"), kinds=("mlp",)) == 2 * 192


def test_a_compressed_head_stands_beside_a_tied_embedding(published: dict[str, dict[str, Any]]):
    tied = footprint_of(published["Llama-3.2-1B"])
    more = tied.weight_bytes(scheme_of("w8a8+head=w8")) - tied.weight_bytes(scheme_of("w8a8"))
    assert more == 128256 * 2048 + 2 * 128256
    untied = footprint_of({**published["Llama-3.2-1B"], "tie_word_embeddings": False})
    less = untied.weight_bytes(scheme_of("w8a8")) - untied.weight_bytes(scheme_of("w8a8+head=w8"))
    assert less == 128256 * 2048 - 2 * 128256


def test_llama_3_70b(published: dict[str, dict[str, Any]]):
    found = footprint_of(published["Meta-Llama-3-70B"])
    assert round(found.weight_bytes(None) / GB) == 141 and round(found.weight_bytes(None) / GIB, 1) == 131.4


def test_llama_4_scout(published: dict[str, dict[str, Any]]):
    """109 billion: about 220, 109 and 55 GB were every weight 16, 8 or 4 bits; scales and what stays in 16 bits come on
    top of the smaller ones."""
    found = footprint_of(published["Llama-4-Scout"])
    assert [round(found.num_parameters * bits / 8 / GB) for bits in (16, 8, 4)] == [217, 109, 54]
    sizes = [found.weight_bytes(scheme_of(name)) / GB for name in ("bf16", "w8a8", "w4a16")]
    assert sizes == pytest.approx([217.3, 111.6, 60.4], abs=0.05)


def test_gpt_oss_as_published(published: dict[str, dict[str, Any]]):
    """Its files hold 13.76 GB: experts in mxfp4, all else in 16 bits."""
    found = footprint_of(published["gpt-oss-20b"])
    assert found.weight_bytes(scheme_of("mxfp4a16"), ("experts",)) / GB == pytest.approx(13.76, abs=0.005)


def test_refusals():
    with pytest.raises(UserError, match="Did you mean w4a16.*bf16 is uncompressed"):
        scheme_of("w4a61")
    with pytest.raises(UserError, match=r"nvfp4a16 has no form for linears of 4300 columns.*Use w4a16"):
        weight_bytes([Part("mlp", 8, 4300, is_linear=True)], scheme_of("nvfp4a16"))
