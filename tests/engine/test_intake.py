"""Requests that cannot be answered as asked are refused with what, got, allowed and the next step."""

from dataclasses import replace

import pytest

from evalcard_engine.errors import EngineError
from evalcard_engine.intake import check_requests, sequences_of
from evalcard_engine.request import Generate, Sampling, Score

GENERATE = Generate("g", (1, 2, 3), 4)
SAMPLING = Sampling(temperature=1.0, seed=0, item_key=0)


def check(*requests, max_positions: int = 20, has_detokenizer: bool = True) -> None:
    check_requests(requests, vocab_size=50, max_positions=max_positions, has_detokenizer=has_detokenizer)


def test_sound_requests_pass():
    check(GENERATE, Score("s", (49,), (0,)), replace(GENERATE, id="t", sampling=SAMPLING, stop_strings=("x",)))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (replace(GENERATE, prompt=()), "'g' has an empty prompt"),
        (Score("s", (), (1,)), "'s' has an empty context"),
        (Score("s", (1,), ()), "'s' has an empty continuation"),
        (replace(GENERATE, prompt=(1, 50)), "token 50 in its prompt; the model knows 0 to 49"),
        (Score("s", (1,), (2, -3)), "token -3 in its continuation"),
        (replace(GENERATE, max_tokens=0), "max_tokens 0; it must be at least 1"),
        (replace(GENERATE, stop_strings=("a", "")), "empty stop string"),
        (replace(GENERATE, sampling=replace(SAMPLING, temperature=0.0)), "temperature 0.0; .*greedy is sampling=None"),
        (replace(GENERATE, sampling=replace(SAMPLING, temperature=float("nan"))), "temperature nan"),
        (replace(GENERATE, sampling=replace(SAMPLING, top_p=0.0)), "top_p 0.0"),
        (replace(GENERATE, sampling=replace(SAMPLING, top_k=-1)), "top_k -1"),
        (replace(GENERATE, sampling=replace(SAMPLING, min_p=1.5)), "min_p 1.5"),
        (replace(GENERATE, sampling=replace(SAMPLING, repeat=-1)), "repeat -1"),
    ],
)
def test_what_cannot_be_answered_is_refused(request_, words):
    with pytest.raises(EngineError, match=words):
        check(request_)


def test_ids_must_be_unique_over_both_kinds():
    with pytest.raises(EngineError, match="'g' is given twice"):
        check(GENERATE, Score("g", (1,), (2,)))


def test_stop_strings_need_a_detokenizer():
    with pytest.raises(EngineError, match="detokenize"):
        check(replace(GENERATE, stop_strings=("x",)), has_detokenizer=False)


def test_the_last_token_takes_no_position():
    check(GENERATE, Score("s", (1, 2, 3), (4, 5, 6, 7)), max_positions=6)
    for request in (GENERATE, Score("s", (1, 2, 3), (4, 5, 6, 7))):
        with pytest.raises(EngineError, match="needs 6 positions, the model has 5"):
            check(request, max_positions=5)


def test_scores_are_merged_by_their_input_tokens_and_generations_never():
    requests = [
        Score("a", (1, 2), (3,)),
        Score("b", (1, 2), (4,)),
        Score("c", (1,), (2, 5)),
        Score("d", (1, 2), (3, 4)),
        replace(GENERATE, id="e"),
        replace(GENERATE, id="f"),
    ]
    groups = [[r.id for r in s.requests] for s in sequences_of(requests) if hasattr(s, "requests")]
    assert groups == [["a", "b", "c"], ["d"]]
    assert [s.request.id for s in sequences_of(requests) if hasattr(s, "request")] == ["e", "f"]


def test_a_sequence_is_long_if_it_can_come_to_more_tokens_than_short_ones_have():
    requests = [
        Generate("fits", (1, 2, 3), 4),  # the last new token is never fed back
        Generate("grows", (1, 2, 3), 5),
        Score("fits", (1, 2), (3, 4, 5, 6, 7)),
        Score("grows", (1, 2), (3, 4, 5, 6, 7, 8)),
    ]
    assert [s.is_long for s in sequences_of(requests, short_positions=6)] == [False, True, False, True]
    assert not any(s.is_long for s in sequences_of(requests))
