"""Main memory: how much of it the KV cache may take when nobody said, and that what is freed is used again."""

import ctypes
import os
from pathlib import Path

import torch

CPU_SHARE = 0.5
"""Of available main memory: tasks, texts and other processes live there too."""
CUDA_SHARE = 0.9
"""Of free GPU memory: the rest is for activations."""

_CGROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)
_UNLIMITED = 1 << 60
_KEPT_BYTES = 1 << 30
_MALLOC_OPTIONS = ((-1, _KEPT_BYTES), (-3, 32 << 20))
"""(M_TRIM_THRESHOLD, M_MMAP_THRESHOLD) of mallopt(3); 32 MiB is the most the second may be."""


def kv_budget(device: str) -> int:
    """Bytes for keys and values on ``device`` ("cpu" or "cuda")."""
    return int((CUDA_SHARE if device == "cuda" else CPU_SHARE) * free_memory(device))


def free_memory(device: str) -> int:
    """Bytes that may still be had on ``device`` ("cpu" or "cuda")."""
    if device == "cuda":
        free, _ = torch.cuda.mem_get_info()
        return int(free)
    return available_memory()


def keep_freed_memory() -> bool:
    """Let the C library keep what tensors free instead of giving it back and asking for it again, zeroed page by page,
    in every layer; says whether it could. Only glibc is asked, for the whole process; memory of past steps stays with
    it, up to _KEPT_BYTES."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return all(mallopt(option, value) == 1 for option, value in _MALLOC_OPTIONS)


def available_memory(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of main memory this process could still take: what the machine, its container or its own limit (ulimit -v)
    leaves, whichever is least."""
    bounds = [_machine_available(proc), *(_cgroup_available(cgroup, names) for names in _CGROUP_FILES)]
    return min(bound for bound in (*bounds, _limit_available(proc)) if bound is not None)


def _limit_available(proc: Path) -> int | None:
    """What the process's own limit of addresses leaves; None where there is none, or the system has no such thing."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        used = int((proc / "self" / "statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return None
    return None if limit == resource.RLIM_INFINITY else max(0, limit - used)


def _machine_available(proc: Path) -> int:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        # Not Linux: physical memory is all that can be asked for portably.
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024


def _cgroup_available(root: Path, names: tuple[str, str, str]) -> int | None:
    """What a cgroup leaves, file cache counted as free; None where there is no such limit."""
    try:
        limit = (root / names[0]).read_text().strip()
        usage = int((root / names[1]).read_text())
        stat = (root / names[2]).read_text()
    except OSError:
        return None
    if limit == "max" or int(limit) >= _UNLIMITED:
        return None
    values = dict(line.split() for line in stat.splitlines())
    reclaimable = int(values.get("total_inactive_file", values.get("inactive_file", 0)))
    return max(0, int(limit) - usage + reclaimable)
