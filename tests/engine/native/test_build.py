"""What is compiled is kept, compiled anew where it must be, and done without where it cannot be had."""

import os
import stat
from pathlib import Path

import pytest

from evalcard_engine.arithmetic import cpu_plans
from evalcard_engine.native import build


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch) -> Path:
    """A cache of the test's own, in a process that has built nothing yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(build.SWITCH, raising=False)
    monkeypatch.delenv("CC", raising=False)
    build.built.cache_clear()
    yield tmp_path / "cache" / "evalcard-engine"
    build.built.cache_clear()


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def _needs_compiler() -> None:
    if cpu_plans.cpu_features() not in build.CPU_FLAGS:
        pytest.skip(f"nothing is compiled for {cpu_plans.cpu_features()}")
    if build.find_compiler() is None:
        pytest.skip("no C compiler")


@pytest.mark.usefixtures("_needs_compiler")
def test_it_is_compiled_once(cache: Path, monkeypatch) -> None:
    first = build.built("attention")
    assert first.library is not None, first.words
    (kept,) = cache.iterdir()
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    build.built.cache_clear()
    monkeypatch.setattr(build, "_run", lambda command: pytest.fail(f"compiled again: {command}"))
    assert build.built("attention").words == first.words
    assert list(cache.iterdir()) == [kept]


@pytest.mark.usefixtures("_needs_compiler")
def test_what_files_share_is_part_of_their_name(tmp_path: Path, monkeypatch) -> None:
    first, shared = build.built("linear"), build.headers()
    assert {path.name for path in shared} >= {"products.h", "straight.h", "vectors.h"}
    changed = tmp_path / shared[0].name
    changed.write_bytes(shared[0].read_bytes() + b"\n")
    monkeypatch.setattr(build, "headers", lambda: [changed, *shared[1:]])
    build.built.cache_clear()
    assert build.built("linear").words != first.words


@pytest.mark.usefixtures("_needs_compiler")
def test_a_file_that_was_cut_off_is_made_anew(cache: Path) -> None:
    build.built("attention")
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.unlink()  # the loaded one keeps its own
    kept.write_bytes(whole[:100])
    build.built.cache_clear()
    assert build.built("attention").library is not None
    assert kept.read_bytes() == whole


@pytest.mark.usefixtures("_needs_compiler")
def test_another_compiler_makes_a_file_of_its_own(cache: Path, tmp_path: Path, monkeypatch) -> None:
    first = build.built("attention")
    real = build.find_compiler()
    assert real is not None
    says = f'if [ "$1" = --version ]; then echo "mycc 99.1"; else exec {real.path} "$@"; fi'
    monkeypatch.setenv("CC", script(tmp_path / "mycc", says))
    build.built.cache_clear()
    second = build.built("attention")
    assert second.library is not None and second.words.startswith("mycc 99.1 ") and second.words != first.words
    assert len(list(cache.iterdir())) == 2


@pytest.mark.usefixtures("_needs_compiler")
def test_without_a_cache_it_is_compiled_for_the_process_alone(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    assert build.cache_folder() is None
    assert build.built("attention").library is not None


@pytest.mark.usefixtures("_needs_compiler")
def test_a_folder_that_others_may_write_to_is_not_trusted(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert build.cache_folder() is None
    assert build.built("attention").library is not None
    assert not list(cache.iterdir())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('[ "$1" = --version ] && echo "badcc 1.0" && exit 0; echo "error: it burns" >&2; exit 1', "it burns"),
        ('[ "$1" = --version ] && echo "badcc 1.0"; exit 0', "badcc 1.0 failed"),
    ],
)
def test_a_compiler_that_fails_is_told_of(tmp_path: Path, cache: Path, monkeypatch, body: str, reason: str) -> None:
    """One that ends with an error, and one that does nothing and says it is done."""
    if cpu_plans.cpu_features() not in build.CPU_FLAGS:
        pytest.skip("nothing is compiled here")
    monkeypatch.setenv("CC", script(tmp_path / "badcc", body))
    found = build.built("attention")
    assert found.library is None and reason in found.words and "badcc" in found.words
    assert not list(cache.iterdir())


def test_no_compiler_is_no_error(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = build.built("attention")
    assert found.library is None and found.words


def test_it_can_be_switched_off(monkeypatch) -> None:
    monkeypatch.setenv(build.SWITCH, "0")
    assert build.built("attention") == build.Built(None, f"{build.SWITCH}=0")


def test_other_processors_do_without(monkeypatch) -> None:
    monkeypatch.setattr(build, "cpu_features", lambda: "avx2")
    assert "avx2" in build.built("attention").words


def test_a_home_that_is_missing_is_no_error(monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert build.cache_folder() is None
    assert os.getuid() >= 0
