"""Keys and values as codes: each number by the format's definition, one after the other, and by the field's library."""

import math

import pytest
import torch

from evalcard_engine.cache.kv_codes import KVCodes, decode, encode

BAD = (math.nan, math.inf, -math.inf)


def e4m3(code: int) -> float:
    """A sign, four bits of exponent with bias 7, three of mantissa; no infinity, and NaN where all others are set."""
    sign = -1.0 if code & 0x80 else 1.0
    exponent, mantissa = code >> 3 & 15, code & 7
    if (exponent, mantissa) == (15, 7):
        return math.nan
    return sign * (mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))


NUMBERS = sorted({abs(e4m3(code)) for code in range(127)})


def nearest(value: float) -> float:
    """The nearest of e4m3's numbers; of two the one with the even code; at most 448."""
    size = min(abs(value), 448.0)
    best = min(range(len(NUMBERS)), key=lambda code: (abs(NUMBERS[code] - size), code % 2))
    return math.copysign(NUMBERS[best], value)


def samples(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7)) * 3


def read_back(values: torch.Tensor, element: str, scale: float | None) -> torch.Tensor:
    held = None if scale is None else torch.tensor([scale])
    codes, scales = encode(values, element, held)
    assert codes.dtype == (torch.int8 if element == "int8" else torch.float8_e4m3fn)
    found = scales if scales is not None else held
    assert found is not None
    return decode(codes, found)


@pytest.mark.parametrize("scale", [1.0, 0.0374, 3.5])
def test_every_code_of_fp8_is_its_number_by_either_way(scale: float) -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    expected = torch.tensor([e4m3(code) for code in range(256)]) * torch.tensor(scale)
    slow = decode(codes, torch.tensor([scale]), may_be_nan=True)
    assert torch.equal(slow.nan_to_num(1e9), expected.nan_to_num(1e9))
    numbers = torch.tensor([code for code in range(256) if code & 0x7F != 0x7F])
    fast = decode(codes[numbers], torch.tensor([scale]), may_be_nan=False)
    assert torch.equal(fast, expected[numbers])
    assert torch.equal(fast.signbit(), expected[numbers].signbit())


@pytest.mark.parametrize("scale", [1.0, 0.0374])
def test_fp8_is_the_nearest_number_times_the_scale(scale: float) -> None:
    # Ties between neighbours, subnormals, and what saturates.
    ties = torch.tensor([1.0625, 1.1875, -17.0, 2.0**-10, 3 * 2.0**-10, 447.0, 449.0, -1e30, 0.0]) * scale
    values = torch.cat((samples(400), ties))
    found = read_back(values[None], "fp8_e4m3", scale)[0]
    ratios = (values / torch.tensor(scale)).tolist()
    assert torch.equal(found, torch.tensor([nearest(ratio) for ratio in ratios]) * torch.tensor(scale))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_int8_has_a_scale_for_each_token_and_head(dtype: torch.dtype) -> None:
    values = samples(5, 3, 7).to(dtype)
    values[2, 1] = 0
    found = read_back(values, "int8", None)
    for token in range(5):
        for head in range(3):
            row = values[token, head].double()
            scale = torch.tensor(float(row.abs().max())) / 127
            codes = [round(value / float(scale)) if float(scale) else 0 for value in row.tolist()]
            assert max(map(abs, codes)) in (0, 127)
            assert torch.equal(found[token, head], torch.tensor(codes) * scale), (token, head)


def test_int8_with_the_layers_scale_uses_all_codes() -> None:
    values = torch.tensor([[-6.5, -6.4, -6.37, 6.4, 0.124, 0.126, 0.075, 0.125]])
    found = read_back(values, "int8", 0.05)
    assert torch.equal(found[0], torch.tensor([-128, -128, -127, 127, 2, 3, 2, 2]) * torch.tensor(0.05))


@pytest.mark.parametrize("kind", [("float", "fp8_e4m3"), ("int", "int8")])
@pytest.mark.parametrize("scale", [1.0, 0.0173])
def test_stored_scales_round_as_compressed_tensors_does(kind: tuple[str, str], scale: float) -> None:
    reason = "compressed-tensors is a test dependency; its fake quantization is what its checkpoints were made with"
    library = pytest.importorskip("compressed_tensors.quantization", reason=reason)
    args = library.QuantizationArgs(num_bits=8, type=kind[0], strategy="tensor", symmetric=True)
    values = samples(64, 2, 16)
    expected = library.fake_quantize(values, torch.tensor([scale]), torch.zeros(1), args)
    assert torch.equal(read_back(values, kind[1], scale), expected)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(("element", "scale"), [("fp8_e4m3", 1.0), ("int8", None), ("int8", 0.5)])
def test_what_is_not_finite_stays_visible_and_spoils_its_own_head_alone(
    bad: float, element: str, scale: float | None
) -> None:
    values = samples(3, 2, 4)
    clean = read_back(values, element, scale)
    values[1, 0, 2] = bad
    found = read_back(values, element, scale)
    assert bool(found[1, 0, 2].isnan())
    others = torch.ones(3, 2, dtype=torch.bool)
    others[1, 0] = False
    assert torch.equal(found[others], clean[others])


def test_codes_without_a_scale_are_a_mistake_of_ours() -> None:
    assert (KVCodes("int8").scale_bytes, KVCodes("fp8_e4m3", 1.0, 2.0).scale_bytes) == (4, 0)
    for wrong in (("fp8_e4m3", None, None), ("fp8_e4m3", 1.0, None), ("int8", 0.0, 1.0), ("int8", 1.0, math.nan)):
        with pytest.raises(AssertionError):
            KVCodes(*wrong)  # type: ignore[arg-type]
