"""Shipped folders are found, installed or not."""

import importlib.resources
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evalcard import resources

ROOT = Path(__file__).parents[2]


def test_folders_hold_what_ships():
    assert (resources.task_files() / "demo" / "demo.yaml").is_file()
    assert (resources.task_files() / "data").is_dir()
    assert (resources.card_templates() / "__init__.py").is_file()


def test_a_clone_that_is_not_installed():
    code = "from evalcard import resources as r; print(r.task_files(), r.card_templates(), r.demo_model(), sep='\\n')"
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "engine")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=env)
    expected = [ROOT / "tasks", ROOT / "templates", ROOT / "evalcard" / "demo" / "model"]
    assert done.stdout.splitlines() == [str(path) for path in expected], done.stderr


def test_an_installed_package_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(importlib.resources, "files", lambda name: tmp_path)
    assert resources.task_files() == tmp_path
