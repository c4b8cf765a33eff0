"""Folders that ship with evalcard: task files and templates, from the installed package or from a checkout."""

import importlib.resources
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[1]


def task_files() -> Path:
    """Folder of our task files; ``data/`` below it holds our own data sets."""
    return _folder("evalcard.task_files", "tasks")


def card_templates() -> Path:
    """Folder of the Jinja templates of cards and reports."""
    return _folder("evalcard.card_templates", "templates")


def demo_model() -> Path:
    """Folder of the bundled demo model."""
    return Path(__file__).resolve().parent / "demo" / "model"


def _folder(package: str, in_checkout: str) -> Path:
    """The package's folder; a clone that is run without being installed has no such package, only the folder."""
    try:
        folder = Path(str(importlib.resources.files(package)))
    except ModuleNotFoundError:
        folder = _CHECKOUT / in_checkout
    assert folder.is_dir(), (package, folder)
    return folder
