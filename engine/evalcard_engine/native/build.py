"""Compiles a C file of this package once for each compiler and kind of CPU, and loads it.

The result lies in the user's cache under a digest of everything that could change it: the source, the flags, and what
the compiler says of itself.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evalcard_engine.arithmetic.cpu_plans import cpu_features

SWITCH = "EVALCARD_ENGINE_COMPILE"
"""Environment variable: 0 leaves out everything that has to be compiled."""

COMPILERS = ("cc", "gcc", "clang")
"""Looked for in this order, after what CC names."""

AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma")

CPU_FLAGS: dict[str, tuple[str, ...]] = {
    "amx": (*AVX512, "-mavx512bf16"),
    "avx512_bf16+vnni": (*AVX512, "-mavx512bf16"),
    "avx512+vnni": AVX512,
    "avx512": AVX512,
}
"""By the feature sets of CPU_PLANS; others have no code here. Never ``native``: a cache may be shared by machines."""

FLAGS = ("-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fopenmp", "-fPIC")
"""Nothing that reorders sums: what a row gives must not depend on what a compiler makes of its neighbours."""

TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Compiler:
    path: str
    version: str
    """The first line it says of itself."""

    @property
    def name(self) -> str:
        """Its program and version number, for the numerics string."""
        return f"{Path(self.path).name} {next((w for w in reversed(self.version.split()) if w[0].isdigit()), '?')}"


@dataclass(frozen=True, slots=True)
class Built:
    """A library that was compiled and loaded, or why there is none."""

    library: ctypes.CDLL | None
    words: str
    """Which compiler and source it is, for the numerics string; without a library, the reason."""


@cache
def built(name: str) -> Built:
    """The library of ``<name>.c`` of this package. Compiles it where the cache lacks it, which takes some seconds."""
    if is_switched_off():
        return Built(None, f"{SWITCH}=0")
    features = cpu_features()
    if features not in CPU_FLAGS or platform.system() != "Linux":
        return Built(None, f"not written for {platform.system()} on {features}")
    compiler = find_compiler()
    if compiler is None:
        return Built(None, "no C compiler found")
    source = Path(__file__).with_name(f"{name}.c")
    flags = (*FLAGS, *CPU_FLAGS[features])
    told = ["\0".join((*flags, compiler.version)).encode(), *(path.read_bytes() for path in (source, *headers()))]
    digest = hashlib.sha256(b"".join(told)).hexdigest()[:16]
    try:
        library = _load(compiler, source, flags, f"{name}-{digest}.so")
    except (OSError, subprocess.SubprocessError) as error:
        return Built(None, f"{compiler.name} failed: {_last_words(error)}")
    return Built(library, f"{compiler.name} {digest[:8]}")


def headers() -> list[Path]:
    """What the C files share."""
    return sorted(Path(__file__).parent.glob("*.h"))


def is_switched_off() -> bool:
    return os.environ.get(SWITCH, "1").strip() == "0"


def find_compiler() -> Compiler | None:
    """The first compiler that can be asked for its version."""
    named = os.environ.get("CC", "").strip()
    for name in (*([named] if named else []), *COMPILERS):
        path = shutil.which(name)
        if path is None:
            continue
        if version := _version_of(path):
            return Compiler(path, version)
    return None


@cache
def _version_of(path: str) -> str:
    """The first line that a compiler says of itself; empty where it cannot be asked. Once for all libraries."""
    try:
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(iter(asked.stdout.strip().splitlines()), "")


def _load(compiler: Compiler, source: Path, flags: tuple[str, ...], file: str) -> ctypes.CDLL:
    folder = cache_folder()
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="evalcard-engine-") as temporary:
            return _compile(compiler, source, flags, Path(temporary) / file)
    path = folder / file
    if path.exists():
        with suppress(OSError):  # cut off, or linked to what is not here
            return ctypes.CDLL(str(path))
    return _compile(compiler, source, flags, path)


def _compile(compiler: Compiler, source: Path, flags: tuple[str, ...], path: Path) -> ctypes.CDLL:
    """Two at once do no harm: each writes a file of its own, and puts it in place as a whole once it has loaded it."""
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".so.tmp")
    os.close(descriptor)
    objects = f"{made}.o"
    try:
        # Without -fopenmp at the second step OpenMP is that of torch, which is loaded already: a second one would bring
        # threads of its own, which wait for work by spinning.
        _run([compiler.path, *flags, "-c", str(source), "-o", objects])
        _run([compiler.path, "-shared", "-s", objects, "-o", made])
        library = ctypes.CDLL(made)
        os.replace(made, path)
    finally:
        for left in (made, objects):
            Path(left).unlink(missing_ok=True)
    return library


def _run(command: list[str]) -> None:
    subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)


def cache_folder() -> Path | None:
    """Where libraries are kept: a folder of the user's own, that nobody else may write to; None where there is none."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    folder = (Path(base) if base else Path.home() / ".cache") / "evalcard-engine"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):
        return None
    is_safe = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if is_safe and os.access(folder, os.W_OK) else None


def _last_words(error: Exception) -> str:
    said = getattr(error, "stderr", None) or str(error)
    lines = [line for line in str(said).strip().splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else type(error).__name__
