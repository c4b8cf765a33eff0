"""What a CPU is given to do, by the instruction sets it has: a committed table, so that answers can be keyed by it."""

import platform
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch


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
