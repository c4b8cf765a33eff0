"""Device roundings against torch's own, over every code and around every tie."""

import torch
import triton
import triton.language as tl

from evalcard_engine.kernels.rounding import decode_e2m1, decode_e4m3, decode_e5m2, encode_e4m3, narrow, round_half_even
from evalcard_engine.quant.elements import E2M1, FP4_E2M1
from evalcard_engine.quant.floats import to_fp8


@triton.jit
def _map(source, target, COUNT: tl.constexpr, WHAT: tl.constexpr):
    """target = f(source), f by its name."""
    places = tl.arange(0, COUNT)
    value = tl.load(source + places)
    if WHAT == "encode_e4m3":
        tl.store(target + places, encode_e4m3(value))
    elif WHAT == "decode_e4m3":
        tl.store(target + places, decode_e4m3(value))
    elif WHAT == "decode_e5m2":
        tl.store(target + places, decode_e5m2(value))
    elif WHAT == "decode_e2m1":
        tl.store(target + places, decode_e2m1(value))
    elif WHAT == "narrow":
        tl.store(target + places, narrow(value, tl.bfloat16, True))
    else:
        tl.store(target + places, round_half_even(value))


def mapped(what: str, source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    target = torch.empty(source.shape, dtype=dtype)
    count = triton.next_power_of_2(source.numel())
    padded = torch.nn.functional.pad(source, (0, count - source.numel()))
    wide = torch.empty(count, dtype=dtype)
    _map[(1,)](padded, wide, count, what)
    return target.copy_(wide[: source.numel()])


def around(values: torch.Tensor) -> torch.Tensor:
    """The values, the middles between them, and the float32 numbers on both sides of all of these; both signs."""
    values = values[torch.isfinite(values)].float().unique()
    points = torch.cat((values, (values[1:] + values[:-1]) / 2))
    inf = torch.full_like(points, torch.inf)
    near = torch.cat((points, torch.nextafter(points, inf), torch.nextafter(points, -inf)))
    return torch.cat((near, torch.tensor([1e4, -1e4, torch.inf, -torch.inf, torch.nan, 1e-30, -0.0])))


def test_every_e4m3_and_its_ties() -> None:
    every = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    values = every.view(torch.float8_e4m3fn).float()
    torch.testing.assert_close(
        mapped("decode_e4m3", every, torch.float16).float(), values, rtol=0, atol=0, equal_nan=True
    )
    points = around(values)
    expected = to_fp8(points)
    found = mapped("encode_e4m3", points, torch.uint8).view(torch.float8_e4m3fn)
    assert torch.equal(found.float().isnan(), points.isnan())
    kept = ~points.isnan()
    assert torch.equal(found.view(torch.uint8)[kept], expected.view(torch.uint8)[kept])


def test_every_e5m2_and_e2m1() -> None:
    every = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    values = every.view(torch.float8_e5m2).float()
    torch.testing.assert_close(
        mapped("decode_e5m2", every, torch.float16).float(), values, rtol=0, atol=0, equal_nan=True
    )
    assert FP4_E2M1.values is not None and len(FP4_E2M1.values) == 2 * len(E2M1)
    assert mapped("decode_e2m1", every[:16], torch.float16).tolist() == list(FP4_E2M1.values)


def test_bfloat16_by_bits() -> None:
    bits = torch.arange(0, 1 << 16, 37, dtype=torch.int32).to(torch.int16)
    points = around(bits.view(torch.bfloat16))
    points = points[points.abs() < 3e38]
    found = mapped("narrow", points, torch.bfloat16)
    assert torch.equal(found.view(torch.int16), points.to(torch.bfloat16).view(torch.int16))


def test_halves_go_to_the_even_integer() -> None:
    points = around(torch.arange(-130.0, 131.0))
    points = points[points.abs() < 1e3]
    assert torch.equal(mapped("round", points, torch.float32), torch.round(points))
