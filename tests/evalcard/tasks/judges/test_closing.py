"""The answer in how a reply closes."""

import time

import pytest

from evalcard.tasks.judges.closing import bold_answer, closing_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("She sells 9.\nJanet makes $18 every day from 9 eggs.", "$18"),
        ("He pays $64 for 16 glasses.", "$64"),
        ("He spends 64 dollars on 16 glasses and 2 straws.", "64"),
        ("The $5 rise brings it to $64.", "$64"),
        ("He runs 540 meters in 1 week.", "540"),
        ("He runs a total of 540 meters in 1 week.", "540"),
        ("He runs 540 meters a week, over 3 days.", "540"),
        ("It is 230 miles after 5 hours.", "230"),
        ("After 5 hours it is 230 miles.", "230"),
        ("So 2 * 9 = 18 for 4 days.", "18"),
        ("Total: 3 bolts (2 blue, 1 white)", "3"),
        ("It takes 15 hours to clean 45 rooms.", "15"),
        ("She has 5 friends and needs to buy 20 cups.", "20"),
        ("It is done in 12 hours.", "12"),
        ("That rounds down to 33", "33"),
        ("It was 12.5. Then it was 3. Good.", "3"),
        ("Nothing more.\nNo number here.", None),
    ],
)
def test_number_of_the_last_sentence(text: str, number: str | None):
    assert closing_number(text) == number


@pytest.mark.parametrize(
    ("text", "bold"),
    [
        ("Total time is **204 minutes** (with t = 24).", "204 minutes"),
        ("**16**\n\nThere are 4 rows and 4 columns.", "16"),
        ("It is **Evelyn**.", "Evelyn"),
        ("**Note** that it is 5", None),
        ("**Step 3:** it is 5", None),
        ("**Step 3**: it is 5", None),
        ("**3 boxes** = 12", None),
        ("He has **3** here.\nSo it is 5.", None),
        ("", None),
    ],
)
def test_what_is_bold(text: str, bold: str | None):
    assert bold_answer(text) == bold


@pytest.mark.parametrize("piece", ["9", "9,", "1/", "1 ", "a. ", "**", "**a**", "(", "1 000 ", "\n"])
def test_long_text_is_read_in_one_pass(piece: str):
    text = piece * (200_000 // len(piece))
    start = time.process_time()
    bold_answer(text), closing_number(text)
    assert time.process_time() - start < 5
