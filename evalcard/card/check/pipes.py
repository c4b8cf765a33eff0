"""Markdown's pipe tables, as GitHub's flavour and the Hub read them."""

import re
from collections.abc import Sequence

from evalcard.card.check.grid import Cell, Grid, make_grid, plain
from evalcard.card.check.problem import Problem

_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_QUOTE = re.compile(r"\s{0,3}(?:>\s?)+")
_OTHER_BLOCK = re.compile(r" {0,3}(?:#{1,6}\s|>|`{3}|~{3}|<[A-Za-z/!]|[-*+]\s|\d+[.)]\s)")
_PIPE = re.compile(r"(?<!\\)\|")


def pipe_tables(lines: Sequence[str]) -> tuple[list[Grid], list[Problem]]:
    """All tables of a card's prose, and those that are meant as one and are shown as text. Lines count from 1."""
    grids: list[Grid] = []
    problems: list[Problem] = []
    unquoted = [_QUOTE.sub("", line) if line.lstrip().startswith(">") else line for line in lines]
    at = 0
    while at + 1 < len(unquoted):
        if not _is_head(unquoted[at], unquoted[at + 1]):
            at += 1
            continue
        columns, rules = len(_split(unquoted[at])), len(_split(unquoted[at + 1]))
        end = _end_of(unquoted, at + 2)
        if columns == rules:
            body = [_cells(unquoted[number], number + 1)[:columns] for number in range(at + 2, end)]
            grid = make_grid(at + 1, [_cells(unquoted[at], at + 1)], body)
            grids += [grid] if grid else []
        else:
            what = f"its header has {columns} columns and the line below it {rules}, so that it is shown as text"
            problems.append(Problem(at + 1, f"table on line {at + 1}", what, "Give both as many.", "error"))
        at = end
    return grids, problems


def _is_head(line: str, below: str) -> bool:
    if not _PIPE.search(line) or not _RULE.fullmatch(below) or line.startswith("    "):
        return False
    return "|" in below and not _RULE.fullmatch(line)


def _end_of(lines: Sequence[str], at: int) -> int:
    while at < len(lines) and lines[at].strip() and not (_OTHER_BLOCK.match(lines[at]) and "|" not in lines[at]):
        at += 1
    return at


def _split(line: str) -> list[str]:
    """Cells as written; a pipe behind a backslash parts nothing."""
    text = line.strip()
    parts = _PIPE.split(text)
    if parts and not parts[0].strip() and text.startswith("|"):
        parts = parts[1:]
    if parts and not parts[-1].strip() and _PIPE.match(text, len(text) - 1) and not text.endswith("\\|"):
        parts = parts[:-1]
    return parts


def _cells(line: str, number: int) -> list[Cell]:
    return [Cell(plain(part), number) for part in _split(line)]
