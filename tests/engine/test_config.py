"""What a caller may ask of an engine, and what it becomes on a device."""

import pytest

from evalcard_engine.config import EngineConfig
from evalcard_engine.errors import EngineError


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("dtype", "int3", "dtype is 'int3'; it must be one of auto, float32"),
        ("device", "tpu", "device is 'tpu'"),
        ("weights", "tiny", "weights is 'tiny'; it must be one of auto, packed, expanded"),
        ("page_size", 48, "page_size is 48; it must divide 256"),
        ("page_size", 0, "page_size is 0"),
        ("page_size", 512, "page_size is 512"),
        ("kv_memory", 0, "kv_memory is 0"),
        ("step_tokens", -1, "step_tokens is -1"),
        ("max_sequences", 2.5, "max_sequences is 2.5"),
        ("threads", 0, "threads is 0"),
    ],
)
def test_values_that_make_no_sense_are_refused_when_the_config_is_made(field, value, words):
    with pytest.raises(EngineError, match=words):
        EngineConfig(**{field: value})


def test_unknown_keys_and_changes_are_refused():
    with pytest.raises(TypeError):
        EngineConfig(batch_size=3)
    with pytest.raises(AttributeError):
        EngineConfig().threads = 3


def test_resolving_fills_in_the_device_defaults_and_keeps_what_was_asked():
    assert EngineConfig().resolve("cpu", 512) == EngineConfig(device="cpu", step_tokens=512, max_sequences=64)
    asked = EngineConfig(step_tokens=100, max_sequences=7, dtype="float16", threads=3)
    resolved = asked.resolve("cuda", 8192)
    assert (resolved.step_tokens, resolved.max_sequences, resolved.dtype, resolved.threads) == (100, 7, "float16", 3)


def test_a_small_step_lowers_the_default_number_of_sequences_but_not_an_asked_one():
    assert EngineConfig(step_tokens=5).resolve("cpu", 512).max_sequences == 5
    with pytest.raises(EngineError, match="Raise step_tokens to at least 6"):
        EngineConfig(step_tokens=5, max_sequences=6).resolve("cpu", 512)


@pytest.mark.parametrize("vocab", [100, 49152, 151936])
def test_rows_of_logits_stay_within_their_memory_and_cover_every_sequence(vocab):
    rows = EngineConfig().resolve("cpu", 512).step_logits(vocab)
    assert rows * vocab * 4 <= 256 << 20 and rows >= 64
    assert EngineConfig(step_tokens=10_000, max_sequences=9000).resolve("cpu", 512).step_logits(151936) == 9000
