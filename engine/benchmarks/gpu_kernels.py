"""Every kernel: right numbers first, then its time beside torch's own, each as a rate and as a share of the roof."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from gpu_attention import attention_rows
from gpu_bench import Bench, Roof, Row, Work, make_weight, measured_roof

from evalcard_engine.kernels import dispatch, quantize_rows, rms_norm, rotary_cache, silu_mul
from evalcard_engine.quant.weight import Activations, QuantizedWeight

ROWS = (1, 16, 256, 4096)
OUT, WIDTH = 14336, 4096  # the gate of an 8B model's MLP
TOKEN_INT8, TOKEN_FP8 = Activations("int8", "token"), Activations("fp8_e4m3", "token")
BLOCK_FP8 = Activations("fp8_e4m3", "group", 128)
SCHEMES: dict[str, tuple[str, int, dict[str, Any]]] = {
    # name: element, group (0 is a channel), what else; the most used first, for the clock may stop the rest
    "w4a16": ("int4", 128, {}),
    "w8a8": ("int8", 0, {"activations": TOKEN_INT8}),
    "fp8": ("fp8_e4m3", 0, {"activations": TOKEN_FP8}),
    "fp8 blocks": ("fp8_e4m3", 128, {"activations": BLOCK_FP8, "row_block": 128}),
    "nf4": ("codebook4", 64, {}),
    "w4a16 zeros": ("int4", 128, {"zeros": True}),
    "mxfp4": ("fp4_e2m1", 32, {}),
    "w8a16": ("int8", 0, {}),
    "w4a16 order": ("int4", 128, {"order": True}),
    "fp8 weights": ("fp8_e4m3", 0, {}),
    "nvfp4": ("fp4_e2m1", 16, {}),
}


def torch_product(weight: QuantizedWeight, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    """torch's own: an int8 or fp8 product on inputs already rounded, else bf16 on the expanded weight."""
    acts = weight.activations
    if x.is_cuda and acts is not None and acts.per == "token" and x.shape[0] > 16:
        codes, scales = quantize_rows.quantize_rows(x, acts)
        columns = weight.scales.float().t().contiguous()
        if acts.element == "int8":
            return lambda: (torch._int_mm(codes, weight.codes.t()) * scales * columns).bfloat16()
        scaled = partial(torch._scaled_mm, codes, weight.codes.t(), scales, columns, out_dtype=torch.bfloat16)
        with suppress(RuntimeError, ValueError):  # scales by row exist on some GPUs
            scaled()
            return scaled
    plain = weight.dequantize().bfloat16()
    return lambda: F.linear(x, plain)


def linear_rows(bench: Bench, roof: Roof) -> Iterator[Row]:
    """Each scheme at each number of rows, exact and free to choose its tile."""
    out, width, counts = (48, 160, (1, 20)) if bench.is_rehearsal else (OUT, WIDTH, ROWS)
    for name, (element, group, how) in SCHEMES.items():
        weight = make_weight(bench, out, width, element, group, **how)
        prepared = dispatch.prepare(weight)
        acts = weight.activations
        dtype = "bf16" if acts is None else "int8" if acts.element == "int8" else "fp8"
        for count in counts:
            x = bench.randn(count, width)
            rounded = x.float() if acts is None else quantize_rows.quantize_rows_reference(x, acts)
            expected = rounded @ weight.dequantize().t()
            work = Work(roof, dtype, 2 * count * out * width, weight.num_bytes + 2 * count * (width + out))
            torch_ms = bench.ms(torch_product(weight, x))
            for exact in (True,) if dtype == "int8" else (True, False):
                found = dispatch.linear(x, prepared, None, exact=exact)
                assert found is not None, name
                error = float((found.float() - expected).abs().max() / expected.abs().max())
                ms = bench.ms(lambda x=x, exact=exact, held=prepared: dispatch.linear(x, held, None, exact=exact))
                yield work.row(name, count, "exact" if exact else "free", (ms, torch_ms), error, 2**-7)


@dataclass
class Small:
    """A kernel that moves bytes: what it found and what it should have, and two ways to do it for the clock."""

    name: str
    found: torch.Tensor
    expected: torch.Tensor
    allowed: float
    work: Callable[[], Any]
    own: Callable[[], Any]
    num_bytes: int
    """What must be read and written."""


def small_rows(bench: Bench, roof: Roof) -> Iterator[Row]:
    """Roundings, norms, gates, rotations."""
    counts, width = ((1, 5), 96) if bench.is_rehearsal else ((1, 256, 4096), 4096)
    for count in counts:
        x, other = bench.randn(count, width), bench.randn(count, width)
        for case in (*roundings(x), *elementwise(bench, x, other), rotation(bench, x)):
            error = float((case.found.float() - case.expected.float()).abs().max() / case.expected.float().abs().max())
            times = bench.ms(case.work), bench.ms(case.own)
            yield Work(roof, "bf16", 0, case.num_bytes).row(case.name, count, "", times, error, case.allowed)


def roundings(x: torch.Tensor) -> Iterator[Small]:
    width = x.shape[1]
    for label, how in (("int8", TOKEN_INT8), ("fp8", TOKEN_FP8), ("fp8 128", BLOCK_FP8)):
        codes, scales = quantize_rows.quantize_rows(x, how)
        found = codes.float() * scales.repeat_interleave(how.group_size or width, dim=1)[:, :width]
        own = partial(quantize_rows.quantize_rows_reference, x, how)
        yield Small(f"quantize {label}", found, own(), 0.0, partial(quantize_rows.quantize_rows, x, how), own,
                    3 * x.numel())  # fmt: skip


def elementwise(bench: Bench, x: torch.Tensor, other: torch.Tensor) -> Iterator[Small]:
    weight = bench.randn(x.shape[1])
    for name, work, own, moved in (
        ("rms_norm", partial(rms_norm.rms_norm, x, weight, 1e-6, other),
         partial(rms_norm.rms_norm_reference, x, weight, 1e-6, other), 4),
        ("silu_mul", partial(silu_mul.silu_mul, x, other), partial(silu_mul.silu_mul_reference, x, other), 3),
    ):  # fmt: skip
        found, expected = (made[0] if isinstance(made, tuple) else made for made in (work(), own()))
        yield Small(name, found, expected, 2**-6, work, own, 2 * moved * x.numel())


def rotation(bench: Bench, x: torch.Tensor) -> Small:
    count, size = x.shape[0], 128 if x.shape[1] % 128 == 0 else 16
    heads, table = x.view(count, -1, size), bench.randn(count, size)
    slots = torch.randperm(-(-count // 16) * 16, generator=bench.generator, device=x.device)[:count]
    pages = [torch.zeros(-(-count // 16), heads.shape[1], 16, size, dtype=x.dtype, device=x.device) for _ in range(4)]
    work = partial(rotary_cache.rotary_cache, heads, heads, heads, table, table, slots, *pages[:2])
    own = partial(rotary_cache.rotary_cache_reference, heads, heads, heads, table, table, slots, *pages[2:])
    found = torch.cat((work().flatten(), pages[0].flatten(), pages[1].flatten()))
    expected = torch.cat((own().flatten(), pages[2].flatten(), pages[3].flatten()))
    return Small("rotary_cache", found, expected, 0.0, work, own, 12 * x.numel())


def row_independence(bench: Bench) -> list[str]:
    """Exact mode: rows alone, in few and in many, compared to the bit; names those that differ."""
    out, width, many = (48, 160, 20) if bench.is_rehearsal else (OUT, WIDTH, 4096)
    faults = []
    for name in ("w4a16", "w8a8", "fp8", "fp8 blocks"):
        element, group, how = SCHEMES[name]
        prepared = dispatch.prepare(make_weight(bench, out, width, element, group, **how))
        x = bench.randn(many, width)
        whole = dispatch.linear(x, prepared, None)
        assert whole is not None
        parts = [(0, 1), (3, 19), (0, many // 2)]
        if not all(torch.equal(dispatch.linear(x[a:b], prepared, None), whole[a:b]) for a, b in parts):
            faults.append(f"{name}: rows depend on the rows beside them")
    return faults


def kernels(bench: Bench, deadline: float) -> tuple[list[Row], list[str]]:
    """Every case until the clock stops; the faults come in words."""
    roof = measured_roof(bench)
    for name, rate in roof.operations.items():
        print(f"roof, {name}: {rate / 1e12:.0f} TFLOP/s")
    print(f"roof, copy: {roof.bytes_ / 1e9:.0f} GB/s" if roof.bytes_ else "no roof: a rehearsal", flush=True)
    faults = row_independence(bench)
    rows = []
    print(f"{'kernel':14} {'rows':>5} {'mode':5} {'ms':>9} {'rate':>15} {'roof':>5} {'torch ms':>9} {'rate':>15} "
          f"{'roof':>5} {'error':>8}")  # fmt: skip
    for row in chain(small_rows(bench, roof), attention_rows(bench, roof), linear_rows(bench, roof)):
        rows.append(row)
        share, own = ("-" if part is None else f"{part:.0%}" for part in (row.share, row.torch_share))
        print(f"{row.kernel:14} {row.rows:5} {row.mode:5} {row.ms:9.4f} {row.rate:>15} {share:>5} {row.torch_ms:9.4f} "
              f"{row.torch_rate:>15} {own:>5} {row.error:8.1e}{'  WRONG' if row.is_wrong else ''}",
              flush=True)  # fmt: skip
        if time.monotonic() > deadline:
            print(f"stopped by --seconds after {row.kernel}, {row.rows} rows; what follows was not run")
            break
    return rows, faults + [f"{row.kernel}, {row.rows} rows: error {row.error:.1e}" for row in rows if row.is_wrong]
