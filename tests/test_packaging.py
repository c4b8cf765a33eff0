"""What is installed is what is in the tree: wheel and editable install."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = {
    "evalcard": (
        "evalcard",
        ("**/*.py", "py.typed", "demo/model/*", "compare/health/*.json", "card/check/data/*.json"),
    ),
    "engine/evalcard_engine": ("evalcard_engine", ("**/*.py", "py.typed", "native/*.c", "native/*.h")),
    "tasks": ("evalcard/task_files", ("*.py", "**/*.yaml", "data/**/*.jsonl")),
    "templates": ("evalcard/card_templates", ("*.py", "**/*.j2", "report/*")),
}


def expected_files() -> set[str]:
    found = set()
    for folder, (package, patterns) in SHIPPED.items():
        base = ROOT / folder
        for pattern in patterns:
            found |= {f"{package}/{path.relative_to(base).as_posix()}" for path in base.glob(pattern) if path.is_file()}
    return {name for name in found if "__pycache__" not in name}


def clean_copy(target: Path) -> Path:
    """What goes into a build, without leftovers: setuptools picks up a stale build/ folder."""
    target.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("evalcard", "engine", "tasks", "templates"):
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target / name)
    return target


def test_wheel_holds_exactly_the_tree(tmp_path: Path):
    tree = clean_copy(tmp_path / "tree")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = expected_files()
    assert names == expected, (sorted(names - expected), sorted(expected - names))


def test_editable_install_finds_every_package(tmp_path: Path):
    tree = clean_copy(tmp_path / "tree")
    home = tmp_path / "env"
    venv.create(home, with_pip=False, system_site_packages=False)
    site = next(home.glob("lib/python*/site-packages"))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*install, "--target", str(site), "-e", str(tree)], capture_output=True, text=True)
    if done.returncode and "No module named pip" in done.stderr:
        pytest.skip("this environment has no pip")
    assert done.returncode == 0, done.stderr[-3000:]
    code = (
        "import evalcard, evalcard_engine, importlib.resources as r;"
        "print(r.files('evalcard.task_files').joinpath('__init__.py').is_file(),"
        "r.files('evalcard.card_templates').joinpath('__init__.py').is_file())"
    )
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run = subprocess.run([home / "bin/python", "-c", code], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert run.stdout.split() == ["True", "True"], run.stderr
