"""The judge of letters, on the field cases and on how replies name an option."""

import time

import pytest

from evalcard.tasks.judges.choice import ChoiceJudge, chosen_letter
from evalcard.tasks.judges.judge import Answer

FIELD_CASES = [
    (49, "The answer is B because a car moves.", 4, "B"),
    (49, "I would pick B - a safe choice.", 4, "B"),
    (49, "d", 4, "D"),
    (49, "b. 4", 4, "B"),
    (50, "The answer is B. Note that A is a common distractor.", 4, "B"),
    (50, "The answer is C because I computed the integral.", 10, "C"),
    (52, r"\boxed{\langle H\rangle \ll \Delta E} ... **Answer: D**", 4, "D"),
    (53, "Answer: C", 4, "C"),
    (53, "[answer: F]", 10, "F"),
    (53, "The answer: B", 4, "B"),
]


@pytest.mark.parametrize(("case", "text", "num_choices", "letter"), FIELD_CASES)
def test_field_case(case: int, text: str, num_choices: int, letter: str):
    judgement = ChoiceJudge().judge([Answer(text, (letter,), num_choices)])[0]
    assert (judgement.extracted, judgement.is_right) == (letter, True)
    other = "A" if letter != "A" else "B"
    assert not ChoiceJudge().judge([Answer(text, (other,), num_choices)])[0].is_right


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"\boxed{\text{B}}", "B"),
        (r"$\boxed{\textbf{(C)}}$", "C"),
        (r"The answer is \(\boxed{B}\).", "B"),
        (r"The answer is A. Or rather \boxed{B}", "B"),
        ("The answer is A. Wait, the answer is C.", "C"),
        ("**B**\n\nIt floats.", "B"),
        ("B\nIt floats.", "B"),
        ("(B) It floats.", "B"),
        ("B: It floats.", "B"),
        ("The correct option is (D).", "D"),
        ("the correct answer is d.", "D"),
        ("The answer is: **(B) 4**", "B"),
        ("**Answer:** B", "B"),
        ("Answer:\n\nB", "B"),
        ("Answer (B)", "B"),
        ("The answer to the question is therefore B.", "B"),
        ("The answer is option c) 4", "C"),
        ("I'd go with option C.", "C"),
        ("Option B is correct, A is not.", "B"),
        ("Comparing A and C, C is the best answer.", "C"),
        ("So it must be (C), no doubt", "C"),
        ("It can only be C", "C"),
        ("choice b", "B"),
        ("D. 4\n\nQuestion: next\nAnswer: A", "D"),
        ("Question: which?\nAnswer: A", "A"),
        ("A", "A"),
    ],
)
def test_letter_of_a_reply(text: str, letter: str):
    assert chosen_letter(text, 4) == letter


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A car moves fast.",
        "The answer is a car.",
        "A or B",
        "(A) or (B), hard to say",
        "The answer is not B",
        "I am not sure.",
        r"\boxed{D = 5}",
        r"The answer is B, so \boxed{",
        "The answer is E",
        "\ud800\x00",
    ],
)
def test_no_letter_is_no_answer(text: str):
    judgement = ChoiceJudge().judge([Answer(text, ("A",), 4)])[0]
    assert judgement.extracted is None and not judgement.is_right


def test_i_is_a_pronoun_first():
    assert chosen_letter("I think it moves.", 10) is None
    assert chosen_letter("The answer is I think B.", 10) == "B"
    assert chosen_letter("The answer is I.", 10) == "I"


def test_ten_options_where_their_number_is_not_known():
    assert ChoiceJudge().judge([Answer("The answer is J", ("J",))])[0].is_right
    assert ChoiceJudge().judge([Answer("The answer is K", ("K",))])[0].extracted is None


@pytest.mark.parametrize("gold", ["B", "b", "(B)", "B.", " B "])
def test_golds_as_letters(gold: str):
    assert ChoiceJudge().check_gold(gold) is None
    assert ChoiceJudge().judge([Answer("B", (gold,), 4)])[0].is_right


def test_a_gold_that_is_no_letter():
    assert "no letter" in (ChoiceJudge().check_gold("Paris") or "")


@pytest.mark.parametrize(
    "text",
    [
        "The answer is never B.",
        "The answer can't be B",
        "It isn't B.",
        "It isn\u2019t **B**.",
        "I would not choose B.",
        "I don't think the answer is B.",
        "I do not believe that B is right.",
        "B is not correct.",
        "It is unlikely that B is correct.",
        "It is false that the right answer is B.",
        "Not (B).",
        "Neither A nor B.",
        "I have ruled out B",
        "\u7b54\u6848\u4e0d\u662fB\u3002",
    ],
)
def test_a_denied_letter_is_not_chosen(text: str):
    assert chosen_letter(text, 4) is None


@pytest.mark.parametrize(
    "text",
    [
        "B and C",
        "B, C",
        "B\n\nC",
        "B.C.",
        "The answer is B or C.",
        "The answer is: B and C",
        "The answers are B, C and D.",
        "A is tempting. The answer is either B or C.",
        "The answer is B/C",
        r"\boxed{B, C}",
        r"$\boxed{B}$ and $\boxed{C}$",
        "A is correct. B is correct.",
        "The answer is A. The answer is C.",
    ],
)
def test_several_letters_are_no_single_answer(text: str):
    assert chosen_letter(text, 4) is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("A. Oslo\nB. Bern\nC. Rome\nD. Lima", None),
        ("A) Oslo B) Bern C) Rome D) Lima", None),
        ("A. Oslo\nB. Bern\nC. Rome\nD. Lima\n\nC. Rome", "C"),
        ("A: 3 kg, B: 5 kg, C: 7 kg, D: 9 kg. D is the heaviest.", "D"),
        ("A) Oslo is cold. B) Bern is high. C) Rome is old. Thus C.", "C"),
        ("A) Oslo is incorrect.\nB) Bern is wrong.\nC) Rome is correct.\nD) Lima is incorrect.", "C"),
    ],
)
def test_options_repeated_are_not_chosen(text: str, letter: str | None):
    assert chosen_letter(text, 4) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The answer is A... Actually, let me reconsider. It should be B.", "B"),
        ("A. No wait, B.", "B"),
        ("The correct answer is (A)? No \u2014 it's (D).", "D"),
        ("The answer is A.\n\nTherefore, the answer is C.", "C"),
        ("The answer isn't A; it's C.", "C"),
        ("Option A is not the correct answer; option D is.", "D"),
        ("The answer is A or B, but I lean B.", "B"),
        ("I'd eliminate A and B. Between C and D, C is better.", "C"),
        ("Not A, so B.", "B"),
        ("Lack of vitamin C causes scurvy, so D.", "D"),
        ("The answer is B. Actually, this is known as vitamin C.", "B"),
    ],
)
def test_the_later_statement_holds_where_a_sign_says_so(text: str, letter: str):
    assert chosen_letter(text, 4) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The answer is B. If it had asked for the least, the answer would be D.", "B"),
        ("The correct answer is B; D would be the answer if x were negative.", "B"),
        ("The correct option is A\n\nOption B is incorrect because the answer: B would need x.", "A"),
        ("If I had to guess, I would choose D.", "D"),
        ("If we had 4, so the answer would be B.", "B"),
    ],
)
def test_what_is_only_supposed_does_not_win(text: str, letter: str):
    assert chosen_letter(text, 4) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("I'm not sure, but the answer is B.", "B"),
        ("The statement that is not correct is B.", "B"),
        ("The false statement is B.", "B"),
        ("The answer is B because A is not a metal.", "B"),
        ("The answer is B and A is wrong.", "B"),
        ("D. None of A, B or C", "D"),
        ("Answer: A good guess would be C.", "C"),
        ("<answer>D</answer>", "D"),
        ("Final answer: <D>", "D"),
        ("The answer is option 'D'.", "D"),
        ("\uff22", "B"),
        ("\U0001d401", "B"),
        ("\u6b63\u786e\u7b54\u6848\u662fC\u3002", "C"),
        ("\u9009C", "C"),
    ],
)
def test_letter_is_seen(text: str, letter: str):
    assert chosen_letter(text, 4) == letter


@pytest.mark.parametrize(
    "piece", ["A or ", "A, ", "A/", "A. ", "A\n", "not ", "if it had ", "B would ", "wait ", "A) x is ", "isn't the "]
)
def test_long_text_is_struck_in_one_pass(piece: str):
    start = time.process_time()
    chosen_letter(piece * (100_000 // len(piece)), 4)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("piece", ["(A)", "A ", "answer is ", "answer to a ", "\\boxed{", "B is ", "**", "I "])
def test_long_text_is_read_in_one_pass(piece: str):
    start = time.process_time()
    chosen_letter(piece * (200_000 // len(piece)), 4)
    assert time.process_time() - start < 5
