"""p-values of failures that agree with their intervals."""

from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcard.gate.holm import p_value


@given(st.floats(2.0, 6.0), st.sampled_from([0.8, 0.9, 0.95]))
def test_a_p_value_is_where_the_interval_just_reaches_the_limit(z: float, confidence: float):
    """The value lies z standard errors below the limit: the normal interval reaches it at p = 1 - cdf(z)."""
    normal = NormalDist()
    found = p_value(lambda at: normal.inv_cdf((1 + at) / 2) < z, confidence)
    assert found == pytest.approx(normal.cdf(-z), rel=1e-4)


def test_a_failure_by_itself_is_never_more_than_its_level():
    assert p_value(lambda at: at <= 0.95, 0.95) <= (1 - 0.95) / 2
    assert p_value(lambda at: False, 0.95) == (1 - 0.95) / 2
    assert 0 < p_value(lambda at: True, 0.95) < 1e-12
