"""The arithmetic that answers rest on: products whose rows do not depend on their neighbours, and the name of it all.

torch's plain CPU linear rounds a row differently with the number of rows beside it and with the thread count. Two
forms do not: oneDNN's linear on a weight packed ahead of time, given at least two rows, and MKL's batched product
with a multiple of eight rows. Every private operator is called here and nowhere else, and `self_test` checks the
claim on the machine at hand; where it fails, the numerics string says so instead of promising.
"""

import math
import platform
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import torch
import torch.nn.functional as F

KERNELS_VERSION = "cpu1"
"""Counts up when a change to the CPU kernels may change a bit of an answer; part of every journal key."""

ROW_TILE = 8
"""Rows of a batched product come in multiples of this; fewer, and MKL picks kernels that round differently."""

LEAST_PART = 64
"""Rows that are left of a batched product when it is cut, so that copies of its right side do not outweigh the gain."""

MIN_LINEAR_ROWS = 2
"""oneDNN multiplies a single row with another kernel than two or more."""

FALLBACK_ROWS = 32
"""Row tile of the linear that stands in where oneDNN is missing or fails the self-test."""

FALLBACK_COLUMNS = 16
"""Its widths are padded to multiples of this: with less, rows at the end of a tile are rounded differently."""

EXACT_WIDTH = 1024
"""Products of two bytes, summed over as many columns, that float32 holds exactly: 2^7 * 2^7 * 2^10 = 2^24."""


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """What a CPU feature set is given to do: committed here, never measured at start, so that answers can be keyed."""

    step_tokens: int
    """Tokens a step may hold, prompts and answers together."""
    bfloat16_arithmetic: torch.dtype
    """What a bf16 checkpoint is computed in when no dtype is asked for."""


CPU_PLANS: dict[str, CpuPlan] = {
    "amx": CpuPlan(2048, torch.float32),
    "avx512_bf16+vnni": CpuPlan(1024, torch.bfloat16),
    "avx512+vnni": CpuPlan(1024, torch.float32),
    "avx512": CpuPlan(1024, torch.float32),
    "avx2": CpuPlan(512, torch.float32),
    "base": CpuPlan(512, torch.float32),
}


@lru_cache(maxsize=1)
def cpu_features() -> str:
    """A short stable name of the instruction sets that decide which kernels run: a key of CPU_PLANS."""
    capability = torch.backends.cpu.get_cpu_capability()
    if "AVX512" not in capability:
        return "avx2" if "AVX2" in capability else "base"
    if _has("_is_amx_tile_supported"):
        return "amx"
    if _has("_is_avx512_bf16_supported"):
        return "avx512_bf16+vnni"
    return "avx512+vnni" if _has("_is_vnni_supported", "_is_avx512_vnni_supported") else "avx512"


def cpu_plan() -> CpuPlan:
    """The committed plan of this machine's feature set."""
    return CPU_PLANS[cpu_features()]


@lru_cache(maxsize=1)
def cpu_vendor() -> str:
    """``amd``, ``intel``, or the machine's architecture: MKL chooses kernels by vendor as well as by feature."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(errors="replace")[:4096] if cpuinfo.exists() else platform.processor()
    for name, word in (("amd", "AuthenticAMD"), ("intel", "GenuineIntel")):
        if word in text:
            return name
    return platform.machine().lower()


def _has(*names: str) -> bool:
    probes = [getattr(torch.cpu, name, None) for name in names]
    return any(probe() for probe in probes if probe is not None)


@dataclass(frozen=True, slots=True)
class PackedLinear:
    """A weight [out, in] laid out for `linear`; ``plain`` holds it, padded, where oneDNN does not serve."""

    out_features: int
    in_features: int
    packed: torch.Tensor | None
    plain: torch.Tensor | None


@cache
def onednn_serves(dtype: torch.dtype) -> bool:
    """Whether oneDNN-prepacked linears exist for ``dtype`` here and keep their rows apart."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    if dtype not in (torch.float32, torch.bfloat16):
        return False
    return not _linear_faults(dtype, _pack)


def pack_linear(weight: torch.Tensor) -> PackedLinear:
    """Lay out a CPU weight [out, in] for exact products; the caller may drop its own copy."""
    assert weight.dim() == 2 and weight.device.type == "cpu", (tuple(weight.shape), weight.device)
    return _pack(weight) if onednn_serves(weight.dtype) else _keep(weight)


def linear(x: torch.Tensor, weight: PackedLinear, bias: torch.Tensor | None) -> torch.Tensor:
    """x [..., in] times the packed weight plus bias: [..., out] in x's dtype.

    Each row of the result depends on its own row of x alone, to the last bit.
    """
    rows = x.reshape(-1, weight.in_features)
    num_rows = rows.shape[0]
    if weight.packed is None:
        out = _tiled_linear(rows, weight, bias)
    elif num_rows == 0:
        out = rows.new_empty(0, weight.out_features)
    else:
        if num_rows < MIN_LINEAR_ROWS:
            rows = F.pad(rows, (0, 0, 0, MIN_LINEAR_ROWS - num_rows))
        out = torch.ops.mkldnn._linear_pointwise(rows, weight.packed, bias, "none", [], "")[:num_rows]
    return out.reshape(*x.shape[:-1], weight.out_features)


def batched_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left [n, rows, k] @ right [n, k, m] -> contiguous [n, rows, m]; rows is a multiple of ROW_TILE.

    MKL gives each thread whole products of a batch, so where n does not divide among the threads each is cut by rows
    into as many as do. Written without ``out=``: a strided output takes torch off the batched MKL path, whose rounding
    is the one tested.
    """
    n, rows, _ = left.shape
    assert rows % ROW_TILE == 0, (tuple(left.shape), ROW_TILE)
    parts = _row_parts(n, rows, torch.get_num_threads())
    if parts == 1:
        return torch.bmm(left, right)
    left = left.unflatten(1, (parts, -1)).flatten(0, 1)
    return torch.bmm(left, right.repeat_interleave(parts, dim=0)).view(n, rows, right.shape[2])


def _row_parts(n: int, rows: int, threads: int) -> int:
    """Into how many each of n products is cut: 1 where they divide among the threads, or are too small to gain."""
    parts = threads // math.gcd(n, threads)
    is_worth_it = rows % (parts * ROW_TILE) == 0 and rows >= parts * LEAST_PART
    return parts if is_worth_it else 1


def int8_product(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """int8 [rows, k] @ int8 [k, out] -> int32 [rows, out], on the CPU into ``out``; exact as long as k < 2^17."""
    rows, width = left.shape
    assert width < 2**17, width
    if left.device.type == "cpu":
        if out is None:
            out = left.new_empty(rows, right.shape[1], dtype=torch.int32)
        if not rows:
            return out
        return torch._int_mm(left, right, out=out) if int8_serves() else out.copy_(_float_product(left, right))
    # CUDA's integer product wants more than 16 rows and multiples of 8.
    left = F.pad(left, (0, -width % 8, 0, max(32 - rows, -rows % 8)))
    columns = right.shape[1]
    right = F.pad(right, (0, -columns % 8, 0, -width % 8))
    return torch._int_mm(left, right)[:rows, :columns]


@cache
def int8_serves() -> bool:
    """Whether torch's integer product is exact here: without VNNI, kernels exist that saturate sums of two at 16 bits.

    Where it is not, `int8_product` takes another way to the same integers, so no name of the numerics depends on this.
    """
    generator = torch.Generator().manual_seed(0)
    for rows, width, out in ((1, 576, 192), (67, 33, 7), (64, 1536, 48)):
        left = torch.randint(-128, 128, (rows, width), dtype=torch.int8, generator=generator)
        right = torch.randint(-128, 128, (width, out), dtype=torch.int8, generator=generator)
        # Random sums stay small; a row and a column of the extremes do not.
        left[0], right[:, 0], right[:, 1] = -128, -128, 127
        # Weights come turned; a right side that lies as it is takes another kernel.
        for each in (right, right.t().contiguous().t()):
            if not torch.equal(torch._int_mm(left, each), _float_product(left, right)):
                return False
    return True


def _float_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The integer product by float32: exact in any order, since sums over EXACT_WIDTH columns stay within 2^24."""
    out = torch.zeros(left.shape[0], right.shape[1], dtype=torch.int32)
    for part, columns in zip(left.split(EXACT_WIDTH, dim=1), right.split(EXACT_WIDTH), strict=True):
        out += torch.mm(part.float(), columns.float()).to(torch.int32)
    return out


def _pack(weight: torch.Tensor) -> PackedLinear:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    return PackedLinear(weight.shape[0], weight.shape[1], packed, None)


def _keep(weight: torch.Tensor) -> PackedLinear:
    out, width = weight.shape
    padded = F.pad(weight, (0, -width % FALLBACK_COLUMNS, 0, -out % FALLBACK_COLUMNS)).contiguous()
    return PackedLinear(out, width, None, padded)


def _tiled_linear(rows: torch.Tensor, weight: PackedLinear, bias: torch.Tensor | None) -> torch.Tensor:
    """The slow stand-in: every product has the same FALLBACK_ROWS rows, the last one padded."""
    num_rows = rows.shape[0]
    assert weight.plain is not None, weight
    if num_rows == 0:
        return rows.new_empty(0, weight.out_features)
    padded = F.pad(rows, (0, -weight.in_features % FALLBACK_COLUMNS, 0, -num_rows % FALLBACK_ROWS))
    tiles = [F.linear(tile, weight.plain) for tile in padded.split(FALLBACK_ROWS)]
    out = torch.cat(tiles)[:num_rows, : weight.out_features]
    return out if bias is None else out + bias


@cache
def self_test(dtype: torch.dtype, kv_heads: int, head_sizes: tuple[int, int]) -> tuple[str, ...]:
    """What on this machine does *not* keep rows apart, in words; empty is the good answer. Takes about 0.1 s."""
    faults = [] if onednn_serves(dtype) else _linear_faults(dtype, _keep)
    return tuple(faults + _product_faults(kv_heads, head_sizes))


def _linear_faults(dtype: torch.dtype, pack) -> list[str]:
    """Rows computed alone, in small groups and by one thread, against the same rows in one large product."""
    generator = torch.Generator().manual_seed(0)
    for width, out in ((576, 192), (1536, 160), (33, 7)):
        weight = pack(torch.randn(out, width, generator=generator).to(dtype))
        x = torch.randn(67, width, generator=generator).to(dtype)
        whole = linear(x, weight, None)
        few = {rows: linear(x[3 : 3 + rows], weight, None) for rows in (1, 2, 7, 33)}
        if not all(torch.equal(part, whole[3 : 3 + rows]) for rows, part in few.items()):
            return [f"linear {dtype} {width}x{out}: rows depend on the row count"]
        if not torch.equal(_with_one_thread(lambda x=x, weight=weight: linear(x, weight, None)), whole):
            return [f"linear {dtype} {width}x{out}: rows depend on the thread count"]
    return []


def _product_faults(kv_heads: int, head_sizes: tuple[int, int]) -> list[str]:
    """The attention's two products at this model's shapes: row tiles, batches and one thread against one product."""
    generator = torch.Generator().manual_seed(0)
    for inner, outer, is_turned in ((head_sizes[0], 256, True), (256, head_sizes[1], False)):
        left = torch.randn(kv_heads, 144, inner, generator=generator)
        right = torch.randn(kv_heads, outer, inner, generator=generator).transpose(1, 2)
        right = right if is_turned else right.contiguous()
        whole = batched_product(left, right)
        few = {rows: batched_product(left[:, 8 : 8 + rows], right) for rows in (8, 16, 24, 64, 128)}
        if not all(torch.equal(part, whole[:, 8 : 8 + rows]) for rows, part in few.items()):
            return [f"product {inner}x{outer}: rows depend on the row count"]
        # MKL rounds rows of some narrow results (10 columns, but not 12) by their place in a tile.
        if not all(torch.equal(batched_product(left[:, at : at + 40], right), whole[:, at : at + 40]) for at in (3, 7)):
            return [f"product {inner}x{outer}: rows depend on their place in a tile"]
        if not torch.equal(batched_product(left[:1, 8:16], right[:1]), whole[:1, 8:16]):
            return [f"product {inner}x{outer}: rows depend on the batch"]
        if not torch.equal(_with_one_thread(lambda a=left, b=right: batched_product(a, b)), whole):
            return [f"product {inner}x{outer}: rows depend on the thread count"]
    return []


NARROW = (64, 128)
"""Keys of a block that attention may stop at, where the rest is hidden."""


@cache
def exact_widths(kv_heads: int, head_sizes: tuple[int, int]) -> tuple[int, ...]:
    """After how many of a block's 256 keys its products and softmax may stop without changing a bit, where all further
    ones weigh zero; ascending, 256 always among them. Takes about 0.01 s."""
    return (*(width for width in NARROW if not _narrow_faults(width, kv_heads, head_sizes)), 256)


def _narrow_faults(width: int, kv_heads: int, head_sizes: tuple[int, int]) -> bool:
    """Whether the attention of a block's first keys differs from that of a block whose other keys are hidden."""
    generator = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(kv_heads, 256, size, generator=generator) for size in head_sizes)
    for rows in (8, 48, 144, 384):
        query = torch.randn(kv_heads, rows, head_sizes[0], generator=generator)
        scores = batched_product(query, keys.transpose(1, 2))
        narrow = batched_product(query, keys[:, :width].transpose(1, 2))
        if not torch.equal(scores[..., :width], narrow):
            return True
        scores[..., width:] -= 1e30
        weights, few = torch.softmax(scores, -1), torch.softmax(narrow, -1)
        if not torch.equal(weights[..., :width], few):
            return True
        if not torch.equal(batched_product(weights, values), batched_product(few, values[:, :width])):
            return True
    return False


def routing_faults(num_experts: int, choices: int) -> tuple[str, ...]:
    """Likewise of what routers do with their scores, softmax and the choice of experts: rows alone and among others."""
    scores = torch.randn(67, num_experts, generator=torch.Generator().manual_seed(0))

    def routed(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        weights = torch.softmax(rows, dim=-1)
        best = torch.topk(weights, choices, dim=-1)
        return weights, *best, best.values / best.values.sum(dim=-1, keepdim=True)

    whole = routed(scores)
    for at, rows in ((0, 1), (3, 2), (5, 7), (9, 33)):
        parts = zip(routed(scores[at : at + rows]), whole, strict=True)
        if not all(torch.equal(part, all_rows[at : at + rows]) for part, all_rows in parts):
            return (f"routing to {num_experts} experts: rows depend on the row count",)
    return ()


def _with_one_thread(work):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return work()
    finally:
        torch.set_num_threads(threads)


def describe(device: str, dtype: torch.dtype, faults: tuple[str, ...], *notes: str, kernels: str = "") -> str:
    """The numerics string of a journal key: equal strings promise equal answers for equal tokens.

    kernels: whose kernels compute what, besides torch's.
    """
    parts = [str(dtype).removeprefix("torch."), f"torch {torch.__version__}"]
    if device == "cpu":
        linears = "onednn" if onednn_serves(dtype) else f"tiles of {FALLBACK_ROWS}"
        parts += [f"{cpu_vendor()} {cpu_features()}", f"kernels {KERNELS_VERSION}", f"linear {linears}"]
        parts += [f"kernels {kernels}"] if kernels else []
        parts.append("rows exact" if not faults else "rows inexact")
    else:
        parts += [torch.cuda.get_device_name(device), f"kernels {kernels or 'torch'}", "rows inexact"]
    return "; ".join((*parts, *notes))
