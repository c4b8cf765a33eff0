"""Kernels run twice: by Triton's interpreter in a process of its own, and through its compiler in this one.

The interpreter is chosen by an environment variable that Triton reads when a kernel is defined, so one process cannot
do both. test_interpreter.py starts the other process on the files of INTERPRETED.
"""

import os
from collections.abc import Callable

import numpy
import pytest
import torch

from evalcard_engine.quant.elements import ELEMENTS, Element, code_dtype, pack_nibbles
from evalcard_engine.quant.weight import Activations, QuantizedWeight

INTERPRETED = [
    "test_dispatch.py",
    "test_fp8.py",
    "test_int8.py",
    "test_merge_parts.py",
    "test_paged_attention.py",
    "test_quantize_rows.py",
    "test_rms_norm.py",
    "test_rotary_cache.py",
    "test_rounding.py",
    "test_silu_mul.py",
    "test_split_k.py",
    "test_weight_only.py",
]
PLAIN = [
    "test_compiled.py",
    "test_gpu_check.py",
    "test_interpreter.py",
    "test_launch.py",
    "test_on_gpu.py",
    "test_operands.py",
]

collect_ignore = PLAIN if os.environ.get("TRITON_INTERPRET") == "1" else INTERPRETED

BOOK = (-1.0, -0.7, -0.53, -0.39, -0.28, -0.18, -0.09, 0.0, 0.08, 0.16, 0.25, 0.34, 0.44, 0.56, 0.72, 1.0)
"""Like NF4's: sixteen values, unevenly spaced."""


def codes_of(element: Element, out: int, width: int, generator: torch.Generator) -> torch.Tensor:
    """Any codes but NaN."""
    if element.storage == "nibbles":
        return pack_nibbles(torch.randint(0, 16, (out, width), generator=generator).to(torch.uint8))
    if element.is_integer:
        low, high = element.limits
        return torch.randint(low, high + 1, (out, width), generator=generator).to(torch.int8)
    top = 448.0 if element.name == "fp8_e4m3" else 57344.0
    values = torch.randn(out, width, generator=generator) * torch.logspace(-4, 2, width)
    return values.clamp(-top, top).to(code_dtype(element))


@pytest.fixture
def interpreted_files() -> list[str]:
    return INTERPRETED


@pytest.fixture
def working_interpreter() -> None:
    """Skips where Triton 3.6 meets numpy 2.4, which no longer makes numbers of its interpreter's loop bounds."""
    triton = pytest.importorskip("triton", reason="kernels need Triton, which has no build for this platform")
    versions = [tuple(map(int, module.__version__.split(".")[:2])) for module in (triton, numpy)]
    if versions[0] < (3, 7) and versions[1] >= (2, 4):
        pytest.skip(f"the interpreter of triton {triton.__version__} does not run on numpy {numpy.__version__}")


@pytest.fixture
def plain_files() -> list[str]:
    return PLAIN


@pytest.fixture
def make_weight() -> Callable[..., QuantizedWeight]:
    """A random weight: element by name, group 0 is one a channel, and which parts it has."""

    def make(
        element: str,
        out: int,
        width: int,
        group: int = 0,
        *,
        seed: int = 0,
        zeros: bool = False,
        offsets: bool = False,
        order: bool = False,
        flat: bool = False,
        row_block: int = 1,
        scale_dtype: torch.dtype = torch.float32,
        activations: Activations | None = None,
    ) -> QuantizedWeight:
        generator = torch.Generator().manual_seed(seed)
        kind = ELEMENTS[element]
        size = group or width
        groups = -(-width // size)
        shape = (1, -(-out * width // size)) if flat else (-(-out // row_block), groups)
        index = torch.arange(width) // size
        return QuantizedWeight(
            codes=codes_of(kind, out, width, generator),
            element=kind,
            scales=(torch.rand(shape, generator=generator) * 0.1 + 0.01).to(scale_dtype),
            group_size=size,
            in_features=width,
            zero_points=torch.randint(-8, 8, shape, generator=generator).to(torch.int8) if zeros else None,
            offsets=torch.randn(shape, generator=generator) if offsets else None,
            group_index=index[torch.randperm(width, generator=generator)] if order else None,
            codebook=torch.tensor(BOOK) if element == "codebook4" else None,
            row_block=row_block,
            is_flat=flat,
            activations=activations,
        )

    return make


@pytest.fixture
def make_rows() -> Callable[..., torch.Tensor]:
    """Random inputs [rows, width]."""

    def make(rows: int, width: int, dtype: torch.dtype, seed: int = 1) -> torch.Tensor:
        return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)).to(dtype)

    return make
