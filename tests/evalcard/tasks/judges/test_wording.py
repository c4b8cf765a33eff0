"""Replies made plain: digits, signs, denials, courtesies."""

import time

import pytest

from evalcard.tasks.judges.wording import plain, scaled


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("\u0661\u0666", "16"),
        ("\uff18\uff1d\uff12\u00d7\uff14", "8=2\u00d74"),
        ("The answer is negative 18.", "The answer is -18."),
        ("It is minus 18", "It is -18"),
        ("x = - 18", "x = -18"),
        ("minus 3", "-3"),
        ("10 minus 3", "10 minus 3"),
        ("10 - 3", "10 - 3"),
        ("- 18 eggs", "- 18 eggs"),
        ("Items:\n- 18 eggs", "Items:\n- 18 eggs"),
        ("1 million, or 2.5 billion", "1000000, or 2500000000"),
        ("It is 8, not 9.", "It is 8, not ."),
        ("It isn't $9$; it's 8.", "It isn't ; it's 8."),
        (r"$\boxed{3}$ (not $\boxed{4}$)", r"$\boxed{3}$ (not )"),
        ("It cannot be 16", "It cannot be"),
        ("I don't think the answer is 18.", "I don't think the answer is."),
        ("I don't think so, the answer is 18", "I don't think so, the answer is 18"),
        ("It is not less than 5", "It is not less than 5"),
        ("So 3.\n\nLet me know if you want 2 other ways!", "So 3."),
        ("So 3. Feel free to ask 2 more. I hope that helps", "So 3."),
        ("Let me know 3", "Let me know 3"),
        ("First 2.\nIf you have 5 apples, you are left with 3", "First 2.\nIf you have 5 apples, you are left with 3"),
    ],
)
def test_a_reply_made_plain(text: str, result: str):
    assert plain(text) == result


def test_scaled_numbers_keep_their_decimals():
    assert scaled("1.2345 thousand") == "1234.5" and scaled("a millionaire has 1 home") == "a millionaire has 1 home"


@pytest.mark.parametrize(
    "piece", ["not ", "don't think ", "negative $", "= - ", "1 million ", "\nI hope ", "\uff11", " "]
)
def test_long_text_is_read_in_one_pass(piece: str):
    start = time.process_time()
    plain(piece * (200_000 // len(piece)))
    assert time.process_time() - start < 5
