"""Where GPU benchmarks run and how they are timed, the roof that the machine was seen to reach, and random weights."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton

from evalcard_engine.quant.elements import ELEMENTS, code_dtype, pack_nibbles
from evalcard_engine.quant.weight import QuantizedWeight


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


@dataclass
class Row:
    """One line of the table. ``torch`` is torch's own way to the same result; shares are of the roof, None without."""

    kernel: str
    rows: int
    mode: str
    ms: float
    rate: str
    share: float | None
    torch_ms: float
    torch_rate: str
    torch_share: float | None
    error: float
    allowed: float

    @property
    def is_wrong(self) -> bool:
        return not self.error <= self.allowed


@dataclass
class Work:
    """What a case costs at least, by which its times become rates."""

    roof: Roof
    dtype: str
    operations: float
    num_bytes: float

    def rated(self, ms: float) -> tuple[str, float | None]:
        """TFLOP/s where products bound the case, else GB/s; and the share of the roof."""
        best = self.roof.seconds(self.dtype, self.operations, self.num_bytes)
        share = None if best is None else 1000 * best / ms
        is_wide = best is not None and self.operations / self.roof.operations[self.dtype] >= best
        rate = f"{self.operations / ms / 1e9:.1f} TFLOP/s" if is_wide else f"{self.num_bytes / ms / 1e6:.1f} GB/s"
        return rate, share

    def row(self, kernel: str, rows: int, mode: str, times: tuple[float, float], error: float, allowed: float) -> Row:
        ms, torch_ms = times
        return Row(kernel, rows, mode, ms, *self.rated(ms), torch_ms, *self.rated(torch_ms), error, allowed)


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
