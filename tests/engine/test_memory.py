"""How much memory there is, read from files as Linux and its containers write them."""

import subprocess
import sys

import pytest

from evalcard_engine.memory import CPU_SHARE, available_memory, kv_budget

GIB = 1 << 30


@pytest.fixture
def system(tmp_path):
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    proc.mkdir()
    (cgroup / "memory").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: {64 * 1024 * 1024} kB\nMemAvailable: {32 * 1024 * 1024} kB\n")
    return proc, cgroup


def test_without_a_container_the_machine_decides(system):
    assert available_memory(*system) == 32 * GIB


def test_version_2_counts_inactive_file_cache_as_free(system):
    _, cgroup = system
    (cgroup / "memory.max").write_text(f"{8 * GIB}\n")
    (cgroup / "memory.current").write_text(f"{5 * GIB}\n")
    (cgroup / "memory.stat").write_text(f"anon 1\ninactive_file {GIB}\n")
    assert available_memory(*system) == 4 * GIB


def test_version_2_without_a_limit_leaves_it_to_the_machine(system):
    _, cgroup = system
    for name, text in {"memory.max": "max\n", "memory.current": "5\n", "memory.stat": "inactive_file 0\n"}.items():
        (cgroup / name).write_text(text)
    assert available_memory(*system) == 32 * GIB


@pytest.mark.parametrize(("limit", "expected"), [(8 * GIB, 3 * GIB + 100), (0x7FFFFFFFFFFFF000, 32 * GIB)])
def test_version_1_and_its_way_of_saying_unlimited(system, limit, expected):
    _, cgroup = system
    (cgroup / "memory/memory.limit_in_bytes").write_text(f"{limit}\n")
    (cgroup / "memory/memory.usage_in_bytes").write_text(f"{5 * GIB}\n")
    (cgroup / "memory/memory.stat").write_text("inactive_file 7\ntotal_inactive_file 100\n")
    assert available_memory(*system) == expected


def test_a_container_over_its_limit_has_nothing_left(system):
    _, cgroup = system
    for name, text in {"memory.max": "100\n", "memory.current": "500\n", "memory.stat": "inactive_file 3\n"}.items():
        (cgroup / name).write_text(text)
    assert available_memory(*system) == 0


def test_the_cpu_budget_is_the_stated_share_of_this_machine():
    assert 0 < kv_budget("cpu") < 2 * CPU_SHARE * available_memory()


def test_freed_memory_is_kept_where_the_c_library_is_glibc() -> None:
    """In a process of its own: the setting cannot be taken back."""
    code = (
        "import resource, torch\n"
        "from evalcard_engine.memory import keep_freed_memory\n"
        "kept = keep_freed_memory()\n"
        "def faults():\n"
        "    start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    for _ in range(50):\n"
        "        torch.empty(4 << 20, dtype=torch.uint8).fill_(1)\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start\n"
        "faults()\n"
        "print(int(kept), faults())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kept, faults = map(int, done.stdout.split())
    if not kept:
        pytest.skip("the C library is not glibc")
    assert faults < 1024, "50 tensors of 1024 pages each touch old pages"


def test_a_limit_of_the_process_itself(system, monkeypatch):
    import resource

    proc, cgroup = system
    (proc / "self").mkdir()
    (proc / "self" / "statm").write_text("1000 10 5 1 0 20 0\n")
    used = 1000 * resource.getpagesize()
    for limit, left in ((used + 5 * GIB, 5 * GIB), (used - 1, 0), (resource.RLIM_INFINITY, 32 * GIB)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert available_memory(proc, cgroup) == left
