"""Attention by native/attention.c: a step's queries over pages as they lie, without gathering, masks or merging here.

It stands in for cpu.py where there is a compiler and the pool holds numbers that the CPU multiplies; `serves` says so,
and checks what the compiler made against the definition.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from evalcard_engine.attention.compiled_plan import Tiles, plan_tiles
from evalcard_engine.attention.reach import Reach
from evalcard_engine.attention.tiles import BLOCK
from evalcard_engine.batch import Span
from evalcard_engine.cache.pool import KVPool
from evalcard_engine.native.build import Built, built
from evalcard_engine.quant.workspace import Workspace

LANES = 16
"""Of a vector of attention.c, in words of 32 bits; MAX_ROWS likewise."""
MAX_ROWS = 6

TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 5e-2}
"""How far averages of normal numbers may lie from the definition."""

_POINTERS = ("queries", "keys", "values", "out", "sinks", "tiles", "rows", "meetings", "pages", "scratch")
_NUMBERS = (
    "query_token", "query_head", "out_token", "out_head", "scratch_bytes",
    "num_tiles", "page_size", "kv_heads", "group", "key_size", "value_size", "threads",
)  # fmt: skip


class _Call(ctypes.Structure):
    """``Call`` of attention.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("scale", ctypes.c_float),
        ("softcap", ctypes.c_float),
    )


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """All layers of one reach share this."""

    tiles: Tiles
    threads: int
    pointers: tuple[int, int, int, int]
    """To the tiles, rows, meetings and pages of ``tiles``."""

    @classmethod
    def of(cls, tiles: Tiles, threads: int) -> "CompiledPlan":
        tables = (tiles.tiles, tiles.rows, tiles.meetings, tiles.pages)
        first, second, third, fourth = map(_pointer, tables)
        return cls(tiles, threads, (first, second, third, fourth))


def plan_step(spans: Sequence[Span], pool: KVPool, heads: int, kv_heads: int, reach: Reach) -> CompiledPlan:
    """For layers whose tokens see so far back."""
    threads = torch.get_num_threads()
    return CompiledPlan.of(plan_tiles(spans, heads, kv_heads, pool.page_size, reach, threads), threads)


def attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: CompiledPlan,
    workspace: Workspace,
    *,
    scale: float,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """query [num_tokens, heads, key_size] over keys and values [pages, kv_heads, page_size, size], both float32 or both
    bfloat16; sinks [heads]. Returns [num_tokens, heads, value_size] in their dtype.

    Keys that a row does not see weigh an exact 0: beside an infinite value of a block up to the last token of a step,
    as from a model that overflows, rows before it are NaN, as with torch's masks.
    """
    library = _library(keys.dtype).library
    assert library is not None, keys.dtype
    return _run(library, query, keys, values, plan, workspace, scale, softcap, sinks)


def _run(
    library: ctypes.CDLL,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: CompiledPlan,
    workspace: Workspace,
    scale: float,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    assert keys.dtype == values.dtype and scale > 0, (keys.dtype, values.dtype, scale)
    assert keys.is_contiguous() and values.is_contiguous(), (keys.stride(), values.stride())
    query = query.to(keys.dtype)
    if query.stride(-1) != 1:
        query = query.contiguous()
    num_tokens, heads, key_size = query.shape
    _, kv_heads, page_size, value_size = values.shape
    out = torch.empty(num_tokens, heads, value_size, dtype=keys.dtype)
    sinks = None if sinks is None else sinks.float().contiguous()
    tiles, scratch_bytes = plan.tiles, _scratch_bytes(plan.tiles.most_rows, key_size, value_size)
    scratch = workspace.take("attention", plan.threads, scratch_bytes, torch.uint8)
    assert scratch.data_ptr() % 64 == 0, scratch.data_ptr()
    call = _Call(
        queries=query.data_ptr(), keys=keys.data_ptr(), values=values.data_ptr(), out=out.data_ptr(),
        sinks=None if sinks is None else sinks.data_ptr(),
        tiles=plan.pointers[0], rows=plan.pointers[1], meetings=plan.pointers[2], pages=plan.pointers[3],
        scratch=scratch.data_ptr(), scratch_bytes=scratch_bytes,
        query_token=query.stride(0), query_head=query.stride(1), out_token=out.stride(0), out_head=out.stride(1),
        num_tiles=len(tiles.tiles), page_size=page_size, kv_heads=kv_heads, group=heads // kv_heads,
        key_size=key_size, value_size=value_size, threads=plan.threads,
        scale=scale, softcap=softcap or 0.0,
    )  # fmt: skip
    function = library.attend_float32 if keys.dtype == torch.float32 else library.attend_bfloat16
    function(ctypes.byref(call))
    return out


def serves(dtype: torch.dtype) -> bool:
    """Whether keys and values of ``dtype`` can be attended to here, by code that does what it should."""
    return _library(dtype).library is not None


def words(dtype: torch.dtype) -> str:
    """Which compiler and source serve, for the numerics string; else the reason why none does."""
    return _library(dtype).words


def _library(dtype: torch.dtype) -> Built:
    if dtype not in TOLERANCES:
        return Built(None, f"not written for {str(dtype).removeprefix('torch.')}")
    return _checked(dtype)


@cache
def _checked(dtype: torch.dtype) -> Built:
    found = built("attention")
    if found.library is None:
        return found
    name = f"attend_{str(dtype).removeprefix('torch.')}"
    if not hasattr(found.library, name):
        return Built(None, f"no {name} for this CPU")
    getattr(found.library, name).restype = None
    faults = _faults(found.library, dtype)
    return Built(None, f"{found.words}: {faults}") if faults else found


def _faults(library: ctypes.CDLL, dtype: torch.dtype) -> str:
    """A prompt and its last token alone, by all threads and by one, against the definition; empty: all is well."""
    generator, length, heads, kv_heads, size = torch.Generator().manual_seed(0), 290, 4, 2, 48
    pages = torch.randn(2, 2, kv_heads, 256, size, generator=generator).to(dtype)
    query = torch.randn(length, heads, size, generator=generator).to(dtype)

    def found(first: int, threads: int) -> torch.Tensor:
        tiles = plan_tiles([Span(0, length - first, first, (1, 0))], heads, kv_heads, 256, None, threads)
        return _run(
            library, query[first:], pages[0], pages[1], CompiledPlan.of(tiles, threads), Workspace(), size**-0.5
        )

    whole = found(0, torch.get_num_threads())
    if not (torch.equal(found(length - 1, 1), whole[-1:]) and torch.equal(found(0, 1), whole)):
        return "rows depend on their neighbours or the threads"
    keys, values = pages.flip(1).transpose(1, 2).flatten(2, 3)[:, :, :length].double().repeat_interleave(2, dim=1)
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    scores = (query.transpose(0, 1).double() @ keys.transpose(1, 2) * size**-0.5).masked_fill(hidden, -torch.inf)
    distance = (whole.transpose(0, 1).double() - scores.softmax(-1) @ values).abs().max().item()
    return "" if distance < TOLERANCES[dtype] else f"{distance:.2g} from the definition"


def _scratch_bytes(rows: int, key_size: int, value_size: int) -> int:
    """Of one thread: at least what ``room_in`` of attention.c takes, reckoned for float32."""
    width = -(-value_size // LANES) * LANES
    parts = (
        rows * key_size, BLOCK * key_size, BLOCK * width, rows * width, rows, rows, MAX_ROWS * BLOCK, MAX_ROWS * width,
    )  # fmt: skip
    return sum(-(-part // LANES) * LANES for part in parts) * 4


def _pointer(array: np.ndarray) -> int:
    assert array.dtype == np.int32 and array.flags.c_contiguous, (array.dtype, array.flags)
    return array.ctypes.data
