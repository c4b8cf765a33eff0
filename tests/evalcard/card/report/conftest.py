"""Pages of made-up runs, and a headless Chromium to read them in."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalcard.card.figures import Figure
from evalcard.card.report.asked import Asked
from evalcard.card.report.build import write_report
from evalcard.compare.comparison import compare_run
from evalcard.results.store import RunFolder

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360"
    "00000002000148afa4710000000049454e44ae426082"
)
"""A PNG of one pixel."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def with_comparison(path: Path) -> RunFolder:
    """The run with its comparison written beside it, as its own command leaves it."""
    folder = RunFolder(path)
    run = folder.read_run()
    slugs, tasks = [model.slug for model in run.models], [task.name for task in run.tasks]
    verdicts = {slug: {task: folder.read_verdicts(slug, task) for task in tasks} for slug in slugs}
    samples = {slug: {task: list(folder.journal(slug, task).read().values()) for task in tasks} for slug in slugs}
    folder.write_comparison(compare_run(run, verdicts, samples))
    return folder


@pytest.fixture
def make_page(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """The report of a stored run (``conftest.StoredRun``): ``asked`` stands for its task files, a dot for its figures,
    which take seconds to draw."""
    dot = Figure("dot", "A dot", PIXEL, PIXEL)
    monkeypatch.setattr("evalcard.card.report.view.figures_of", lambda *_: [dot])

    def make(stored: Any, asked: Asked | None = None) -> Path:
        given = asked or Asked(missing=["there are no task files"])
        monkeypatch.setattr("evalcard.card.report.build.read_asked", lambda *_: given)
        return write_report(with_comparison(stored.write())).path

    return make


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"there is no {', '.join(NAMES)} on the PATH")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page with all that it tried to do: requests, dialogs, errors, and what its policy kept it from."""

    def __init__(self, browser: Any, file: Path, address: str, options: dict[str, Any]):
        self.page = browser.new_page(**({"viewport": {"width": 1200, "height": 800}} | options))
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dialog)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.goto(f"{file.resolve().as_uri()}{address}")
        self.page.wait_for_selector("html[data-ready]")

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    @property
    def network(self) -> list[str]:
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]

    def rows(self) -> list[str]:
        """Ids of the rows that are in the document, in their order."""
        return [text.strip() for text in self.page.locator("#list .row .id").all_inner_texts()]

    def chosen(self) -> str:
        return str(self.page.locator('#list [aria-selected="true"] .id').inner_text())

    def detail(self, name: str) -> None:
        """Wait until the detail shows this item."""
        self.page.locator("#detail h3", has_text=name).wait_for()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Opened]]:
    opened: list[Opened] = []

    def go(file: Path, address: str = "", **options: Any) -> Opened:
        opened.append(Opened(chromium, file, address, options))
        return opened[-1]

    yield go
    for one in opened:
        one.page.close()
