"""A card's body without what is no prose: front matter, code and comments are blanked, and lines keep their numbers."""

import re

from evalcard.card.blocks import fence_end, fence_of

_LINE_END = re.compile(r"\r\n|\r|\n")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CODE_BLOCK = re.compile(r"<(pre|code)\b[^>]*>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)


def lines_of(text: str) -> list[str]:
    """The lines, whatever ends them; the first is number 1 elsewhere."""
    return _LINE_END.split(text)


def prose_of(text: str, body_line: int) -> list[str]:
    """All lines of the card, those before ``body_line`` and all of fenced code, ``<pre>`` and comments blanked."""
    lines = lines_of(text)
    kept = [""] * (body_line - 1) + lines[body_line - 1 :]
    body = "\n".join(_without_fences(kept))
    return _blank(_CODE_BLOCK, _blank(_COMMENT, body)).split("\n")


def _without_fences(lines: list[str]) -> list[str]:
    kept: list[str] = []
    end: re.Pattern[str] | None = None
    for line in lines:
        if end is not None:
            end = None if end.match(line) else end
            kept.append("")
            continue
        fence = fence_of(line)
        end = None if fence is None else fence_end(fence)
        kept.append(line if fence is None else "")
    return kept


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
