"""Shipped folders are found, installed or not."""

import importlib.resources
from pathlib import Path

import pytest

from evalcard import resources

ROOT = Path(__file__).parents[2]


def test_folders_hold_what_ships():
    assert (resources.task_files() / "demo" / "demo.yaml").is_file()
    assert (resources.task_files() / "data").is_dir()
    assert (resources.card_templates() / "__init__.py").is_file()


def test_a_clone_that_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    def no_package(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib.resources, "files", no_package)
    assert resources.task_files() == ROOT / "tasks"
    assert resources.card_templates() == ROOT / "templates"


def test_an_installed_package_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(importlib.resources, "files", lambda name: tmp_path)
    assert resources.task_files() == tmp_path
