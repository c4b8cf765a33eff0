"""Python that task files name: does it exist, and whose is it? Found by reading source, never by importing it."""

import ast
import functools
import importlib.util
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evalcard.resources import task_files
from evalcard.tasks.files.catalog import harness_tasks_folder

FREE_MODULES = frozenset({"evalcard.tasks.gpqa", "lm_eval.api.metrics"})
"""Modules whose functions a task file may name freely: they compute with the texts they are handed. Of the harness's
tasks many evaluate or run them, which is harmless with those tasks' own documents only, and its classes and loaders
run what a file tells them to."""
_NAME = re.compile(r"[\w./-]+")


@dataclass(frozen=True, slots=True)
class Reference:
    """``!function MODULE.NAME`` in a file's line, or a value that leads to code in another way."""

    path: Path
    line: int
    text: str
    kind: Literal["function", "metric", "documents", "script", "prompt", "include"] = "function"

    @property
    def what(self) -> str:
        """For a message: the function and its file, or why a value means code."""
        if self.kind != "function":
            return _WHAT[self.kind].format(repr(self.text))
        file = source_of(self)
        return f"!function {self.text}" + (f" ({file})" if file else "")

    @property
    def module(self) -> str:
        return self.text.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.text.rpartition(".")[2]


_WHAT = {
    "metric": "metric {} is a script that the evaluate library would load and run",
    "documents": "dataset_path {} reads pickles or other files which may hold code",
    "script": "{} lets a data set's own script run",
    "prompt": "use_prompt {} takes templates from elsewhere, which run outside evalcard's sandbox",
    "include": "include {} brings in Python that is meant for that file's own documents only",
}


def is_shipped(path: Path) -> bool:
    """Whether the file is one of the installed harness's or of our own task files."""
    return any(path.resolve().is_relative_to(folder) for folder in _shipped_folders())


@functools.cache
def _shipped_folders() -> tuple[Path, Path]:
    return harness_tasks_folder().resolve(), task_files().resolve()


def source_of(reference: Reference) -> Path | None:
    """The Python file: beside the task file first, as the harness looks; None where there is none to read."""
    if beside := _beside(reference):
        return beside
    root, *parts = reference.module.split(".")
    try:
        spec = importlib.util.find_spec(root) if root else None
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not parts:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    for folder in spec.submodule_search_locations or ():
        for found in (Path(folder, *parts).with_suffix(".py"), Path(folder, *parts, "__init__.py")):
            if found.is_file():
                return found.resolve()
    return None


def _beside(reference: Reference) -> Path | None:
    path = (reference.path.parent / f"{reference.module.replace('.', '/')}.py").resolve()
    return path if reference.module and path.is_file() else None


def fault_of(reference: Reference) -> str | None:
    """Why the function cannot be had; None where it can, or where only running the module would tell."""
    if reference.kind != "function":
        return None
    if not _NAME.fullmatch(reference.text):
        return f"!function {reference.text!r} holds a space or another odd character; write it as FILE.FUNCTION"
    if not reference.module or not reference.name:
        return f"!function {reference.text!r} names no module; write it as FILE.FUNCTION"
    file = source_of(reference)
    root = reference.module.partition(".")[0]
    if file is None and ("." in reference.module or not _is_importable(root)):
        beside = reference.path.parent / f"{reference.module.replace('.', '/')}.py"
        return f"!function {reference.text}: there is no file {beside} and no installed module {reference.module}"
    if file is None:
        return None
    try:
        names = _defined(file)
    except SyntaxError as error:
        return f"!function {reference.text}: {file}, line {error.lineno}, is no Python: {error.msg}"
    except (OSError, ValueError) as error:
        return f"!function {reference.text}: cannot read {file}: {error}"
    if names is None or reference.name in names:
        return None
    return f"!function {reference.text}: {file} has no function {reference.name!r}"


def _is_importable(root: str) -> bool:
    try:
        return importlib.util.find_spec(root) is not None
    except (ImportError, ValueError):
        return False


@functools.lru_cache(maxsize=256)
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes(), filename=str(file))


def _defined(file: Path) -> set[str] | None:
    """Names at the module's top level; None where the source does not tell (``import *``, ``__getattr__``)."""
    names = set(_names(_tree(file).body))
    return None if names & {"*", "__getattr__"} else names


def _names(body: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        else:
            # assignments anywhere in the statement, and what stands under if, try, with, for
            yield from (
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            )
            for field in ("body", "orelse", "finalbody"):
                yield from _names(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from _names(handler.body)


def needs_trust(reference: Reference) -> bool:
    """Whether it is more than a plain function of the few modules that may be named freely; what such a module only
    imports, its classes and its inner helpers are not meant."""
    file = source_of(reference) if reference.kind == "function" else None
    if file is None or reference.module not in FREE_MODULES or reference.name.startswith("_") or _beside(reference):
        return True
    return reference.name not in {one.name for one in _tree(file).body if isinstance(one, ast.FunctionDef)}
