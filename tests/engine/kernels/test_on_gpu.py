"""The kernels where they are meant to run: numbers against the CPU's definitions, rows that do not see each other."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="kernels need Triton, which has no build for this platform")

from evalcard_engine.batch import Batch, Span  # noqa: E402
from evalcard_engine.kernels import dispatch, fp8, int8  # noqa: E402
from evalcard_engine.kernels.quantize_rows import quantize_rows, quantize_rows_reference  # noqa: E402
from evalcard_engine.models import PreparedModel, open_model  # noqa: E402
from evalcard_engine.quant.activations import round_activations  # noqa: E402
from evalcard_engine.quant.kernel_linear import KernelLinear  # noqa: E402
from evalcard_engine.quant.scheme import parse_scheme  # noqa: E402
from evalcard_engine.quant.weight import Activations  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SCHEMES = {
    "w4a16": {"element": "int4", "group": 128, "zeros": True},
    "act-order": {"element": "int4", "group": 32, "order": True},
    "w8a16": {"element": "int8"},
    "nf4": {"element": "codebook4", "group": 64, "flat": True},
    "nvfp4": {"element": "fp4_e2m1", "group": 16},
    "fp8 weights": {"element": "fp8_e5m2"},
    "w8a8": {"element": "int8", "activations": Activations("int8", "token")},
    "fp8": {"element": "fp8_e4m3", "activations": Activations("fp8_e4m3", "token")},
    "fp8 blocks": {"element": "fp8_e4m3", "group": 128, "row_block": 128,
                   "activations": Activations("fp8_e4m3", "group", 128)},
}  # fmt: skip
DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def linear_of(make_weight: Callable, scheme: str, out: int, width: int):
    """The weight, and its linear on the GPU."""
    how = dict(SCHEMES[scheme])
    weight = make_weight(how.pop("element"), out, width, how.pop("group", 0), **how)
    prepared = dispatch.prepare(weight.to("cuda"))
    return weight, lambda x, **more: dispatch.linear(x.cuda(), prepared, None, **more)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "out", "width"), [(1, 129, 331), (17, 576, 1536), (130, 1000, 2049)])
@pytest.mark.parametrize("exact", [True, False])
def test_linears(
    scheme: str, dtype: torch.dtype, rows: int, out: int, width: int, exact: bool, make_weight: Callable, make_rows
) -> None:
    weight, linear = linear_of(make_weight, scheme, out, width)
    x = make_rows(rows, width, dtype)
    inputs = x.float() if weight.activations is None else round_activations(x, weight.activations)
    matrix = weight.dequantize()
    if not (int8.serves(weight) or fp8.serves(weight)):
        inputs, matrix = inputs.to(dtype), matrix.to(dtype)
    expected = inputs.double() @ matrix.double().t()
    # Hopper sums the terms of one fp8 tile in about 14 bits.
    allowed = torch.finfo(dtype).eps + width * 2.0**-24 + (2.0**-12 if fp8.serves(weight) else 0)
    found = linear(x, exact=exact).cpu().double()
    torch.testing.assert_close(found, expected, rtol=0, atol=allowed * float(expected.abs().max()))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_see_its_neighbours(scheme: str, dtype: torch.dtype, make_weight: Callable, make_rows) -> None:
    _, linear = linear_of(make_weight, scheme, 640, 2049)
    x = make_rows(3000, 2049, dtype)
    whole = linear(x)
    for start, stop in ((0, 1), (5, 22), (100, 165), (0, 2999)):
        assert torch.equal(linear(x[start:stop]), whole[start:stop])


def test_integers_and_roundings_are_those_of_the_cpu(make_weight: Callable, make_rows: Callable) -> None:
    token = Activations("int8", "token")
    weight = make_weight("int8", 200, 700, activations=token)
    x = make_rows(33, 700, torch.float32)
    for how in (token, Activations("fp8_e4m3", "token"), Activations("fp8_e4m3", "group", 128)):
        codes, scales = quantize_rows(x.cuda(), how)
        size = how.group_size or 700
        spread = scales.repeat_interleave(size, dim=1)[:, :700]
        assert torch.equal((codes.float() * spread).cpu(), quantize_rows_reference(x, how))
    codes, scales = quantize_rows(x.cuda(), token)
    found = int8.int8(codes, scales, replace(weight.to("cuda")), None, torch.float32)
    assert torch.equal(found.cpu(), int8.int8_reference(codes.cpu(), scales.cpu(), weight, None))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=61, hidden_size=128, intermediate_size=352, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                         initializer_range=0.1, attention_bias=True)  # fmt: skip
    folder = tmp_path_factory.mktemp("llama")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def model_logits(model: PreparedModel) -> torch.Tensor:
    """Of two prompts in one step: float32 [tokens, vocab] on the CPU."""
    device = model.info.device
    ids = torch.arange(3, 39, device=device)
    places = torch.cat((torch.arange(31), torch.arange(5))).to(device)
    slots = torch.cat((torch.arange(31), torch.arange(32, 37))).to(device)
    spans = (Span(0, 31, 0, (0, 1)), Span(31, 5, 0, (2,)))
    batch = Batch(ids, places, slots, torch.arange(36, device=device), spans, 16)
    return model.forward(batch, model.make_pool(3, 16)).cpu()


@pytest.mark.parametrize("scheme", [None, "w4a16-g32", "w4a16_asym-g32", "nf4", "nvfp4a16", "mxfp4a16", "w8a8", "fp8"])
def test_a_model_gives_the_logits_of_the_cpu(scheme: str | None, llama: Path) -> None:
    parsed = parse_scheme(scheme) if scheme else None
    models = [open_model(str(llama), dtype="float32", device=device, scheme=parsed) for device in ("cpu", "cuda")]
    assert any(isinstance(part, KernelLinear) for part in models[1]._module.modules()) == (scheme is not None)
    assert f"kernels {dispatch.versions()} for attention, norms, gates, rotary" in models[1].numerics
    expected, found = map(model_logits, models)
    # Where inputs are rounded, sums in another order decide now and then which way.
    is_rounded = parsed is not None and parsed.activations is not None
    allowed = 0.02 if is_rounded else 1e-4
    assert float((found - expected).abs().max()) <= allowed * float(expected.abs().max())
