"""Forecasts from tokens alone."""

import random

from evalcard_engine.intake import sequences_of
from evalcard_engine.plan import input_len, tokens_to_compute, working_pages
from evalcard_engine.request import Generate, Score
from evalcard_engine.step import Limits

LIMITS = Limits(page_size=4, step_tokens=16, step_logits=16, max_sequences=2)


def test_input_len_counts_what_is_fed_to_the_model():
    assert input_len(Generate("g", (1, 2, 3), 5)) == 3
    assert input_len(Score("s", (1, 2, 3), (4, 5))) == 4


def test_a_shared_prefix_counts_once_and_each_wanted_row_is_computed():
    sequences = sequences_of([Generate("a", (1, 2, 3, 4), 1), Generate("b", (1, 2, 3, 4), 1), Generate("c", (1, 2), 1)])
    # (1, 2) in full, two more tokens, and once again the last token of each of the two that were already known
    assert tokens_to_compute(sequences, shares=True) == 2 + 2 + 1
    assert tokens_to_compute(sequences, shares=False) == 10


def test_tokens_to_compute_equals_the_nodes_of_the_trie():
    rng = random.Random(0)
    prompts = {tuple(rng.randrange(2) for _ in range(rng.randrange(1, 12))) for _ in range(60)}
    sequences = sequences_of([Generate(str(i), prompt, 1) for i, prompt in enumerate(prompts)])
    nodes = {prompt[:stop] for prompt in prompts for stop in range(1, len(prompt) + 1)}
    inner = sum(any(other != prompt and other[: len(prompt)] == prompt for other in prompts) for prompt in prompts)
    computed = tokens_to_compute(sequences, shares=True)
    assert len(nodes) <= computed <= len(nodes) + inner


def test_working_pages_are_those_of_the_largest_that_run_together():
    requests = [Generate("a", (1,) * 9, 1), Generate("b", (1,) * 4, 1), Generate("c", (1,) * 4, 2)]
    assert working_pages(sequences_of(requests), LIMITS) == 3 + 2
    assert working_pages(sequences_of(requests[:1]), LIMITS) == 3
