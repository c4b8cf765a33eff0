"""How sequences take tokens and numbers and become answers."""

import pytest

from evalcard_engine.answers import GenerateSequence, ScoreSequence
from evalcard_engine.request import Generate, Score


def letters(token_ids) -> str:
    return "".join(map(chr, token_ids))


def feed(sequence: GenerateSequence, text: str):
    for token in map(ord, text):
        completion = sequence.accept(token)
        if completion is not None:
            return completion
    return None


def test_the_stop_id_is_not_part_of_the_answer():
    sequence = GenerateSequence.of(Generate("a", (1, 2), 9, frozenset({ord("!")})), letters)
    completion = feed(sequence, "abc!")
    assert (completion.finish, completion.text, completion.token_ids) == ("stop", "abc", (97, 98, 99))
    assert (completion.id, completion.prompt_tokens) == ("a", 2)


def test_the_stop_string_is_cut_from_the_text_but_its_tokens_are_kept():
    sequence = GenerateSequence.of(Generate("a", (1,), 9, stop_strings=("cd",)), letters)
    completion = feed(sequence, "abcdef")
    assert (completion.finish, completion.text, completion.token_ids) == ("stop_string", "ab", (97, 98, 99, 100))


def test_max_tokens_ends_an_answer_and_a_stop_string_in_the_last_token_counts():
    length = feed(GenerateSequence.of(Generate("a", (1,), 3), letters), "abcdef")
    assert (length.finish, length.text) == ("length", "abc")
    string = feed(GenerateSequence.of(Generate("a", (1,), 3, stop_strings=("c",)), letters), "abcdef")
    assert (string.finish, string.text) == ("stop_string", "ab")


def test_a_stop_id_as_the_first_token_gives_an_empty_answer():
    completion = GenerateSequence.of(Generate("a", (1,), 3, frozenset({5})), letters).accept(5)
    assert (completion.finish, completion.text, completion.token_ids) == ("stop", "", ())


def test_without_a_detokenizer_there_is_no_text():
    completion = feed(GenerateSequence.of(Generate("a", (1,), 2), None), "ab")
    assert (completion.finish, completion.text, completion.token_ids) == ("length", "", (97, 98))


def test_an_error_keeps_what_was_generated():
    sequence = GenerateSequence.of(Generate("a", (1,), 9, stop_strings=("z",)), letters)
    feed(sequence, "ab")
    completion = sequence.complete("error")
    assert (completion.finish, completion.text) == ("error", "ab")


def test_the_last_new_token_needs_no_slot():
    assert GenerateSequence.of(Generate("a", (1, 2, 3), 1), None).max_len == 3
    assert GenerateSequence.of(Generate("a", (1, 2, 3), 5), None).max_len == 7


def test_one_computation_answers_requests_with_equal_input_tokens():
    requests = (Score("a", (1, 2, 3), (4,)), Score("b", (1, 2, 3), (9,)), Score("c", (1, 2), (3, 4)))
    sequence = ScoreSequence.of(requests)
    assert (sequence.prompt, sequence.next_logits, sequence.max_len) == ((1, 2, 3), 1, 3)
    assert sequence.targets(1) == [(2, 3)]
    assert sequence.targets(2) == [(0, 4), (1, 9), (2, 4)]
    sequence.record(1, [-0.5], 3)
    sequence.record(2, [-1.0, -2.0, -1.0], 4)
    a, b, c = sequence.scored()
    assert (a.logprobs, a.is_greedy, a.prompt_tokens) == ((-1.0,), True, 3)
    assert (b.logprobs, b.is_greedy) == ((-2.0,), False)
    assert (c.logprobs, c.is_greedy, c.prompt_tokens) == ((-0.5, -1.0), True, 2)


def test_one_token_off_the_arg_max_is_not_greedy():
    sequence = ScoreSequence.of((Score("a", (1,), (2, 3)),))
    sequence.record(0, [-0.1], 99)
    sequence.record(1, [-0.1], 3)
    assert not sequence.scored()[0].is_greedy


def test_a_failed_row_fails_the_requests_that_need_it_and_no_other():
    sequence = ScoreSequence.of((Score("needs", (1,), (2, 3)), Score("does not", (1, 2), (3,))))
    sequence.record(0, None, 0)
    sequence.record(1, [-0.1, -0.1], 3)
    failed, fine = sequence.scored()
    assert (failed.finish, failed.logprobs, failed.is_greedy) == ("error", (), False)
    assert (fine.finish, fine.logprobs, fine.is_greedy) == ("stop", (-0.1,), True)


def test_rows_out_of_order_are_refused():
    with pytest.raises(AssertionError):
        ScoreSequence.of((Score("a", (1,), (2, 3)),)).record(1, [-0.1], 3)
