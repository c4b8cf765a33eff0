"""What a piece of Markdown leaves open at its end, so that it would go on over what a card says below it.

Blocks are those of CommonMark (0.31): a fence, or HTML of its kinds 1 to 5, ends with the text unless it is closed, and
within a quotation or a list with that. Elements of HTML stay open in the page whatever blocks they stand in.
"""

from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it.token import Token

_BELOW = "evalcard-below"
"""The paragraph that is put under the text: where it is none of its own, something swallowed it."""
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
"""Elements without an end (HTML standard, 13.1.2)."""
_ENDS_BY_ITSELF = frozenset(
    [
        "body",
        "caption",
        "colgroup",
        "dd",
        "dt",
        "head",
        "html",
        "li",
        "optgroup",
        "option",
        "p",
        "rp",
        "rt",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
    ]
)
"""Elements whose end tag may be left out (HTML standard, 13.1.2.4)."""
_KINDS = {"<!--": ("a comment, `<!--`,", "`-->`"), "<?": ("`<?`", "`?>`"), "<![CDATA[": ("`<![CDATA[`", "`]]>`"),
          "<!": ("a declaration, `<!`,", "`>`")}  # fmt: skip


def left_open(text: str) -> tuple[int, str, str] | None:
    """(line from 1, what is opened there, what closes it) of the first that stays open; None where nothing does."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(f"{text}\n\n{_BELOW}\n")
    swallowing = _swallowing(tokens)
    if swallowing is not None and swallowing.type == "fence":
        assert swallowing.map is not None, swallowing
        return swallowing.map[0] + 1, f"a block of code, `{swallowing.markup}`,", f"a line `{swallowing.markup}`"
    elements = _Elements(_html_of(tokens, text.count("\n") + 3))
    if elements.left is not None:
        return elements.left
    if swallowing is None:
        return None
    assert swallowing.map is not None and swallowing.type == "html_block", swallowing
    return swallowing.map[0] + 1, *_kind_of(swallowing.content.lstrip())


def _swallowing(tokens: list["Token"]) -> "Token | None":
    return next(
        (one for one in reversed(tokens) if one.type in ("fence", "html_block") and _BELOW in one.content), None
    )


def _kind_of(html: str) -> tuple[str, str]:
    kind = next((told for start, told in _KINDS.items() if html.startswith(start)), None)
    return kind or ("HTML", "its end")


def _html_of(tokens: list["Token"], num_lines: int) -> str:
    """The HTML alone, each piece in its line."""
    lines = [""] * num_lines

    def put(at: int, html: str) -> None:
        for number, piece in enumerate(html.split("\n")):
            lines[min(at + number, num_lines - 1)] += piece

    for token in tokens:
        at = token.map[0] if token.map else 0
        if token.type == "html_block":
            put(at, token.content)
        for child in token.children or ():
            if child.type == "html_inline":
                put(at, child.content)
            at += child.content.count("\n") if child.type == "html_inline" else child.type in ("softbreak", "hardbreak")
    return "\n".join(lines)


class _Elements(HTMLParser):
    """Reads HTML when it is made."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=False)
        self._open: list[tuple[int, str]] = []
        self._html = html
        self.feed(html)

    @property
    def left(self) -> tuple[int, str, str] | None:
        """As ``left_open`` tells it."""
        found = next(((at, tag) for at, tag in self._open if tag not in _ENDS_BY_ITSELF), None)
        if found is not None:
            return found[0], f"`<{found[1]}>`", f"`</{found[1]}>`"
        rest = self.rawdata.strip()  # what is no whole tag or comment
        if not rest.startswith("<"):
            return None
        line = self._html.count("\n", 0, len(self._html) - len(self.rawdata.lstrip())) + 1
        return line, *(_kind_of(rest) if rest.startswith(("<!", "<?")) else ("a tag, `<`,", "`>`"))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in _VOID:
            self._open.append((self.getpos()[0], tag))

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.handle_starttag(tag, attrs)  # HTML reads `<b/>` as `<b>`

    def handle_endtag(self, tag: str) -> None:
        names = [name for _, name in self._open]
        if tag in names:
            del self._open[len(names) - 1 - names[::-1].index(tag) :]
