"""Lines that are text, and those in code or comments."""

import pytest

from evalcard.card.blocks import text_lines
from evalcard.card.section import BEGIN, END, marked_lines

HIDDEN = {
    "fence": "```\n{}\n```",
    "named fence": "```markdown\n{}\n```",
    "tildes": "~~~~\n{}\n~~~\n~~~~",
    "longer fence": "````\n```\n{}\n```\n````",
    "list": "- a\n\n  ```\n  {}\n  ```",
    "numbered": "1. ```\n   {}\n   ```",
    "quotation": "> ```\n> {}\n> ```",
    "preformatted": "<pre>\n{}\n</pre>",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_marks_in_code_or_comments_are_text_about_them(name: str) -> None:
    page = HIDDEN[name].replace("{}", f"{BEGIN}\nold\n{END}")
    assert marked_lines(page) == ([], []) and text_lines(page)[1] is None
    both = f"{page}\n\n{BEGIN}\nours\n{END}\n"
    begins, ends = marked_lines(both)
    assert len(begins) == len(ends) == 1 and both.split("\n")[begins[0] - 1] == BEGIN


@pytest.mark.parametrize(
    "line", ["words `<!--` in code", "a `<pre>` too", "``` not a fence ` of one line", "<!-- a whole comment -->", "--"]
)
def test_what_opens_no_block(line: str) -> None:
    assert text_lines(f"{line}\n{BEGIN}\n") == ({1, 2, 3}, None)


@pytest.mark.parametrize(("page", "line"), [("a\n```\ncode", 2), ("a\n\n<!-- comment\nb", 3), ("~~~\n```\n", 1)])
def test_a_block_without_an_end(page: str, line: int) -> None:
    assert text_lines(page)[1] == line


def test_a_mark_in_a_comment_ends_the_comment() -> None:
    """As in HTML, where a comment ends with the first arrow: what is left is one mark of two."""
    assert marked_lines(f"<!--\n{BEGIN}\nold\n{END}\n-->") == ([], [4])
