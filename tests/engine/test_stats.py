"""Counting what an engine has done."""

from evalcard_engine.intake import sequences_of
from evalcard_engine.request import Completion, Score, Scored
from evalcard_engine.sequence import Sequence
from evalcard_engine.stats import Stats
from evalcard_engine.step import Chunk, Step


def test_input_counts_every_request_and_what_was_merged():
    requests = [Score("a", (1, 2, 3), (4,)), Score("b", (1, 2, 3), (5,)), Score("c", (1, 2), (3, 9))]
    stats = Stats(prompt_tokens=5).after_input(requests, sequences_of(requests))
    assert (stats.prompt_tokens, stats.merged_tokens) == (5 + 9, 6)


def test_a_step_adds_its_tokens_and_its_answers_and_keeps_the_higher_peak():
    chunk = Chunk(Sequence((1, 2, 3, 4), 3, 4), 1, 4, 3)
    step = Step(0, 0, chunks=[chunk], cached_tokens=1, preemptions=2)
    answers = [Completion("a", (7, 8), "", "length", 4, 1), Scored("b", (-1.0,), True, 4, 0)]
    stats = Stats(steps=1, computed_tokens=10, peak_pages=9).after_step(step, answers, peak_pages=4)
    assert stats == Stats(steps=2, computed_tokens=13, cached_tokens=1, generated_tokens=2, preemptions=2, peak_pages=9)
