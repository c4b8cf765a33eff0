"""A GPU's way from logits to numbers, on the CPU's tensors, and on tensors that have no numbers to look at."""

import math

import pytest
import torch

from evalcard_engine import device_numbers, readout
from evalcard_engine.answers import GenerateSequence, ScoreSequence
from evalcard_engine.device_numbers import Asked
from evalcard_engine.draws import Draw
from evalcard_engine.request import Generate, Sampling, Score
from evalcard_engine.runner import Row

ASKED = Asked(
    [4, 0, 0, 2], [7, 1, 49, 3], [1, 3], [Draw(Sampling(0.8, 1, 2, top_p=0.9), 5), Draw(Sampling(1.0, 3, 4), 0)]
)


def logits_of(rows: int = 6, vocab: int = 50) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(0)) * 4


def test_they_are_the_cpus_own() -> None:
    found, expected = device_numbers.begin(logits_of(), ASKED).collect(), readout._numbers(logits_of(), ASKED)
    assert found == expected and all(found.finite)


def test_rows_that_are_not_finite_spoil_no_other() -> None:
    logits = logits_of()
    logits[0, 3], logits[3, 0] = math.nan, math.inf
    found, expected = device_numbers.begin(logits, ASKED).collect(), readout._numbers(logits, ASKED)
    assert found.finite == expected.finite == [False, True, True, False, True, True]
    assert found.logprobs[0] == expected.logprobs[0] and found.logprobs[3] == expected.logprobs[3]
    assert all(math.isnan(value) for value in found.logprobs[1:3])
    assert [found.greedy[row] for row in (1, 2, 4, 5)] == [expected.greedy[row] for row in (1, 2, 4, 5)]
    assert found.drawn[0] == expected.drawn[0]


@pytest.mark.parametrize("asked", [ASKED, Asked([], [], [], []), Asked([1], [2], [], [])])
def test_nothing_is_waited_for_before_the_end(asked: Asked) -> None:
    """Tensors on meta have shapes and no numbers: whatever a GPU would have to be waited for fails there."""
    pending = device_numbers.begin(logits_of().to("meta"), asked)
    real = device_numbers.begin(logits_of(), asked)
    assert pending.packed.shape == real.packed.shape and pending.packed.dtype == torch.int64
    with pytest.raises(NotImplementedError):
        pending.packed.tolist()


def test_a_step_without_logits() -> None:
    assert list(readout.Readout([], torch.empty(0, 20, device="meta")).finish()) == []


def test_sequences_are_touched_only_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the device's way, answers are those of the CPU's."""
    begun = []

    def begin(logits, asked):
        begun.append(asked)
        return device_numbers.begin(logits, asked).collect

    def run() -> list:
        score = ScoreSequence.of((Score("s", (1,), (2, 3)), Score("t", (1, 2), (9,))))
        greedy = GenerateSequence.of(Generate("g", (1, 2), 1), None)
        drawn = GenerateSequence.of(Generate("d", (1, 2), 1, sampling=Sampling(1.0, 3, 4)), None)
        rows = [Row(greedy, 1), Row(score, 0), Row(score, 1), Row(drawn, 1)]
        going = readout.Readout(rows, logits_of(4))
        assert not greedy.generated and not drawn.generated and score.next_logits == 0
        return [ended.answers for ended in going.finish()]

    expected = run()
    monkeypatch.setattr(readout, "_begin", begin)
    assert run() == expected and len(begun) == 1
