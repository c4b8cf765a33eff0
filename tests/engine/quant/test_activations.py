"""Rounded activations against tables of every representable value, and against compressed-tensors' own emulation."""

import math

import pytest
import torch

from evalcard_engine.quant.activations import round_activations, to_fp4
from evalcard_engine.quant.floats import to_fp8
from evalcard_engine.quant.weight import Activations


def e4m3_values() -> list[float]:
    """All finite values from 0 up, by the format's definition: four bits of exponent (bias 7), three of mantissa."""
    small = [mantissa / 8 * 2.0**-6 for mantissa in range(8)]
    return small + [(1 + m / 8) * 2.0 ** (e - 7) for e in range(1, 16) for m in range(8) if (e, m) != (15, 7)]


E2M1_VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def nearest_even(value: float, table: list[float]) -> float:
    """The nearest value of the table; half-way the one of even index, whose mantissa is even."""
    size = min(abs(value), table[-1])
    best = min(range(len(table)), key=lambda index: (abs(table[index] - size), index % 2))
    return math.copysign(table[best], value)


def probes(table: list[float]) -> torch.Tensor:
    """Every value, every middle, and the floats next to both, with either sign."""
    points = torch.tensor(table + [(low + high) / 2 for low, high in zip(table, table[1:], strict=False)])
    points = torch.cat((points, torch.tensor([table[-1] * 1.1, 1e30])))
    around = [points, torch.nextafter(points, torch.tensor(torch.inf)), torch.nextafter(points, torch.tensor(0.0))]
    return torch.cat([torch.cat(around), -torch.cat(around)])


@pytest.mark.parametrize(("rounding", "table"), [(to_fp4, E2M1_VALUES), (to_fp8, e4m3_values())])
def test_rounding_takes_the_nearest_value_and_ties_to_even(rounding, table: list[float]) -> None:
    points = probes(table)
    expected = torch.tensor([nearest_even(value, table) for value in points.tolist()])
    found = rounding(points).float()
    assert torch.equal(found, expected), points[found != expected]
    assert bool(rounding(torch.tensor([torch.nan])).float().isnan())


def sample(rows: int = 40, width: int = 96) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(rows, width, generator=generator)
    x *= torch.logspace(-6, 4, rows)[:, None]
    x[4] = 0
    x[5, 7] = 60 * x[5].abs().max()  # one outlier
    x[6, :32] = 0
    return x


def library_says(x: torch.Tensor, scale: torch.Tensor | None = None, **settings) -> torch.Tensor:
    """compressed-tensors' emulation in float32: dynamic unless a scale is given; for nvfp4 the global scale."""
    quantization = pytest.importorskip("compressed_tensors.quantization", reason="the library that emulates schemes")
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize
    from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp

    args, x = quantization.QuantizationArgs(**settings), x[None]  # it takes the first two dimensions for tokens
    if args.dynamic is False:
        return fake_quantize(x, scale, torch.zeros(1), args)[0]
    scales, zeros = compute_dynamic_scales_and_zp(x, args, None, global_scale=scale)
    return fake_quantize(x, scales, zeros.float(), args, global_scale=scale)[0]


GROUP_FP8 = {"num_bits": 8, "type": "float", "strategy": "group", "dynamic": True}
AGAINST_THE_LIBRARY = {
    "fp8 by token": (Activations("fp8_e4m3", "token"), {**GROUP_FP8, "strategy": "token"}),
    "fp8 by group": (Activations("fp8_e4m3", "group", 48), {**GROUP_FP8, "group_size": 48}),
    "mxfp8": (
        Activations("fp8_e4m3", "group", 32, power_of_two=True),
        {**GROUP_FP8, "group_size": 32, "scale_dtype": torch.uint8},
    ),
    "mxfp4": (
        Activations("fp4_e2m1", "group", 32, power_of_two=True),
        {**GROUP_FP8, "num_bits": 4, "group_size": 32, "scale_dtype": torch.uint8},
    ),
}


@pytest.mark.parametrize("name", AGAINST_THE_LIBRARY)
def test_dynamic_scales_are_the_librarys(name: str) -> None:
    how, settings = AGAINST_THE_LIBRARY[name]
    x = sample()
    if how.per == "token":  # kernels bound the scale of a whole row from below, see the next test
        x = x[(x.abs().amax(dim=1) > 1 / 512) | (x == 0).all(dim=1)]
    assert torch.equal(round_activations(x, how), library_says(x, **settings))


def test_a_whole_row_of_tiny_values_gets_the_least_scale_of_vllms_kernels() -> None:
    least = 1 / (448 * 512)
    x = torch.tensor([[1e-4, -3e-5, 2e-6], [0.0, 0.0, 0.0]])
    steps = torch.tensor([nearest_even(value / least, e4m3_values()) for value in x.flatten().tolist()])
    found = round_activations(x, Activations("fp8_e4m3", "token"))
    torch.testing.assert_close(found, (steps * least).view(2, 3), rtol=1e-6, atol=0)


@pytest.mark.parametrize("top", [0.01, 3.0, 5000.0])
@pytest.mark.parametrize(("element", "kind"), [("int8", "int"), ("fp8_e4m3", "float")])
def test_given_scales_are_the_librarys(element: str, kind: str, top: float) -> None:
    x, scale = sample(), torch.tensor(top / 127)
    how = Activations(element, "tensor", None, scale)
    expected = library_says(x, scale, num_bits=8, type=kind, strategy="tensor")
    assert torch.equal(round_activations(x, how), expected)


@pytest.mark.parametrize("global_scale", [0.3, 40.0, 2688.0, 1e6])
def test_nvfp4_is_the_librarys(global_scale: float) -> None:
    x, scale = sample(), torch.tensor(global_scale)
    settings = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "dynamic": "local", "group_size": 16}
    expected = library_says(x, scale, scale_dtype=torch.float8_e4m3fn, **settings)
    assert torch.equal(round_activations(x, Activations("fp4_e2m1", "group", 16, scale)), expected)


def test_int8_by_token_divides_by_127_as_integer_kernels_do() -> None:
    x = sample()
    found = round_activations(x, Activations("int8", "token"))
    for row, values in zip(found.double(), x.double(), strict=True):
        scale = float(values.float().abs().max() / 127) or 1.0
        expected = torch.round(values.float() / scale).clamp(-127, 127).double() * scale
        torch.testing.assert_close(row, expected, rtol=1e-6, atol=0)
    # The library's own emulation divides by 127.5: near, and not the same.
    theirs = library_says(x, num_bits=8, type="int", strategy="token", dynamic=True)
    assert not torch.equal(found, theirs)
    torch.testing.assert_close(found, theirs, rtol=0, atol=float(x.abs().max()) / 100)


def test_mx_scales_count_up_from_a_mantissa_of_one_and_three_quarters() -> None:
    how = Activations("fp4_e2m1", "group", 32, power_of_two=True)
    x = torch.zeros(2, 32)
    x[0, :2] = torch.tensor([1.74, 0.3])  # scale 2^(0 - 2): 1.74 / 0.25 = 6.96 saturates at 6
    x[1, :2] = torch.tensor([1.75, 0.3])  # scale 2^(1 - 2): 1.75 / 0.5 = 3.5 ties to 4, 0.3 / 0.5 = 0.6 to 0.5
    assert round_activations(x, how)[:, :2].tolist() == [[1.5, 0.25], [2.0, 0.25]]


@pytest.mark.parametrize("bad", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize(
    "how",
    [
        Activations("int8", "token"),
        Activations("int8", "tensor", None, torch.tensor(0.1)),
        Activations("fp8_e4m3", "token"),
        Activations("fp8_e4m3", "tensor", None, torch.tensor(0.1)),
        Activations("fp8_e4m3", "group", 32, power_of_two=True),
        Activations("fp4_e2m1", "group", 32, power_of_two=True),
        Activations("fp4_e2m1", "group", 16, torch.tensor(50.0)),
    ],
    ids=lambda how: f"{how.element} by {how.per}" if isinstance(how, Activations) else str(how),
)
def test_what_is_not_finite_stays_so_and_spoils_no_other_row(how: Activations, bad: float) -> None:
    x = sample()
    clean = round_activations(x, how)
    x[9, 40] = bad
    found = round_activations(x, how)
    assert not torch.isfinite(found[9, 40])
    keep = torch.arange(len(x)) != 9
    assert torch.equal(found[keep], clean[keep])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [1, 31, 33, 97])
def test_a_last_group_may_be_short_and_any_float_may_come(dtype: torch.dtype, width: int) -> None:
    x = sample(width=128)[:10, :width].to(dtype)
    for how in (Activations("fp8_e4m3", "group", 32), Activations("fp4_e2m1", "group", 32, power_of_two=True)):
        found = round_activations(x, how)
        padded = torch.nn.functional.pad(x.float(), (0, 128 - width))
        assert found.dtype == torch.float32 and torch.equal(found, round_activations(padded, how)[:, :width])
