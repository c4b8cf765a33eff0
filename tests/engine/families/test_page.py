"""docs/engine.md names every family that there is, and none that there is not."""

import re
from pathlib import Path

from evalcard_engine.families import FAMILIES

PAGE = Path(__file__).parents[3] / "docs" / "engine.md"


def test_every_family() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Families\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")][2:]
    assert sorted(name for row in rows for name in re.findall(r"`([^`]+)`", row)) == sorted(FAMILIES)
