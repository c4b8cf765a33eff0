"""What a user's words leave open at their end."""

import pytest

from evalcard.card.check.openmarkup import left_open


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Read\n\n```bash\nls\n", (3, "a block of code, `````,", "a line `````")),
        ("~~~~\nls\n~~~\n", (1, "a block of code, `~~~~`,", "a line `~~~~`")),
        ("````\n```\nls\n```\n", (1, "a block of code, ``````,", "a line ``````")),
        ("```\nls\n``` \n\n   ```\nx\n    ```\n", (5, "a block of code, `````,", "a line `````")),
        ("a\n\n<details>\n<summary>More</summary>\n\nWords\n", (3, "`<details>`", "`</details>`")),
        ("Some <b>bold\nwords and `</b>`\n", (1, "`<b>`", "`</b>`")),
        ("one\ntwo <div>\n", (2, "`<div>`", "`</div>`")),
        ("<!-- to do\n\nmore\n", (1, "a comment, `<!--`,", "`-->`")),
        ("\n<pre>\ncode\n", (2, "`<pre>`", "`</pre>`")),
        ("<script>\nlet x = '<b>'\n", (1, "`<script>`", "`</script>`")),
        ("<div>\n<!-- x\n</div>\n\nwords -->\n", (1, "`<div>`", "`</div>`")),
        ('<div class="a\n\nwords\n', (1, "a tag, `<`,", "`>`")),
        ("<?php\n\nx", (1, "`<?`", "`?>`")),
        ("- a\n\n  <details>\n\n- b\n", (3, "`<details>`", "`</details>`")),
    ],
)
def test_what_stays_open_is_named_with_its_line(text: str, expected: tuple[int, str, str]):
    assert left_open(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "Words, 3 < 4 > 2.\n",
     "```\nls\n```", "~~~\n<details>\n~~~\n", "    ```\n    <b>\n", "`<details>` and ``` `` ```\n",
     "> ```\n> a quotation ends its code\n", "- ```\n  a list too\n",
     "<details>\n<summary>M</summary>\n\nx\n\n</details>\n",
     "<p>One<br>two <img src='a.png'>\n", "<ul><li>a<li>b</ul>\n", "a <!-- said --> b\n", "\\<details> &lt;details>\n",
     "Words <!-- that open no comment in a paragraph\n", "<https://example.org> and <me@example.org>\n",
     "<table><tr><td>1<td>2</table>\n", "    <!-- indented, so code\n"],
)  # fmt: skip
def test_what_is_closed_or_ends_by_itself(text: str):
    assert left_open(text) is None
