"""Log-probabilities and maxima of rows, alone and in company."""

import numpy as np
import pytest
import torch

from evalcard_engine import rows


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(37, 5003, generator=torch.Generator().manual_seed(0)) * 5


def test_log_probabilities_equal_log_softmax_in_float64(logits):
    index = [0, 0, 5, 36]
    tokens = [1, 5002, 17, 0]
    expected = logits.double().log_softmax(-1)[index, tokens]
    assert rows.log_probabilities(logits, index, tokens) == pytest.approx(expected.tolist(), abs=2e-6)


@pytest.mark.parametrize("vocab", [1, 7, 1024, 49152, 151936])
def test_log_probabilities_at_the_sizes_of_real_vocabularies(vocab):
    row = torch.randn(2, vocab, generator=torch.Generator().manual_seed(vocab)) * 3
    expected = row.double().log_softmax(-1)[1, vocab - 1].item()
    assert rows.log_probabilities(row, [1], [vocab - 1])[0] == pytest.approx(expected, abs=3e-6)


def test_a_flat_row_of_the_largest_vocabulary_does_not_overflow():
    flat = torch.zeros(1, rows.MAX_VOCAB)
    assert rows.log_probabilities(flat, [0], [3])[0] == pytest.approx(-np.log(rows.MAX_VOCAB), abs=1e-12)


def test_a_larger_vocabulary_is_refused():
    with pytest.raises(AssertionError):
        rows.weights(torch.zeros(1, rows.MAX_VOCAB + 1))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_alone_equals_the_same_row_in_any_company(logits, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        every = list(range(37))
        tokens = [(31 * row) % 5003 for row in every]
        together = rows.log_probabilities(logits, every, tokens)
        for row in every:
            alone = logits[row : row + 1].clone()
            assert rows.log_probabilities(alone, [0], [tokens[row]])[0] == together[row]
            assert torch.equal(rows.weights(alone[0]), rows.weights(logits)[row])
        assert rows.log_probabilities(logits[5:], [0], [tokens[5]])[0] == together[5]
    finally:
        torch.set_num_threads(before)


def test_rows_are_the_same_with_one_thread_and_with_two(logits):
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append((rows.log_probabilities(logits, list(range(37)), [3] * 37), rows.weights(logits)))
    finally:
        torch.set_num_threads(before)
    assert results[0][0] == results[1][0] and torch.equal(results[0][1], results[1][1])


def test_the_exponential_does_not_depend_on_where_a_value_lies():
    """The claim rows.py rests on, at every alignment and remainder of the widest vector."""
    values = -np.abs(np.random.default_rng(0).normal(size=97).astype(np.float32) * 8)
    alone = np.array([np.exp(values[i : i + 1])[0] for i in range(97)])
    for start in range(33):
        for stop in range(start + 1, 97, 5):
            assert np.array_equal(np.exp(values[start:stop]), alone[start:stop])


def test_large_tensors_are_split_into_chunks_with_equal_results(logits, monkeypatch):
    whole = rows.log_probabilities(logits, list(range(37)), [3] * 37)
    monkeypatch.setattr(rows, "_CHUNK_BYTES", 2 * 8 * 5003)
    assert rows.log_probabilities(logits, list(range(37)), [3] * 37) == whole


def test_no_rows_give_no_values():
    assert rows.log_probabilities(torch.zeros(0, 5), [], []) == []


def test_the_arg_max_of_equal_logits_is_the_lowest_id():
    tied = torch.zeros(3, 50)
    tied[1, [7, 20, 49]] = 2.0
    tied[2, 49] = 1.0
    assert rows.arg_max(tied) == [0, 7, 49]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, 24, 4999])
def test_a_single_logit_that_is_not_finite_marks_its_row_only(bad, place):
    values = torch.randn(3, 5000)
    values[1, place] = bad
    assert rows.finite_rows(values) == [True, False, True]
