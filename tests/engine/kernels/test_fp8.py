"""fp8 products, of e4m3 as it is and widened to fp16, against float64."""

from collections.abc import Callable

import pytest
import torch

from evalcard_engine.kernels import fp8, launch
from evalcard_engine.kernels.quantize_rows import quantize_rows
from evalcard_engine.quant.weight import Activations

TOKEN = Activations("fp8_e4m3", "token")
BLOCK = Activations("fp8_e4m3", "group", 128)
STATIC = Activations("fp8_e4m3", "tensor", scale=torch.tensor(0.01))
SIZES = (1, 15, 16, 17, 127, 129)
DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def assert_close(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, width: int) -> None:
    """One rounding to dtype, and sums of ``width`` float32 terms, both against the greatest magnitude of a result."""
    allowed = torch.finfo(dtype).eps + width * 2.0**-24
    assert found.dtype == dtype and found.shape == expected.shape
    torch.testing.assert_close(found.double(), expected, rtol=allowed, atol=allowed * float(expected.abs().max()))


@pytest.fixture(params=[80, 89], ids=["widened", "native"])
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A GPU without fp8 products, and one with them."""
    monkeypatch.setattr(launch, "capability", lambda device: request.param)
    return request.param


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("out", SIZES)
def test_shapes_that_divide_nothing(
    rows: int, out: int, make_weight: Callable, make_rows: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Targets and ways of scaling take turns: token x channel, tensor x tensor, static, and blocks of 128 x 128."""
    turn = SIZES.index(rows) * len(SIZES) + SIZES.index(out)
    target = (80, 89)[(turn + turn // 6 + turn // 12) % 2]
    monkeypatch.setattr(launch, "capability", lambda device: target)
    width, dtype = (*SIZES, 300)[(turn + turn // 6) % 7], DTYPES[turn % 3]
    how = (TOKEN, TOKEN, STATIC, BLOCK)[(turn + turn // 6) % 4]
    row_block = (1, out, 1, 128)[(turn + turn // 6) % 4]
    weight = make_weight("fp8_e4m3", out, width, 128 if how is BLOCK else 0, row_block=row_block, activations=how)
    codes, scales = quantize_rows(make_rows(rows, width, dtype), how)
    bias = torch.randn(out) if turn % 2 else None
    found = fp8.fp8(codes, scales, weight, bias, dtype, exact=turn % 3 > 0)
    assert_close(found, fp8.fp8_reference(codes, scales, weight, bias), dtype, width)


@pytest.mark.parametrize("how", [TOKEN, BLOCK], ids=["token", "block"])
def test_splits(
    how: Activations, target: int, make_weight: Callable, make_rows: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "LEAST_SPLIT_LEN", 128)
    group, row_block = (128, 128) if how is BLOCK else (0, 1)
    weight = make_weight("fp8_e4m3", 150, 777, group, row_block=row_block, activations=how)
    codes, scales = quantize_rows(make_rows(9, 777, torch.float32), how)
    bias = torch.randn(150)
    assert launch.plan("fp8", 9, 150, 777, exact=True).num_parts > 2
    parts = fp8.fp8(codes, scales, weight, bias, torch.float32)
    assert_close(parts, fp8.fp8_reference(codes, scales, weight, bias), torch.float32, 777)
    real = fp8.plan

    def folded(*shape, **kwargs):
        made = real(*shape, **kwargs)
        return launch.Plan(made.tile, made.splits, made.split_len, True)

    monkeypatch.setattr(fp8, "plan", folded)
    assert torch.equal(fp8.fp8(codes, scales, weight, bias, torch.float32), parts)


def test_a_row_does_not_see_its_neighbours(make_weight: Callable, make_rows: Callable) -> None:
    weight = make_weight("fp8_e4m3", 40, 300, 128, row_block=128, activations=BLOCK)
    codes, scales = quantize_rows(make_rows(70, 300, torch.float32), BLOCK)
    whole = fp8.fp8(codes, scales, weight, None, torch.float32)
    for start, stop in ((0, 1), (5, 22), (69, 70)):
        few = fp8.fp8(codes[start:stop].contiguous(), scales[start:stop].contiguous(), weight, None, torch.float32)
        assert torch.equal(few, whole[start:stop])


def test_a_row_that_is_not_finite_shows(make_weight: Callable, make_rows: Callable) -> None:
    for how, group, row_block in ((TOKEN, 0, 1), (BLOCK, 128, 128), (STATIC, 0, 1)):
        weight = make_weight("fp8_e4m3", 20, 200, group, row_block=row_block, activations=how)
        x = make_rows(3, 200, torch.float32)
        x[1, 150] = torch.inf
        found = fp8.fp8(*quantize_rows(x, how), weight, None, torch.float32)
        assert found[1].isnan().all() and torch.isfinite(found[[0, 2]]).all()


@pytest.mark.parametrize(
    "how",
    [
        {"element": "int8"},
        {"element": "fp8_e5m2"},
        {"group": 32},
        {"group": 64, "activations": Activations("fp8_e4m3", "group", 64)},
        {"group": 128, "activations": Activations("fp8_e4m3", "group", 256)},
        {"offsets": True},
        {"activations": None},
        {"activations": BLOCK},
    ],
    ids=["int8", "e5m2", "groups", "small groups", "other groups", "offsets", "plain inputs", "channel x group"],
)
def test_what_it_does_not_serve(how: dict, make_weight: Callable) -> None:
    how = {"activations": TOKEN, "group": 0} | how
    assert not fp8.serves(make_weight(how.pop("element", "fp8_e4m3"), 8, 256, how.pop("group"), **how))
