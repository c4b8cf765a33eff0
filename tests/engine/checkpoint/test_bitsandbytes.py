"""bitsandbytes checkpoints against the library itself, on the CPU."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from evalcard_engine.checkpoint.bitsandbytes import BitsAndBytes, open_format
from evalcard_engine.checkpoint.claims import ModuleClaim, Plain, Quantized
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.tensor_files import TensorFile
from evalcard_engine.errors import EngineError
from evalcard_engine.quant.activations import round_activations
from evalcard_engine.quant.linear import quantized_linear

bnb = pytest.importorskip("bitsandbytes", reason="bitsandbytes is a test dependency; it defines the format")
functional = bnb.functional

DTYPES = {torch.uint8: "U8", torch.float32: "F32", torch.bfloat16: "BF16", torch.int8: "I8", torch.int64: "I64"}
NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
INT8 = {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_threshold": 6.0}


@dataclass
class Memory:
    """Stands for the reader of a checkpoint's files."""

    tensors: Mapping[str, torch.Tensor]

    def __getitem__(self, tensor: str) -> torch.Tensor:
        return self.tensors[tensor.removeprefix("a.")]


def claim(config: Mapping[str, Any], parts: Mapping[str, torch.Tensor], shape: tuple[int, int]) -> ModuleClaim:
    made = open_format(Checkpoint("m", Path("x"), {}, {}), config)
    fmt = BitsAndBytes(Memory(parts), made.threshold, made.skipped, made.quant_type)  # type: ignore[arg-type]
    places = {
        leaf: TensorFile(Path("x"), DTYPES[one.dtype], tuple(one.shape), one.nbytes) for leaf, one in parts.items()
    }
    return fmt.module("a", shape, places)


def read(config: Mapping[str, Any], parts: Mapping[str, torch.Tensor], shape: tuple[int, int]) -> Any:
    found = claim(config, parts, shape)
    assert not found.faults and isinstance(found.source, Quantized) and found.leaves == set(parts)
    return found.source.read({leaf: parts[leaf] for leaf in found.source.tensors})


def four_bits(weight: torch.Tensor, **how: Any) -> tuple[dict[str, torch.Tensor], Any]:
    """(the parts as the library's own modules save them, the library's state)."""
    packed, state = functional.quantize_4bit(weight, **how)
    return {"weight": packed} | {f"weight.{key}": part for key, part in state.as_dict(packed=True).items()}, state


def library(packed: torch.Tensor, state: Any) -> torch.Tensor:
    """The library's own dequantized weight. It is asked for one long row: where a block runs on into the next row, the
    AVX512 kernel of version 0.50 takes the wrong scales, as its other kernels and those of CUDA do not."""
    shape, state.shape = state.shape, torch.Size((1, state.shape.numel()))
    with torch.compiler.set_stance("force_eager"):  # its portable kernel compiles itself for seconds
        found: torch.Tensor = functional.dequantize_4bit(packed, state).view(shape)
    state.shape = shape
    return found


def packed_json(**entries: Any) -> torch.Tensor:
    return torch.tensor(list(json.dumps(entries).encode()), dtype=torch.uint8)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("shape", [(96, 128), (96, 208), (7, 64), (5, 30), (7, 9), (130, 129)])
def test_four_bits_equal_the_library(kind: str, nested: bool, shape: tuple[int, int]) -> None:
    parts, state = four_bits(random(*shape), quant_type=kind, compress_statistics=nested, blocksize=64)
    config = {**NF4, "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": nested}
    found = read(config, parts, shape)
    assert torch.equal(found.dequantize(), library(parts["weight"], state))
    assert found.is_flat == (shape[1] % 64 != 0)
    assert kind in found.scheme and ("double" in found.scheme) == nested


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bit_models_and_other_storage(dtype: torch.dtype) -> None:
    """The library rounds its float32 product to the model's dtype; bytes may be labelled as another type."""
    weight = random(12, 64).to(dtype)
    how = {"quant_type": "nf4", "compress_statistics": True}
    parts, state = four_bits(weight, **how, quant_storage=torch.bfloat16)
    expected = library(parts["weight"], state)
    assert parts["weight"].dtype == torch.bfloat16
    assert torch.equal(read(NF4, parts, (12, 64)).dequantize().to(dtype), expected)


@pytest.mark.parametrize("block", [32, 128, 256])
def test_other_block_sizes(block: int) -> None:
    parts, state = four_bits(random(20, 96), quant_type="nf4", blocksize=block)
    found = read(NF4, parts, (20, 96))
    assert torch.equal(found.dequantize(), library(parts["weight"], state))


def test_a_projection_of_real_size_is_claimed_whole() -> None:
    """q_proj of 5120 -> 6144 in 15728640 bytes, as Qwen's bnb checkpoints hold it; only headers are looked at."""
    state = {"shape": [6144, 5120], "blocksize": 64, "dtype": "bfloat16", "quant_type": "nf4",
             "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.04}  # fmt: skip
    parts = {
        "weight": torch.empty(15728640, 1, dtype=torch.uint8),
        "weight.absmax": torch.empty(491520, dtype=torch.uint8),
        "weight.nested_absmax": torch.empty(1920),
        "weight.quant_map": torch.empty(16),
        "weight.nested_quant_map": torch.empty(256),
        "weight.quant_state.bitsandbytes__nf4": packed_json(**state),
    }
    found = claim(NF4, parts, (6144, 5120))
    assert not found.faults and found.leaves == set(parts)
    assert claim(NF4, parts, (5120, 6144)).faults == (
        "a: its quant_state says [6144, 5120] in blocks of 64, the model [5120, 6144]",
    )


@pytest.mark.parametrize(
    ("change", "config", "fault"),
    [
        ({"weight.absmax": None}, {}, "a: weight.absmax missing"),
        ({"weight.absmax": torch.ones(3)}, {}, "a.weight.absmax is F32 [3], not F32 [12]"),
        ({"weight": torch.ones(12, 64, dtype=torch.uint8)}, {}, "a.weight is U8 [12, 64]"),
        ({}, {"bnb_4bit_quant_type": "fp4"}, "a is nf4, but bnb_4bit_quant_type is fp4"),
        ({}, {"llm_int8_skip_modules": ["a"]}, "a is quantized, but llm_int8_skip_modules names it"),
        ({"weight.quant_state.bitsandbytes__nf4": torch.ones(4, dtype=torch.uint8)}, {}, "cannot be read"),
        ({"weight.quant_state.bitsandbytes__nf4": packed_json(shape=[12, 64], blocksize=0)}, {}, "blocks of 0"),
        ({"weight.quant_state.bitsandbytes__nf4": packed_json(shape=[12, 64])}, {}, "KeyError: 'blocksize'"),
        ({"weight.quant_state.bitsandbytes__nf4": None}, {}, "has neither a quant_state nor an SCB"),
    ],
)
def test_faults_name_the_layer(change: dict[str, Any], config: dict[str, Any], fault: str) -> None:
    parts = {**four_bits(random(12, 64), quant_type="nf4")[0], **change}
    found = claim({**NF4, **config}, {leaf: one for leaf, one in parts.items() if one is not None}, (12, 64))
    assert any(one.startswith("a") and fault in one for one in found.faults), found.faults


def test_values_must_be_finite() -> None:
    parts, _ = four_bits(random(12, 64), quant_type="nf4")
    parts["weight.absmax"][3] = float("nan")
    with pytest.raises(EngineError, match="a: weight.absmax is not finite"):
        read(NF4, parts, (12, 64))


def test_settings_that_cannot_be_honoured_are_named_at_once() -> None:
    config = {**INT8, "llm_int8_has_fp16_weight": True, "llm_int8_threshold": -1, "rotate": 1}
    with pytest.raises(EngineError) as caught:
        claim(config, {}, (1, 1))
    for part in ("llm_int8_has_fp16_weight", "llm_int8_threshold is -1", "'rotate'"):
        assert part in str(caught.value)


def test_plain_modules_stay_plain() -> None:
    found = claim(NF4, {"weight": torch.ones(3, 3)}, (3, 3))
    assert isinstance(found.source, Plain) and not found.faults


def int8_parts(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    codes, greatest, _ = functional.int8_vectorwise_quant(weight.half())
    return {"weight": codes, "SCB": greatest, "weight_format": torch.tensor(0, dtype=torch.uint8)}


def test_int8_rows_equal_the_library_to_the_last_bit_but_one() -> None:
    parts = int8_parts(random(40, 33))
    found = read(INT8, parts, (40, 33))
    expected = functional.int8_vectorwise_dequant(parts["weight"], parts["SCB"])
    torch.testing.assert_close(found.dequantize(), expected, rtol=2**-22, atol=0)
    assert found.activations.outliers == 6.0 and "LLM.int8" in found.scheme


def test_tile_orders_of_old_versions_are_refused() -> None:
    parts = {**int8_parts(random(4, 3)), "weight_format": torch.tensor(2, dtype=torch.uint8)}
    assert any("tile order" in fault for fault in claim(INT8, parts, (4, 3)).faults)


def test_outliers_of_a_row_enter_the_product_as_they_are() -> None:
    """One row at a time, the library's own division into outlier columns and int8 ones is this engine's."""
    rows = random(6, 48, seed=3).half()
    rows[1, 5], rows[1, 7], rows[4, 40] = 6.0, -30.0, 7.5
    how = read(INT8, int8_parts(random(2, 48)), (2, 48)).activations
    ours = round_activations(rows, how)
    for number, row in enumerate(rows):
        codes, greatest, columns = functional.int8_vectorwise_quant(row[None].clone(), threshold=6.0)
        theirs = codes.float() * (greatest[:, None] / 127)
        theirs[:, columns] = row[None, columns].float()
        torch.testing.assert_close(ours[number], theirs[0], rtol=1e-6, atol=1e-6)
        assert torch.equal(ours[number], round_activations(row[None], how)[0])
    assert (ours[1, 5], ours[1, 7], ours[4, 40]) == (6.0, -30.0, 7.5)


def test_the_linear_equals_the_librarys_product() -> None:
    weight, rows = random(20, 48), random(5, 48, seed=4)
    rows[2, 9] = 11.0
    parts = int8_parts(weight)
    linear = quantized_linear(read(INT8, parts, (20, 48)), None, torch.float32)
    rows = rows.half().float()  # the library rounds what comes in to float16 first
    for row in rows:
        codes, greatest, columns = functional.int8_vectorwise_quant(row[None].half(), threshold=6.0)
        expected, _ = torch.ops.bitsandbytes.int8_mixed_scaled_mm(
            row[None], codes, parts["weight"], greatest, parts["SCB"], columns
        )
        # Its portable product divides by 127^2 to five digits.
        torch.testing.assert_close(linear(row[None]), expected, rtol=1e-4, atol=1e-4)


def llm_int8(name: str, rows: torch.Tensor) -> torch.Tensor:
    """Values from 1.0 on as they are, the others to 127ths of the greatest of them, value after value."""
    out = []
    for row in rows:
        small = [abs(value) for value in row if abs(value) < 1.0]
        scale = max(small) / 127
        out.append([value if abs(value) >= 1.0 else torch.round(value / scale) * scale for value in row])
    return torch.tensor(out)


@pytest.mark.parametrize("kind", ["nf4", "fp4", "nested", "int8"])
def test_a_whole_checkpoint(kind: str, stored_llama: Any, run_folder: Callable[[Path], Any]) -> None:
    weights = {}
    for name, weight in stored_llama.linears.items():
        if kind == "int8":
            parts = int8_parts(weight)
            weights[name] = parts["weight"].float() * (parts["SCB"][:, None] / 127)
        else:
            how = {"quant_type": kind.replace("nested", "nf4"), "compress_statistics": kind == "nested"}
            parts, state = four_bits(weight, **how)
            weights[name] = library(parts["weight"], state)
        stored_llama.replace(name, parts)
    config = {**INT8, "llm_int8_threshold": 1.0} if kind == "int8" else {
        **NF4, "bnb_4bit_quant_type": kind.replace("nested", "nf4"), "bnb_4bit_compute_dtype": "bfloat16"}  # fmt: skip
    ran = run_folder(stored_llama.save({**config, "llm_int8_skip_modules": ["lm_head"]}))
    expected = stored_llama.reference(weights, llm_int8 if kind == "int8" else None, ran)
    torch.testing.assert_close(ran.logits, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["nf4", "int8"])
def test_a_folder_that_transformers_wrote(
    kind: str, stored_llama: Any, run_folder: Callable[[Path], Any], tmp_path: Path
) -> None:
    pytest.importorskip("accelerate", reason="transformers loads bitsandbytes models through accelerate")
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    how = {"load_in_8bit": True, "llm_int8_threshold": 1.0} if kind == "int8" else {
        "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(
        stored_llama.save(None), quantization_config=BitsAndBytesConfig(**how), dtype=torch.float32
    )
    model.save_pretrained(tmp_path / "written")
    weights = {}
    for name in stored_llama.linears:
        stored = model.get_submodule(name).weight
        if kind == "int8":
            weights[name] = stored.CB.float() * (stored.SCB[:, None] / 127)
        else:
            weights[name] = library(stored.data, stored.quant_state)
    ran = run_folder(tmp_path / "written")
    expected = stored_llama.reference(weights, llm_int8 if kind == "int8" else None, ran)
    torch.testing.assert_close(ran.logits, expected, atol=1e-4, rtol=0)
