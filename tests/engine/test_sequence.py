"""Positions and lengths of a sequence under way."""

import pytest

from evalcard_engine.sequence import Sequence


def make(prompt=(10, 11, 12), generated=(), computed_len=0) -> Sequence:
    return Sequence(prompt, len(prompt) - 1, 99, generated=list(generated), computed_len=computed_len)


@pytest.mark.parametrize("start", range(6))
@pytest.mark.parametrize("stop", range(6))
def test_tokens_run_over_the_border_of_prompt_and_answer(start, stop):
    if start <= stop:
        assert make(generated=(20, 21)).tokens(start, stop) == (10, 11, 12, 20, 21)[start:stop]


def test_tokens_outside_are_refused():
    with pytest.raises(AssertionError):
        make().tokens(0, 4)


@pytest.mark.parametrize(
    ("generated", "computed_len", "prefilling"),
    [
        ((), 0, True),
        ((), 2, True),  # the prompt's last token is still prompt
        ((), 3, False),
        ((20,), 3, False),  # decoding: one token left
        ((20, 21, 22), 3, True),  # after a preemption
        ((20, 21, 22), 5, False),
    ],
)
def test_prefilling_ends_where_decoding_begins(generated, computed_len, prefilling):
    assert make(generated=generated, computed_len=computed_len).is_prefilling is prefilling
