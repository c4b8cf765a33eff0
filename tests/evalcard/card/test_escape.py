"""Words of others on a page: they stay text, in one line or one cell, whatever is in them."""

import html
import re
import shlex

import pytest
from markdown_it import MarkdownIt

from evalcard.card.escape import code, escape_cell, escape_prose, fenced, literal, plain, shell

HOSTILE = [
    "{{7*7}}", "</script><img src=x onerror=alert(1)>", "a|b", "$$\\frac{1}{2}$$", "nul\x00l", "\u202eright to left",
    "---", "`tick", "a`b|c", "`a` and `b`", "_x_ __y__ *z*", "&lt;b&gt; &#60;", "[x](http://example.org)",
    "![x](y.png)", "# head", "~~gone~~", "\ud800 half", "a\\|b\\", "line\nbreak\r\nmore\u2028last",
    "<!-- evalcard:end -->", "<https://example.org>", "tab\there", "``` fence", "a\\",
]  # fmt: skip
READER = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")


def words(rendered: str) -> str:
    """The text a reader sees; fails where there is mark-up that the frame did not make."""
    left = re.sub(r"</?(table|thead|tbody|tr|th|td|p|code)>", "", rendered)
    assert not re.search(r"<[a-zA-Z/!]", left), rendered
    return html.unescape(left).strip()


def seen(text: str) -> str:
    return " ".join(plain(text).split())


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("written", [escape_cell, code])
def test_one_cell_with_exactly_these_words(text, written):
    page = f"| a | b |\n|---|---|\n| {written(text)} | next |\n"
    rows = re.findall(r"<td>(.*?)</td>", READER.render(page), flags=re.DOTALL)
    assert len(rows) == 2 and rows[1] == "next", rows
    assert words(rows[0]) == seen(text)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("written", [escape_cell, code])
def test_one_paragraph_with_exactly_these_words(text, written):
    assert words(READER.render(f"Of {written(text)} it is said.")) == f"Of {seen(text)} it is said."
    assert "$$" not in written(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_sentences_keep_their_code_and_nothing_else(text):
    rendered = READER.render(f"- {escape_prose(f'Look at `evalcard tasks` for {text}.')}")
    assert "<code>evalcard tasks</code>" in rendered
    assert not re.search(r"<(?!/?(ul|li|code|p)>)[a-zA-Z!]", rendered), rendered
    assert words(re.sub(r"</?(ul|li)>", "", rendered)).replace("`", "") == seen(
        f"Look at evalcard tasks for {text}."
    ).replace("`", "")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_block_of_code_ends_where_it_should(text):
    block = fenced(f"a\n{text}\n````\nz", "yaml")
    rendered = READER.render(f"{block}\n\nafter")
    assert rendered.count("<pre>") == 1 and rendered.strip().endswith("<p>after</p>")
    assert "evalcard:end -->" not in fenced(text) or "<!--" not in fenced(text)


def test_a_string_of_python_is_one():
    for text in HOSTILE:
        assert eval(literal(text)) == seen(text)  # noqa: S307 - that it is no more than a string is the test
        assert "$$" not in literal(text)


def test_a_command_is_these_words():
    for text in [*HOSTILE, "$$$ ' $$", "'"]:
        written = shell(["run", text])
        assert shlex.split(written) == ["run", seen(text)] and "$$" not in written and "\n" not in written


def test_letters_of_any_script_stay():
    text = "מבחן اختبار 試験 می\u200cخواهم café"
    assert plain(text) == text and escape_cell(text) == text
