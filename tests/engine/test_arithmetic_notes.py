"""What a numerics string says of quantized linears and of kernels."""

from types import SimpleNamespace

import pytest
import torch

from evalcard_engine import numerics
from evalcard_engine.arithmetic_notes import kernel_notes, linear_notes
from evalcard_engine.kernels import dispatch
from evalcard_engine.quant.linear import LINEARS_VERSION
from evalcard_engine.quant.scheme import parse_scheme

PLAIN, COMPRESSED = SimpleNamespace(schemes={}), SimpleNamespace(schemes={"model.layers.0.mlp.up_proj": "w4a16"})
HOOKED = ("norms", "gates")


@pytest.fixture(autouse=True)
def versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "versions", lambda: "gpu7 (triton 9)")


def test_plain_weights_have_kernels_only_between_their_linears() -> None:
    assert kernel_notes(HOOKED, None, PLAIN) == "gpu7 (triton 9) for attention, norms, gates"
    assert kernel_notes((), None, PLAIN) == "gpu7 (triton 9) for attention" and linear_notes(None, PLAIN, True) == ()


@pytest.mark.parametrize("scheme", ["w4a16", "w8a8", "sparse24+fp8", "sparse24+head=w8"])
def test_a_scheme_that_makes_codes_is_run_by_kernels(scheme: str) -> None:
    parsed = parse_scheme(scheme)
    assert linear_notes(parsed, PLAIN, True) == (f"{parsed.name} by kernels",)
    assert kernel_notes((), parsed, PLAIN) == "gpu7 (triton 9) for attention, quantized linears in exact tiles"
    assert linear_notes(parsed, PLAIN, False) != linear_notes(parsed, PLAIN, True)


def test_sparsity_alone_leaves_the_linears_to_torch() -> None:
    scheme = parse_scheme("sparse24")
    assert linear_notes(scheme, PLAIN, True) == linear_notes(scheme, PLAIN, False) == ("sparse24 as dequantized",)
    assert kernel_notes(HOOKED, scheme, PLAIN) == "gpu7 (triton 9) for attention, norms, gates"


def test_a_compressed_checkpoint() -> None:
    assert linear_notes(None, COMPRESSED, False) == (f"quantized linears {LINEARS_VERSION}",)
    assert linear_notes(None, COMPRESSED, True) == ()
    assert kernel_notes(HOOKED, None, COMPRESSED).endswith("attention, norms, gates, quantized linears in exact tiles")
    assert linear_notes(parse_scheme("kv=fp8"), COMPRESSED, True) == ()


def test_a_gpu_says_whose_kernels_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA Z")
    plain = numerics.describe("cuda", torch.float16, (), "note")
    ours = numerics.describe("cuda", torch.float16, (), "note", kernels="gpu7 for all")
    assert plain.endswith("NVIDIA Z; kernels torch; rows inexact; note")
    assert ours.endswith("NVIDIA Z; kernels gpu7 for all; rows inexact; note")
