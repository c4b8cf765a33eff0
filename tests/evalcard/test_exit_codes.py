"""docs/results.md lists every exit code that there is, and no page names another."""

import importlib
import re
from pathlib import Path

import pytest

from evalcard.cli.main import COMMANDS, INTERNAL_ERROR, INTERRUPTED
from evalcard.errors import Interrupted, UserError
from evalcard.gate.verdict import EXIT_CODES

DOCS = Path(__file__).parents[2] / "docs"
SELDOM = ["evalcard.card.hub.faults", "evalcard.tasks.data.roots", "evalcard.tasks.prompts.lengths"]
"""Where errors with codes of their own may be, beside errors.py."""
_OF_ALL = (0, 2)
"""What any command may end with."""


def listed(page: str) -> dict[int, str]:
    """Code -> the rest of its row, of the table below a page's heading."""
    section = (DOCS / page).read_text(encoding="utf-8").partition("## Exit codes\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\d, ]+) \|(.*)\|$", section, flags=re.MULTILINE)
    return {int(code): rest for codes, rest in rows for code in codes.split(",")}


def kinds(kind: type[UserError]) -> list[type[UserError]]:
    return [kind, *(one for below in kind.__subclasses__() for one in kinds(below))]


def test_every_code_of_the_source_is_listed_and_no_other():
    for module in SELDOM:
        importlib.import_module(module)
    raised = {kind.exit_code for kind in kinds(UserError) if kind.__module__.startswith("evalcard.")}
    assert {2, 4, 5} <= raised
    known = raised | set(EXIT_CODES.values()) | {INTERNAL_ERROR, INTERRUPTED, Interrupted.exit_code}
    assert set(listed("results.md")) == known


@pytest.mark.parametrize("page", ["ci.md", "publishing.md"])
def test_other_pages_name_listed_codes_and_the_list(page: str):
    codes = listed(page)
    assert codes and set(codes) <= set(listed("results.md"))
    assert "results.md#exit-codes" in (DOCS / page).read_text(encoding="utf-8")


def test_the_commands_that_help_says_end_with_a_code_are_in_its_row():
    """``run --help`` and its like name codes, too."""
    rows = listed("results.md")
    for name, (module, _) in COMMANDS.items():
        said = (importlib.import_module(module).command.help or "").partition("Exit code")[2]
        for code in {int(one) for one in re.findall(r"\b(\d+)(?=:| passed| failed| inconclusive| cannot)", said)}:
            assert code in rows and (code in _OF_ALL or "`" not in rows[code] or f"`{name}`" in rows[code]), (
                name,
                code,
            )
