"""The name of a CPU's instruction sets, and its line of the table."""

import pytest
import torch

from evalcard_engine.arithmetic import cpu_plans


@pytest.mark.parametrize(
    ("capability", "probes", "name"),
    [
        ("AVX2", {}, "avx2"),
        ("DEFAULT", {}, "base"),
        ("AVX512", {}, "avx512"),
        ("AVX512", {"_is_vnni_supported": True}, "avx512+vnni"),
        ("AVX512", {"_is_vnni_supported": True, "_is_avx512_bf16_supported": True}, "avx512_bf16+vnni"),
        ("AVX512", {"_is_amx_tile_supported": True, "_is_avx512_bf16_supported": True}, "amx"),
    ],
)
def test_features_by_instruction_set(monkeypatch: pytest.MonkeyPatch, capability: str, probes, name: str) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(cpu_plans, "_has", lambda *names: any(probes.get(probe) for probe in names))
    cpu_plans.cpu_features.cache_clear()
    try:
        assert cpu_plans.cpu_features() == name and name in cpu_plans.CPU_PLANS
    finally:
        cpu_plans.cpu_features.cache_clear()
