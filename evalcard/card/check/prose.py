"""A card's body without what is no prose: front matter, code and comments are blanked, and lines keep their numbers."""

import re

_LINE_END = re.compile(r"\r\n|\r|\n")
_FENCE = re.compile(r"[ >]*(`{3,}|~{3,})(.*)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CODE_BLOCK = re.compile(r"<(pre|code)\b[^>]*>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_SPAN = re.compile(r"(?<![`\\])(`+)(?!`)([^\n]+?)(?<!`)\1(?!`)")


def lines_of(text: str) -> list[str]:
    """The lines, whatever ends them; the first is number 1 elsewhere."""
    return _LINE_END.split(text)


def prose_of(text: str, body_line: int) -> list[str]:
    """All lines of the card, those before ``body_line`` and all of fenced code, ``<pre>`` and comments blanked."""
    lines = lines_of(text)
    kept = [""] * (body_line - 1) + lines[body_line - 1 :]
    body = "\n".join(_without_fences(kept))
    return _blank(_CODE_BLOCK, _blank(_COMMENT, body)).split("\n")


def without_spans(line: str) -> str:
    """Inline code blanked too."""
    return _SPAN.sub(lambda found: " " * len(found[0]), line)


def _without_fences(lines: list[str]) -> list[str]:
    kept: list[str] = []
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if fence:
            closes = found and found[1].startswith(fence) and not found[2].strip()
            fence = "" if closes else fence
            kept.append("")
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
            kept.append("")
        else:
            kept.append(line)
    return kept


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
