"""From rows of logits to answers, with good rows and bad ones in the same step."""

import pytest
import torch

from evalcard_engine.answers import GenerateSequence, ScoreSequence
from evalcard_engine.readout import Readout
from evalcard_engine.request import Generate, Sampling, Score
from evalcard_engine.runner import Row
from evalcard_engine.sampler import sample


def test_each_row_goes_to_its_sequence():
    logits = torch.randn(4, 20, generator=torch.Generator().manual_seed(1))
    score = ScoreSequence.of((Score("s", (1,), (2, 3)),))
    greedy = GenerateSequence.of(Generate("g", (1, 2), 1), None)
    sampling = Sampling(1.0, 3, 4)
    drawn = GenerateSequence.of(Generate("d", (1, 2), 1, sampling=sampling), None)
    rows = [Row(greedy, 1), Row(score, 0), Row(score, 1), Row(drawn, 1)]
    ended = {answers[0].id: answers[0] for _, answers in Readout(rows, logits).finish()}
    assert ended["g"].token_ids == (int(logits[0].argmax()),)
    assert ended["d"].token_ids == (sample(logits[3], sampling, 0),)
    expected = logits.double().log_softmax(-1)
    assert ended["s"].logprobs == pytest.approx([expected[1, 2].item(), expected[2, 3].item()], abs=1e-6)


def test_only_sequences_that_want_nothing_more_are_returned():
    logits = torch.zeros(2, 20)
    score = ScoreSequence.of((Score("s", (1,), (2, 3, 4)),))
    generate = GenerateSequence.of(Generate("g", (1,), 5), None)
    assert list(Readout([Row(score, 0), Row(generate, 0)], logits).finish()) == []
    assert generate.generated == [0] and score.next_logits == 1


def test_rows_that_are_not_finite_become_errors_and_leave_the_others_alone():
    logits = torch.randn(4, 20)
    logits[0, 3] = float("nan")
    logits[2, 3] = float("inf")
    bad = GenerateSequence.of(Generate("bad", (1,), 1), None)
    good = GenerateSequence.of(Generate("good", (1,), 1), None)
    score = ScoreSequence.of((Score("s", (1,), (2, 3)),))
    rows = [Row(bad, 0), Row(good, 0), Row(score, 0), Row(score, 1)]
    ended = [answer for _, answers in Readout(rows, logits).finish() for answer in answers]
    assert [(a.id, a.finish) for a in ended] == [("bad", "error"), ("good", "length"), ("s", "error")]
    assert ended[0].token_ids == () and ended[2].logprobs == ()


def logits_of(*tokens: int) -> torch.Tensor:
    """Rows whose greatest logits are at ``tokens``."""
    return torch.nn.functional.one_hot(torch.tensor(tokens), 20).float()


@pytest.mark.parametrize(
    ("draft", "chosen", "generated", "computed"),
    [
        ((5, 6, 7), (5, 6, 7, 8), [5, 6, 7, 8], 5),
        ((5, 6, 7), (5, 6, 9, 8), [5, 6, 9], 4),
        ((5, 6, 7), (4, 6, 7, 8), [4], 2),
        # A later row that agrees by chance stands behind a token that was not chosen.
        ((5, 6, 7), (5, 1, 7, 8), [5, 1], 3),
        ((), (5,), [5], 2),
    ],
)
def test_drafts_count_as_long_as_each_is_what_was_chosen(draft, chosen, generated, computed):
    sequence = GenerateSequence.of(Generate("g", (1, 2), 10), None)
    sequence.computed_len = 2
    rows = [Row(sequence, 1), *(Row(sequence, 2 + place, token) for place, token in enumerate(draft))]
    readout = Readout(rows, logits_of(*chosen))
    assert list(readout.finish()) == []
    assert sequence.generated == generated and sequence.computed_len == computed
    assert (readout.drafted, readout.accepted) == (len(draft), len(generated) - 1)
    assert not sequence.is_prefilling and sequence.remaining_len == 1


def test_an_answer_that_ends_within_its_draft_ends_there():
    sequence = GenerateSequence.of(Generate("g", (1, 2), 10, stop_ids=frozenset({6})), None)
    rows = [Row(sequence, 1), Row(sequence, 2, 5), Row(sequence, 3, 6), Row(sequence, 4, 7)]
    ((_, (answer,)),) = list(Readout(rows, logits_of(5, 6, 7, 8)).finish())
    assert answer.token_ids == (5,) and answer.finish == "stop"
    short = GenerateSequence.of(Generate("g", (1, 2), 2), None)
    rows = [Row(short, 1), Row(short, 2, 5)]
    ((_, (answer,)),) = list(Readout(rows, logits_of(5, 6)).finish())
    assert answer.token_ids == (5, 6) and answer.finish == "length"


def test_a_row_behind_a_wrong_draft_is_nobodys_fault():
    sequence = GenerateSequence.of(Generate("g", (1, 2), 10), None)
    logits = logits_of(4, 6)
    logits[1, 3] = float("nan")
    assert list(Readout([Row(sequence, 1), Row(sequence, 2, 5)], logits).finish()) == []
    assert sequence.generated == [4]


def test_a_step_without_logits_reads_nothing():
    assert list(Readout([], torch.empty(0, 20)).finish()) == []
