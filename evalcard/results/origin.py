"""Where a result comes from: versions, hardware, git state. No host name, no user, no path."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("evalcard", "torch", "transformers", "lm_eval", "datasets", "math-verify", "numpy", "tokenizers", "triton")
_GIT_SECONDS = 5


def versions() -> dict[str, str]:
    """Python and the packages that can change a number; absent ones are left out."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, str | int]:
    """Processor name, usable cores and memory in GiB."""
    facts: dict[str, str | int] = {"machine": platform.machine(), "cores": len(os.sched_getaffinity(0))}
    if name := _processor():
        facts["cpu"] = name
    facts["memory_gib"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    return facts


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None)


def git_state(folder: Path) -> dict[str, str | bool] | None:
    """Commit and dirty flag of the checkout that holds ``folder``; None where it is none, or git is not there."""
    commit = _git(folder, "rev-parse", "HEAD")
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return None if commit is None or status is None else {"commit": commit, "dirty": bool(status)}


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=_GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
