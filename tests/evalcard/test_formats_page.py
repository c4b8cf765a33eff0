"""docs/formats.md names every format and scheme that there is, and none that there is not."""

import re
from pathlib import Path

import pytest

from evalcard_engine.checkpoint.formats import FORMATS
from evalcard_engine.checkpoint.gguf_blocks import BLOCK_TYPES
from evalcard_engine.quant.scheme import ALIASES, SCHEMES, parse_scheme

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def rows(title: str) -> list[list[str]]:
    """Cells of the first table below a heading, without its head."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def spelled(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_format():
    named = [name for row in rows("Formats that are read") for name in spelled(row[0])]
    assert sorted(named) == sorted(FORMATS)


def test_every_type_of_gguf():
    read = next(row[2] for row in rows("Formats that are read") if "gguf" in row[0])
    assert set(re.findall(r"\bI?Q\d\w*", read)) == set(BLOCK_TYPES)


def test_every_scheme_with_its_other_names():
    table = {name: spelled(row[3]) for row in rows("Schemes that are applied on the fly") for name in spelled(row[0])}
    assert list(table) == list(SCHEMES)
    assert {alias: name for name, aliases in table.items() for alias in aliases} == ALIASES


@pytest.mark.parametrize("text", ["sparse24", "sparse24+fp8", "w4a16+head=w8", "w8a8+kv=int8", "kv=fp8", "w8a16-g32",
                                  "w4a16_asym-channel", "w4a16-g128"])  # fmt: skip
def test_parts_that_the_page_joins(text: str):
    assert parse_scheme(text).title
