"""Every kernel on one GPU beside torch's own product: right numbers first, then time as a share of a measured roof.

    python engine/benchmarks/gpu_check.py --part kernels [--seconds 220] [--csv results/gpu_kernels.csv]
    python engine/benchmarks/gpu_check.py --part kernels --rehearse

The roof is measured in the same run: torch's large products in bf16, int8 and fp8, and a copy. A kernel cannot be
faster than the greater of its operations at the one and its bytes at the other; ``roof`` is that time over its own.
Exits with 1 where a kernel is wrong. ``--rehearse`` runs tiny shapes through Triton's interpreter on the CPU, which
shows that the script works and says nothing about speed.
"""

import argparse
import csv
import datetime
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

if "--rehearse" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is loaded

import torch
import torch.nn.functional as F
import triton

from evalcard_engine.kernels import dispatch, quantize_rows, rms_norm, rotary_cache, silu_mul
from evalcard_engine.quant.elements import ELEMENTS, code_dtype, pack_nibbles
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


@dataclass
class Row:
    """One line of the table; ``share`` is of the roof, ``torch_ms`` of torch's own way to the same result."""

    kernel: str
    rows: int
    mode: str
    ms: float
    rate: str
    share: float | None
    torch_ms: float
    error: float
    allowed: float

    @property
    def is_wrong(self) -> bool:
        return not self.error <= self.allowed


@dataclass
class Roof:
    """What this machine was seen to do: operations a second by dtype, bytes a second of a copy."""

    operations: dict[str, float]
    bytes_: float

    def seconds(self, dtype: str, operations: float, num_bytes: float) -> float | None:
        rate = self.operations.get(dtype)
        if rate is None or not self.bytes_:
            return None
        return max(operations / rate, num_bytes / self.bytes_)


class Bench:
    """Where things run and how they are timed."""

    def __init__(self, rehearse: bool) -> None:
        self.is_rehearsal = rehearse
        self.device = "cpu" if rehearse else "cuda"
        self.generator = torch.Generator(self.device).manual_seed(0)

    def ms(self, work: Callable[[], Any]) -> float:
        """Median milliseconds; on a GPU with its cache cleared before each call."""
        if not self.is_rehearsal:
            return float(triton.testing.do_bench(work, warmup=20, rep=80, return_mode="median"))
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
        return 1000 * statistics.median(seconds)

    def randn(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator, device=self.device).bfloat16()

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=self.generator, device=self.device)


def measured_roof(bench: Bench) -> Roof:
    """Large products, and a copy of 1 GiB; empty in a rehearsal."""
    if bench.is_rehearsal:
        return Roof({}, 0.0)
    side = 8192
    left, right = bench.randn(side, side), bench.randn(side, side)
    whole = {"bf16": lambda: left @ right.t()}
    codes = [part.clamp(-5, 5).to(torch.int8) for part in (left, right)]
    whole["int8"] = lambda: torch._int_mm(codes[0], codes[1].t())
    if torch.cuda.get_device_capability() >= (8, 9):
        small = [part.to(torch.float8_e4m3fn) for part in (left, right)]
        one = torch.ones((), device="cuda")
        whole["fp8"] = lambda: torch._scaled_mm(small[0], small[1].t(), one, one, out_dtype=torch.bfloat16)
    operations = {name: 2 * side**3 / bench.ms(work) * 1000 for name, work in whole.items()}
    source, target = (torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    return Roof(operations, 2 * source.numel() / bench.ms(lambda: target.copy_(source)) * 1000)


def make_weight(bench: Bench, out: int, width: int, element: str, group: int, **how: Any) -> QuantizedWeight:
    """Random codes with scales that keep values near one."""
    kind, size = ELEMENTS[element], min(group or width, width)
    shape = (-(-out // how.get("row_block", 1)), -(-width // size))
    if kind.storage == "nibbles":
        codes = pack_nibbles(bench.integers(0, 16, out, width).to(torch.uint8))
    elif kind.is_integer:
        codes = bench.integers(-128, 128, out, width).to(torch.int8)
    else:
        codes = (bench.randn(out, width) * 60).clamp(-448, 448).to(code_dtype(kind))
    index = torch.arange(width, device=bench.device) // size
    order = torch.randperm(width, generator=bench.generator, device=bench.device)
    return QuantizedWeight(
        codes=codes,
        element=kind,
        scales=(bench.randn(*shape).abs() + 0.5) / (100 if kind.bits == 8 else 6),
        group_size=size,
        in_features=width,
        zero_points=bench.integers(-8, 8, *shape).to(torch.int8) if how.get("zeros") else None,
        group_index=index[order] if how.get("order") else None,
        codebook=torch.linspace(-1, 1, 16, device=bench.device) if element == "codebook4" else None,
        row_block=how.get("row_block", 1),
        activations=how.get("activations"),
    )


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
            torch_ms = bench.ms(torch_product(weight, x))
            for exact in (True,) if dtype == "int8" else (True, False):
                found = dispatch.linear(x, prepared, None, exact=exact)
                assert found is not None, name
                error = float((found.float() - expected).abs().max() / expected.abs().max())
                ms = bench.ms(lambda x=x, exact=exact, held=prepared: dispatch.linear(x, held, None, exact=exact))
                moved = weight.num_bytes + 2 * (x.numel() + found.numel())
                operations = 2 * count * out * width
                best = roof.seconds(dtype, operations, moved)
                share = None if best is None else 1000 * best / ms
                is_wide = best is not None and operations / roof.operations[dtype] >= best
                rate = f"{operations / ms / 1e9:.1f} TFLOP/s" if is_wide else f"{moved / ms / 1e6:.1f} GB/s"
                yield Row(name, count, "exact" if exact else "free", ms, rate, share, torch_ms, error, 2**-7)


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
            ms = bench.ms(case.work)
            share = case.num_bytes / roof.bytes_ * 1000 / ms if roof.bytes_ else None
            rate = f"{case.num_bytes / ms / 1e6:.1f} GB/s"
            yield Row(case.name, count, "", ms, rate, share, bench.ms(case.own), error, case.allowed)


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
    print(f"{'kernel':14} {'rows':>5} {'mode':5} {'ms':>9} {'rate':>16} {'roof':>5} {'torch ms':>9} {'error':>9}")
    for row in chain(small_rows(bench, roof), linear_rows(bench, roof)):
        rows.append(row)
        share = "-" if row.share is None else f"{row.share:.0%}"
        print(f"{row.kernel:14} {row.rows:5} {row.mode:5} {row.ms:9.4f} {row.rate:>16} {share:>5} "
              f"{row.torch_ms:9.4f} {row.error:9.1e}{'  WRONG' if row.is_wrong else ''}", flush=True)  # fmt: skip
        if time.monotonic() > deadline:
            print(f"stopped by --seconds after {row.kernel}, {row.rows} rows; what follows was not run")
            break
    return rows, faults + [f"{row.kernel}, {row.rows} rows: error {row.error:.1e}" for row in rows if row.is_wrong]


PARTS = {"kernels": kernels}


def append_csv(path: Path, rows: list[Row], bench: Bench) -> None:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    machine = platform.machine() if bench.is_rehearsal else torch.cuda.get_device_name()
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ")
    common = {"date": date, "commit": commit, "machine": machine, "torch": torch.__version__,
              "triton": triton.__version__}  # fmt: skip
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [*common, *Row.__dataclass_fields__], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(common | asdict(row) for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=sorted(PARTS), required=True)
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes in the interpreter, without a GPU")
    parser.add_argument("--seconds", type=float, default=220, help="no case is begun later than this")
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    args = parser.parse_args()
    if not args.rehearse and not torch.cuda.is_available():
        raise SystemExit("no CUDA device here; --rehearse shows that the script works without one")
    bench = Bench(args.rehearse)
    rows, faults = PARTS[args.part](bench, time.monotonic() + args.seconds)
    if args.csv:
        append_csv(args.csv, rows, bench)
    print("\n".join(faults) or f"{len(rows)} cases, every one right; exact mode keeps rows apart")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
