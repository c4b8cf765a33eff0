"""Linears that stay packed: the bits of expanded ones, whatever the rows beside, the threads and the tiles."""

import pytest
import torch

from evalcard_engine.arithmetic import exact_linear
from evalcard_engine.quant import packed_linear
from evalcard_engine.quant.elements import INT4, pack_integers
from evalcard_engine.quant.linear import RoundedLinear, quantized_linear
from evalcard_engine.quant.packed_linear import TILE_ROWS, TiledLinear, tile_rows, tiles_serve
from evalcard_engine.quant.quantize import quantize
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.quant.weight import QuantizedWeight
from evalcard_engine.quant.workspace import Workspace

SCHEMES = ["w4a16", "w4a16_asym-g32", "w8a16", "w8a16_fp8", "fp8", "fp8_block", "nf4", "mxfp4a16", "nvfp4a16"]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch):
    """Several tiles even of small weights, and no verdict of another test's tiles."""
    monkeypatch.setattr(packed_linear, "TILE_WEIGHTS", 64 * 96)
    tiles_serve.cache_clear()
    yield
    tiles_serve.cache_clear()


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def case(scheme: str, out: int = 200, width: int = 96) -> tuple[torch.Tensor, QuantizedWeight, torch.Tensor]:
    generator = torch.Generator().manual_seed(out)
    matrix = torch.randn(out, width, generator=generator).bfloat16()
    x = torch.randn(2, 40, width, generator=generator)
    return x, quantize(matrix, parse_scheme(scheme)), torch.randn(out, generator=generator)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_packed_equals_expanded_in_every_bit(scheme: str, dtype: torch.dtype) -> None:
    """float16 has no oneDNN product: there the weight is one tile."""
    x, weight, bias = case(scheme)
    x, bias = x.to(dtype), bias.to(dtype)
    for some in (None, bias):
        packed = quantized_linear(weight, some, dtype, workspace=Workspace())
        expanded = quantized_linear(weight, some, dtype)
        assert any(isinstance(one, TiledLinear) for one in packed.modules())
        assert not any(isinstance(one, TiledLinear) for one in expanded.modules())
        empty = () if weight.activations else (x[:, :0],)
        for part in (x, x[:, :1], x[:1, 3:10], *empty):
            assert torch.equal(packed(part), expanded(part)) and packed(part).dtype == dtype


@pytest.mark.parametrize(("out", "width"), [(1, 8), (7, 33), (64, 576), (129, 96), (130, 100), (1000, 64)])
def test_shapes_that_divide_nothing(out: int, width: int) -> None:
    x, weight, bias = case("w8a16", out, width)
    assert torch.equal(
        quantized_linear(weight, bias, torch.float32, workspace=Workspace())(x),
        quantized_linear(weight, bias, torch.float32)(x),
    )


@pytest.mark.parametrize("scheme", ["w4a16", "nf4", "fp8"])
def test_a_row_depends_on_neither_its_neighbours_nor_the_threads(scheme: str, threads) -> None:
    x, weight, bias = case(scheme, 320, 576)
    linear = quantized_linear(weight, bias, torch.float32, workspace=Workspace())
    rows = x.reshape(-1, x.shape[-1])
    whole = linear(rows)
    for start, stop in ((0, 1), (5, 7), (8, 41), (79, 80)):
        assert torch.equal(linear(rows[start:stop]), whole[start:stop])
    for count in (1, 3):
        threads(count)
        assert torch.equal(linear(rows), whole)


def test_where_tiles_round_otherwise_the_whole_weight_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which the product of a tile is not that of the whole: slower, and still the same bits."""
    true = exact_linear.linear

    def off(x, weight, bias):
        found = true(x, weight, bias)
        return found if weight.plain is not None or weight.packed.is_mkldnn else found + 1e-6

    monkeypatch.setattr(exact_linear, "linear", off)
    x, weight, bias = case("w4a16")
    assert not tiles_serve(200, 96, torch.float32)
    packed = TiledLinear(weight, bias, torch.float32, Workspace())
    assert torch.equal(packed(x), quantized_linear(weight, bias, torch.float32)(x))
    assert "tiles of 200" in repr(packed)


def test_tiles_are_used_where_they_serve() -> None:
    if not exact_linear.onednn_serves(torch.float32):
        pytest.skip("no exact oneDNN product on this machine")
    assert tiles_serve(200, 96, torch.float32)
    _, weight, bias = case("w4a16")
    workspace = Workspace()
    linear = TiledLinear(weight, bias, torch.float32, workspace)
    linear(torch.zeros(1, 96))
    assert workspace.num_bytes == 4 * TILE_ROWS * 96


@pytest.mark.parametrize("out", [1, 64, 65, 300, 576, 1536, 49152])
def test_tiles_are_few_and_even(out: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "TILE_WEIGHTS", 1 << 19)
    for width in (33, 576, 4096, 1 << 20):
        rows = tile_rows(out, width)
        assert rows % TILE_ROWS == 0 and (rows * width <= 1 << 19 or rows == TILE_ROWS)
        count = -(-out // rows)
        assert count * TILE_ROWS > rows - (out - (count - 1) * rows), "the last tile is about as large as the others"


def test_linears_of_a_model_share_one_buffer_without_mixing_up() -> None:
    workspace, cases = Workspace(), [case("w4a16"), case("nf4", 130, 160), case("w8a16", 64, 96)]
    linears = [quantized_linear(weight, bias, torch.float32, workspace=workspace) for _, weight, bias in cases]
    for _ in range(2):
        for linear, (x, weight, bias) in zip(linears, cases, strict=True):
            assert torch.equal(linear(x), quantized_linear(weight, bias, torch.float32)(x))


def test_the_weight_may_be_dropped_and_its_file_with_it() -> None:
    """Nothing of what a reader gave is kept: it may lie in a mapped file."""
    x, _, bias = case("w8a16", 16, 32)
    values = torch.randint(-8, 8, (16, 32), dtype=torch.int8, generator=torch.Generator().manual_seed(1))
    weight = QuantizedWeight(pack_integers(values), INT4, torch.rand(16, 2), 16, 32, torch.ones(16, 2))
    linear = TiledLinear(weight, None, torch.float32, Workspace())
    before = linear(x[..., :32])
    for part in (weight.codes, weight.scales, weight.zero_points):
        part.zero_()
    assert torch.equal(linear(x[..., :32]), before)


def test_an_input_that_is_not_finite_is_seen() -> None:
    x, weight, bias = case("fp8")
    x[0, 1, 3] = torch.inf
    linear = quantized_linear(weight, bias, torch.float32, workspace=Workspace())
    assert isinstance(linear, RoundedLinear)
    out = linear(x)
    assert out[0, 1].isnan().all() and torch.isfinite(out[0, 0]).all()
