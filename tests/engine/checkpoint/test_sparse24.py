"""2:4 sparse storage against a slow definition of its layout: kept values in order, and a bit for each column."""

from typing import Any

import pytest
import torch

from evalcard_engine.errors import EngineError
from evalcard_engine.models import open_model

SPARSITY = {"format": "sparse-24-bitmask", "sparsity_structure": "2:4", "targets": ["Linear"], "ignore": ["lm_head"]}
CHANNEL8 = {"num_bits": 8, "strategy": "channel"}


def pruned(weight: torch.Tensor) -> torch.Tensor:
    """The two smaller of every four are zero."""
    fours = weight.view(-1, 4).clone()
    fours.scatter_(1, fours.abs().argsort(dim=1)[:, :2], 0)
    return fours.view(weight.shape)


def stored_sparse(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of a weight with at most two values other than zero in every four; zeros are kept where there are fewer."""
    values, masks = [], []
    for row in weight.float().tolist():
        bits, kept = [0] * -(-len(row) // 8), []
        for start in range(0, len(row), 4):
            order = sorted(range(start, start + 4), key=lambda column: row[column] == 0)
            for column in sorted(order[:2]):
                bits[column // 8] |= 1 << column % 8
                kept.append(column)
        masks.append(bits)
        values.append(kept)
    compressed = torch.stack([row[kept] for row, kept in zip(weight.view(raw(weight)), values, strict=True)])
    return {
        "compressed": compressed.view(weight.dtype),
        "bitmask": torch.tensor(masks, dtype=torch.uint8),
        "shape": torch.tensor(weight.shape).reshape(2, 1),
    }


def raw(weight: torch.Tensor) -> torch.dtype:
    return {1: torch.int8, 2: torch.int16, 4: torch.int32}[weight.dtype.itemsize]


def config(weights: dict[str, Any] | None = None, fmt: str = "dense", **more: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}} if weights else {}
    found = {"quant_method": "compressed-tensors", "format": fmt, "config_groups": groups, "sparsity_config": SPARSITY}
    return {**found, **more}


def make_sparse(stored: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    plain = {}
    for module in stored.linears:
        plain[module] = pruned(stored.tensors.pop(f"{module}.weight")).to(dtype)
        stored.tensors |= {f"{module}.{leaf}": part for leaf, part in stored_sparse(plain[module]).items()}
    return plain


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_unquantized_weights_run_as_the_dense_ones(stored_llama, run_folder, dtype: torch.dtype) -> None:
    plain = make_sparse(stored_llama, dtype)
    assert all(int((weight == 0).sum()) == weight.numel() // 2 for weight in plain.values())
    folder = stored_llama.save(config())
    torch.testing.assert_close(run_folder(folder).logits, stored_llama.reference(plain), rtol=1e-4, atol=1e-4)
    info = open_model(str(folder), dtype="float32", device="cpu", scheme=None).info
    bits = 8 * dtype.itemsize
    assert bits / 2 + 1 < info.bits_per_weight < bits / 2 + 1.1  # half of the values, one bit each, and the shapes


@pytest.mark.parametrize("kind", ["fp8", "int8"])
def test_quantized_weights_run_as_the_dense_ones(stored_llama, run_folder, kind: str) -> None:
    plain = {}
    for module in stored_llama.linears:
        weight = pruned(stored_llama.tensors.pop(f"{module}.weight"))
        scale = weight.abs().amax(dim=1, keepdim=True) / (448 if kind == "fp8" else 127)
        codes = (weight / scale).to(torch.float8_e4m3fn) if kind == "fp8" else torch.round(weight / scale).char()
        plain[module] = codes.float() * scale
        parts = {**stored_sparse(codes), "weight_scale": scale}
        stored_llama.tensors |= {f"{module}.{leaf}": part for leaf, part in parts.items()}
    settings = {**CHANNEL8, "type": "float"} if kind == "fp8" else CHANNEL8
    folder = stored_llama.save(config(settings, "float-quantized" if kind == "fp8" else "int-quantized"))
    torch.testing.assert_close(run_folder(folder).logits, stored_llama.reference(plain), rtol=1e-4, atol=1e-4)


def test_bits_count_from_the_low_end_of_each_byte() -> None:
    from evalcard_engine.checkpoint.sparse24 import expand

    tensors = {
        "compressed": torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]),
        "bitmask": torch.tensor([[0b1001_0011, 0b0000_0110]], dtype=torch.uint8),
        "shape": torch.tensor([[1], [12]]),
    }
    assert expand("m", (1, 12), tensors).tolist() == [[1, 2, 0, 0, 3, 0, 0, 4, 0, 5, 6, 0]]


MODULE = "model.layers.1.mlp.up_proj"
FAULTS: dict[str, tuple[str, Any, str]] = {
    "values": ("compressed", torch.ones(208, 40), f"{MODULE}.compressed is F32 [208, 40], not F32 [208, 48]"),
    "mask": ("bitmask", torch.ones(208, 13, dtype=torch.uint8), f"{MODULE}.bitmask is U8 [208, 13], not U8 [208, 12]"),
    "no mask": ("bitmask", None, f"{MODULE}: bitmask missing"),
    "no shape": ("shape", None, f"{MODULE}: shape missing"),
    "other mask": ("bitmask", torch.zeros(208, 12, dtype=torch.uint8), "does not keep two of every four weights"),
    "other shape": ("shape", torch.tensor([96, 208]), f"{MODULE}: shape is [96, 208]"),
    "twice": ("weight", torch.ones(208, 96), f"{MODULE}: its weight is stored twice"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_name_the_layer(stored_llama, name: str) -> None:
    leaf, value, expected = FAULTS[name]
    make_sparse(stored_llama, torch.float32)
    if value is None:
        del stored_llama.tensors[f"{MODULE}.{leaf}"]
    else:
        stored_llama.tensors[f"{MODULE}.{leaf}"] = value
    with pytest.raises(EngineError, match=MODULE) as caught:
        open_model(str(stored_llama.save(config())), dtype="float32", device="cpu", scheme=None)
    assert expected in str(caught.value)


@pytest.mark.parametrize("left_over", [None, {"format": "dense", "targets": ["Linear"]}])
def test_sparse_tensors_that_the_config_does_not_name_are_a_fault(stored_llama, left_over: Any) -> None:
    make_sparse(stored_llama, torch.float32)
    settings = config(CHANNEL8, sparsity_config=left_over)
    with pytest.raises(EngineError, match="is 2:4 sparse, but sparsity_config says it is not") as caught:
        open_model(str(stored_llama.save(settings)), dtype="float32", device="cpu", scheme=None)
    assert "(14): model.layers.0." in str(caught.value)
