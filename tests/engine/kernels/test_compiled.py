"""Every kernel as its launcher starts it, compiled for four GPUs: no spills, tensor cores where the table says so."""

import importlib
import pkgutil
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

triton = pytest.importorskip("triton", reason="kernels need Triton, which has no build for this platform")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

import evalcard_engine.kernels  # noqa: E402
from evalcard_engine.cache.kv_codes import Stored  # noqa: E402
from evalcard_engine.kernels import (  # noqa: E402
    fp8,
    int8,
    launch,
    merge_parts,
    paged_attention,
    quantize_rows,
    rms_norm,
    rotary_cache,
    silu_mul,
    split_k,
    weight_only,
)
from evalcard_engine.kernels.launch import PRODUCTS, SHARED_BYTES  # noqa: E402
from evalcard_engine.quant.weight import Activations  # noqa: E402

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
TARGETS = sorted(PRODUCTS)
POINTERS = {
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.int32: "*i32",
    torch.int64: "*i64",
}
FLOATS = [dtype for dtype in POINTERS if dtype.is_floating_point]
TOKEN_INT8 = Activations("int8", "token")
TOKEN_FP8 = Activations("fp8_e4m3", "token")
BLOCK_FP8 = Activations("fp8_e4m3", "group", 128)


class Launches:
    """What launchers would have started, in place of starting it."""

    def __init__(self) -> None:
        self.made: list[SimpleNamespace] = []

    def __call__(self, kernel, grid, arguments, constants, *, warps, stages, fp_fusion, registers=None) -> None:
        assert len(grid) <= 3 and all(size > 0 for size in grid), grid
        options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": fp_fusion, "maxnreg": registers}
        self.made.append(
            SimpleNamespace(kernel=kernel, values=arguments | constants, constants=constants, options=options)
        )


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    recorder = Launches()
    for module in (launch, merge_parts, paged_attention, quantize_rows, rms_norm, rotary_cache, silu_mul, split_k):
        monkeypatch.setattr(module, "launch", recorder)
    return recorder


def compiled(made: SimpleNamespace, target: int) -> SimpleNamespace:
    """Compile one launch with what Triton's own launcher knows of its arguments: None and 1 are constants, aligned
    pointers and multiples of 16 are marked."""
    signature, constants, attributes = {}, {}, {}
    for place, name in enumerate(made.kernel.arg_names):
        value = made.values[name]
        if name in made.constants or value is None or (isinstance(value, int) and value == 1):
            signature[name], constants[name] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            signature[name] = POINTERS[value.dtype]
            attributes[(place,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "fp32" if isinstance(value, float) else "i32"
            if isinstance(value, int) and value % 16 == 0:
                attributes[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(made.kernel, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", target, 32), options=made.options)


def assert_sound(made: SimpleNamespace, target: int, folder: Path) -> str:
    """No stack, no local memory, shared memory within the GPU's; returns the SASS."""
    binary = compiled(made, target)
    path = folder / "kernel.cubin"
    path.write_bytes(binary.asm["cubin"])
    usage = run("cuobjdump", "--dump-resource-usage", path)
    assert " STACK:0 " in usage, usage
    sass = run("nvdisasm", "-c", path)
    local = [line for line in sass.splitlines() if "STL" in line or "LDL" in line]
    assert "EXIT" in sass and not local, local[:5]
    assert binary.metadata.shared <= SHARED_BYTES[target], (binary.metadata.shared, SHARED_BYTES[target])
    return sass


def run(tool: str, *arguments: object) -> str:
    done = subprocess.run([TOOLS / tool, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_instruction(sass: str, wanted: str | None) -> None:
    """The very instruction of launch.PRODUCTS, or no tensor-core product at all."""
    names = set(re.findall(r"\s((?:[HIQ]G?|UTC[A-Z]+)MMA)\b", sass))
    assert (names == set()) if wanted is None else (wanted in names), (wanted, names)


def start_weight_only(make_weight: Callable, rows: int, dtype: torch.dtype, *, exact: bool = True, **how) -> None:
    how = {"element": "int4", "out": 4096, "width": 4096, "group": 128, "scale_dtype": torch.bfloat16} | how
    weight = make_weight(how.pop("element"), how.pop("out"), how.pop("width"), how.pop("group"), **how)
    x = torch.empty(rows, weight.in_features, dtype=dtype)
    weight_only.weight_only(x, weight, torch.empty(weight.out_features, dtype=dtype), exact=exact)


def start_bytes(
    module: ModuleType, make_weight: Callable, rows: int, activations: Activations, group: int, **how: bool
) -> None:
    element = "int8" if module is int8 else "fp8_e4m3"
    row_block = 128 if activations.per == "group" else 1
    weight = make_weight(element, 4096, 4096, group, row_block=row_block, activations=activations)
    codes = torch.zeros(rows, 4096, dtype=torch.int8).view(weight.codes.dtype)
    scales = torch.empty(rows, 4096 // group if group else 1)
    product = int8.int8 if module is int8 else fp8.fp8
    product(codes, scales, weight, None, torch.bfloat16, **how)


def start_small() -> None:
    """One launch of everything that is no product."""
    x = torch.empty(8, 4096, dtype=torch.bfloat16)
    for how in (TOKEN_INT8, TOKEN_FP8, BLOCK_FP8, Activations("fp8_e4m3", "group", 32, power_of_two=True),
                Activations("fp8_e4m3", "tensor", scale=torch.ones(()))):  # fmt: skip
        quantize_rows.quantize_rows(x, how)
    rms_norm.rms_norm(x, x[0], 1e-6, x)
    rms_norm.rms_norm(x, x[0], 1e-6, add_one=True)
    silu_mul.silu_mul(x[:, :2048], x[:, 2048:])
    heads = x.view(8, 32, 128)
    table = torch.empty(8, 128, dtype=torch.bfloat16)
    pages = torch.empty(4, 32, 16, 128, dtype=torch.bfloat16)
    rotary_cache.rotary_cache(heads, heads, heads, table, table, torch.arange(8), pages, pages)
    split_k.sum_parts(torch.empty(4, 8, 4096), x, x[0])
    split_k.sum_parts(torch.empty(4, 8, 4096, dtype=torch.int32), x, x[0], torch.empty(8), torch.empty(4096))


def start_as_hooked(dtype: torch.dtype) -> None:
    """What layer_modules starts and `start_small` does not: norms of heads, gates of two linears, heads of 64, caches
    of codes, which are written by way of pages of one token."""
    x = torch.empty(8, 2048, dtype=dtype)
    heads, weight = x.view(8, 32, 64), torch.empty(64, dtype=dtype)
    rms_norm.rms_norm(heads.reshape(-1, 64), weight, 1e-6)
    rms_norm.rms_norm(x, x[0], 1e-6, x, add_one=True)
    silu_mul.silu_mul(x, x)
    table, pages = torch.empty(8, 64, dtype=dtype), torch.empty(8, 32, 1, 64, dtype=dtype)
    rotary_cache.rotary_cache(heads, heads, heads, table, table, torch.arange(8), pages, pages)


def start_attention(
    target: int, dtype: torch.dtype, stored: torch.dtype, sizes: tuple[int, int], *, page_size: int, has_more: bool
) -> None:
    """Attention of few rows and of many, with soft cap and sinks where has_more, and the merge of its parts."""
    heads, kv_heads = 32, 8
    keys, values = (
        Stored(
            torch.empty(4, kv_heads, page_size, size, dtype=stored),
            torch.empty(1) if stored == torch.float8_e4m3fn else None,
            torch.empty(4, kv_heads, page_size, 1) if stored == torch.int8 else None,
        )
        for size in sizes
    )
    query, out = (torch.empty(8, heads, size, dtype=dtype) for size in sizes)
    parts, tops = torch.empty(6, heads, sizes[1]), torch.empty(6, heads)
    index = torch.zeros(8, dtype=torch.int32)
    table = torch.zeros(3, paged_attention.ITEM_COLUMNS, dtype=torch.int32)
    rows = paged_attention.Rows(index, index, index, index)
    more = {"softcap": 30.0, "sinks": torch.empty(heads, dtype=dtype)} if has_more else {}
    for tile in dict.fromkeys(paged_attention.tiles_of(dtype, *sizes, stored.itemsize == 1, target)):
        items = paged_attention.Items(table, tile)
        paged_attention.paged_attention(query, keys, values, items, rows, out, parts, tops, scale=0.1, **more)
    merge_parts.merge_parts(parts, tops, index[:2], index[:3], index, out)


def assert_attention(launches: Launches, target: int, dtype: torch.dtype, folder: Path) -> None:
    """Sixteen rows are too few for the products that Hopper and Blackwell begin with."""
    name = "fp32" if dtype == torch.float32 else "fp16" if dtype == torch.float16 else "bf16"
    few = PRODUCTS[80][name]
    wanted = [few, None] if few is None else [few, PRODUCTS[target][name], None]
    for made, instruction in zip(launches.made, wanted, strict=True):
        assert_instruction(assert_sound(made, target, folder), instruction)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 512])
def test_weight_only(target: int, rows: int, launches: Launches, make_weight: Callable, tmp_path: Path) -> None:
    start_weight_only(make_weight, rows, torch.bfloat16)
    sass = assert_sound(launches.made[0], target, tmp_path)
    assert_instruction(sass, PRODUCTS[target]["bf16"])


@pytest.mark.parametrize("target", TARGETS)
def test_int8(target: int, launches: Launches, make_weight: Callable, tmp_path: Path) -> None:
    start_bytes(int8, make_weight, 512, TOKEN_INT8, 0)
    assert_instruction(assert_sound(launches.made[0], target, tmp_path), PRODUCTS[target]["int8"])


@pytest.mark.parametrize("target", TARGETS)
def test_fp8(
    target: int, launches: Launches, make_weight: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "capability", lambda device: target)
    start_bytes(fp8, make_weight, 512, BLOCK_FP8, 128, exact=True)
    assert launches.made[0].constants["HAS_PRODUCT"] == ("fp8" in PRODUCTS[target])
    wanted = PRODUCTS[target].get("fp8", PRODUCTS[target]["fp16"])
    assert_instruction(assert_sound(launches.made[0], target, tmp_path), wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_attention(target: int, launches: Launches, tmp_path: Path) -> None:
    start_attention(target, torch.bfloat16, torch.bfloat16, (128, 128), page_size=256, has_more=False)
    assert_attention(launches, target, torch.bfloat16, tmp_path)


def test_full_float32_leaves_tensor_cores_alone(launches: Launches, make_weight: Callable, tmp_path: Path) -> None:
    start_weight_only(make_weight, 64, torch.float32)
    assert_instruction(assert_sound(launches.made[0], 90, tmp_path), PRODUCTS[90]["fp32"])


def test_all_but_products(launches: Launches, tmp_path: Path) -> None:
    start_small()
    assert len(launches.made) == 11
    for made in launches.made:
        assert_instruction(assert_sound(made, 90, tmp_path), None)


def test_no_kernel_is_left_out(launches: Launches, make_weight: Callable) -> None:
    """Every kernel of the package is started by some test here, and so is compiled for every target."""
    start_small()
    start_weight_only(make_weight, 1, torch.bfloat16)
    start_bytes(int8, make_weight, 512, TOKEN_INT8, 0)
    start_bytes(fp8, make_weight, 512, TOKEN_FP8, 0)
    start_attention(90, torch.bfloat16, torch.bfloat16, (128, 128), page_size=16, has_more=False)
    kernels = {
        value
        for found in pkgutil.iter_modules(evalcard_engine.kernels.__path__)
        for name, value in vars(importlib.import_module(f"evalcard_engine.kernels.{found.name}")).items()
        if name.endswith("_kernel")
    }
    assert len(kernels) == 10 and kernels == {made.kernel for made in launches.made}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_what_models_start(dtype: torch.dtype, launches: Launches, tmp_path: Path) -> None:
    start_as_hooked(dtype)
    assert len(launches.made) == 4
    for made in launches.made:
        assert_instruction(assert_sound(made, 90, tmp_path), None)


@pytest.mark.slow
@pytest.mark.parametrize("target", [80, 89, 100])
def test_all_but_products_elsewhere(target: int, launches: Launches, tmp_path: Path) -> None:
    start_small()
    for dtype in FLOATS:
        start_as_hooked(dtype)
    for made in launches.made:
        assert_instruction(assert_sound(made, target, tmp_path), None)


ELEMENTS = ["int4", "int8", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1", "codebook4"]
PARTS = [
    {"group": 0},
    {"group": 32, "zeros": True, "offsets": True},
    {"group": 16},
    {"group": 96, "width": 4032, "zeros": True},
    {"group": 128, "order": True, "zeros": True},
    {"group": 64, "width": 4097, "flat": True},
    {"group": 128, "row_block": 128},
]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "exact"), [(1, True), (1, False), (512, False)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_element_and_grouping(
    target: int, rows: int, exact: bool, dtype: torch.dtype, launches: Launches, make_weight: Callable, tmp_path: Path
) -> None:
    for number in range(max(len(ELEMENTS), len(PARTS))):
        parts = PARTS[number % len(PARTS)]
        start_weight_only(make_weight, rows, dtype, exact=exact, element=ELEMENTS[number % len(ELEMENTS)], **parts)
    start_weight_only(make_weight, rows, dtype, exact=exact, element="int4", group=32, zeros=True, offsets=True)
    products = [made for made in launches.made if made.kernel is weight_only._weight_only_kernel]
    assert len(products) == len(PARTS) + 1
    wanted = PRODUCTS[target]["fp32" if dtype == torch.float32 else "fp16" if dtype == torch.float16 else "bf16"]
    for made in products:
        sass = assert_sound(made, target, tmp_path)
        if wanted is None or rows > 1:
            assert_instruction(sass, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 512])
def test_every_product_of_bytes(
    target: int, rows: int, launches: Launches, make_weight: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "capability", lambda device: target)
    start_bytes(int8, make_weight, rows, TOKEN_INT8, 0)
    for exact in (True, False):
        start_bytes(fp8, make_weight, rows, TOKEN_FP8, 0, exact=exact)
        start_bytes(fp8, make_weight, rows, BLOCK_FP8, 128, exact=exact)
    for made in launches.made:
        assert_sound(made, target, tmp_path)


SIZES = [(64, 64), (80, 80), (128, 128), (192, 128), (256, 256)]
CODES = [torch.float8_e4m3fn, torch.int8]


CACHES = [(dtype, dtype) for dtype in FLOATS] + [(torch.bfloat16, code) for code in CODES] + [(torch.float32, CODES[1])]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("dtype", "stored"), CACHES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_attention_over_every_cache(
    target: int, sizes: tuple[int, int], dtype: torch.dtype, stored: torch.dtype, launches: Launches, tmp_path: Path
) -> None:
    """With cap and sinks and on small pages, which all take registers."""
    start_attention(target, dtype, stored, sizes, page_size=16, has_more=True)
    assert_attention(launches, target, dtype, tmp_path)
