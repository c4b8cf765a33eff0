"""What harnesses store as a log-probability."""

from typing import Any

import pytest

from evalcard.results.imported.answers import logprob_of


@pytest.mark.parametrize(("given", "expected"), [("-1.5", -1.5), (-2, -2.0), (1e-6, 1e-6), ("nan", None),
                                                 (float("-inf"), None), ("-inf", None)])  # fmt: skip
def test_a_log_probability(given: Any, expected: float | None):
    assert logprob_of(given) == expected


@pytest.mark.parametrize("given", [1e308, -1e308, 10**400, "2e9", "x", "", None, [], {}, True])
def test_what_is_none_is_the_files_fault(given: Any):
    with pytest.raises(ValueError, match="a log-probability is .*, which is none"):
        logprob_of(given)
