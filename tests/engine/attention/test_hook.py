"""The attention function as transformers calls it: what it stores, what it returns, what it refuses."""

from types import SimpleNamespace

import pytest
import torch

from evalcard_engine.attention import torch_ref
from evalcard_engine.attention.hook import ATTENTION_NAME, STEP_ARGUMENT, packed_attention, prepare_step, register
from evalcard_engine.attention.rules import LayerRule
from evalcard_engine.batch import Batch, Span
from evalcard_engine.cache.kv_codes import KVCodes
from evalcard_engine.cache.pool import KVPool, KVShape

LAYER = SimpleNamespace(layer_idx=1)


def step(pool: KVPool, window=None):
    place = torch.arange(5)
    batch = Batch(place, place, place + 8, place[:0], (Span(0, 5, 0, (1,)),), 8)
    return batch, prepare_step(batch, pool, 4, 2, (LayerRule(), LayerRule(window)))


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(1, 4, 5, 16, generator=generator)
    key, value = torch.randn(1, 2, 5, 16, generator=generator), torch.randn(1, 2, 5, 12, generator=generator)
    return query, key, value


@pytest.mark.parametrize("window", [None, 2])
def test_stores_and_attends(window: int | None) -> None:
    pool = KVPool([KVShape(2, 16, 12)] * 2, 3, 8, torch.float32, "cpu")
    batch, made = step(pool, window)
    query, key, value = tensors()
    out, weights = packed_attention(
        LAYER, query, key, value, None, scaling=0.2, sliding_window=window, **{STEP_ARGUMENT: made}
    )
    assert weights is None and out.shape == (1, 5, 4, 12)
    assert torch.equal(pool.keys[1][1, :, :5], key[0]) and torch.equal(pool.values[1][1, :, :5], value[0])
    assert not pool.keys[0].any()
    expected = torch_ref.attend(query[0].transpose(0, 1), pool, 1, batch, scale=0.2, window=window, dtype=torch.float64)
    torch.testing.assert_close(out[0].double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("codes", [KVCodes("fp8_e4m3", 1.0, 0.5), KVCodes("int8")], ids=str)
def test_the_step_that_computes_keys_and_values_sees_them_rounded(codes: KVCodes) -> None:
    """Else an answer would depend on whether a prefix was computed here or found in the cache."""
    pool = KVPool([KVShape(2, 16, 12)] * 2, 3, 8, torch.float32, "cpu", [codes] * 2)
    query, key, value = tensors()
    out, _ = packed_attention(LAYER, query, key, value, None, scaling=0.2, **{STEP_ARGUMENT: step(pool)[1]})
    rounded = KVPool([KVShape(2, 16, 12)] * 2, 3, 8, torch.float32, "cpu")
    stored = pool.read_keys(1, 1)[None, :, :5], pool.read_values(1, 1)[None, :, :5]
    assert not torch.equal(stored[0], key) and not torch.equal(stored[1], value)
    again, _ = packed_attention(LAYER, query, *stored, None, scaling=0.2, **{STEP_ARGUMENT: step(rounded)[1]})
    assert torch.equal(out, again)


def test_a_mask_is_a_mistake_of_ours() -> None:
    pool = KVPool([KVShape(2, 16, 12)] * 2, 3, 8, torch.float32, "cpu")
    with pytest.raises(AssertionError):
        packed_attention(LAYER, *tensors(), torch.zeros(1), scaling=0.2, **{STEP_ARGUMENT: step(pool)[1]})


def test_the_name_is_registered_and_has_no_mask() -> None:
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    register()
    register()
    assert ALL_ATTENTION_FUNCTIONS[ATTENTION_NAME] is packed_attention
    assert ATTENTION_NAME not in ALL_MASK_ATTENTION_FUNCTIONS
    assert not any(word in ATTENTION_NAME for word in ("flash", "sdpa", "paged"))
