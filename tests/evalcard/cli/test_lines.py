"""Texts of others, made harmless for a terminal and for a build log."""

from evalcard.cli.lines import disarmed, on_one_line


def test_no_line_starts_a_command():
    text = "one\n::error::x\n  ::warning::y\rz\na ##[error]b :: c"
    assert disarmed(text).split("\n") == [
        "one", "\\x3a:error::x", "  \\x3a:warning::y\\x0dz", "a #\\x23[error]b :: c"
    ]  # fmt: skip


def test_no_name_turns_the_line_round():
    assert on_one_line("a\u202eb\u2066c\u2069 \u05e2\u05d1\u200f") == "a\\u202eb\\u2066c\\u2069 \u05e2\u05d1\u200f"


def test_an_error_is_one_line():
    assert on_one_line("a\n  b\r\n::c\u2028d\x1b") == "a b ::c d\\x1b"
