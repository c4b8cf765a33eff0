"""Limits by themselves."""

import pytest

from evalcard.errors import UserError
from evalcard.gate.spec import Bounds, GateSpec


@pytest.mark.parametrize("limit", [-0.1, 200.5, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", ["min_recovery", "max_drop", "min_score"])
def test_limits_outside_the_scale_are_refused(kind: str, limit: float):
    with pytest.raises(UserError, match=f"the limit {kind} is .*from 0 to 200") as error:
        Bounds(**{kind: limit})
    assert error.value.exit_code == 2


def test_limits_at_the_ends_are_allowed():
    assert dict(Bounds(min_recovery=0, max_drop=200)) == {"min_recovery": 0, "max_drop": 200}


@pytest.mark.parametrize("confidence", [0.5, 1.0, 95, float("nan"), -1])
def test_confidence_is_a_fraction_above_a_half(confidence: float):
    with pytest.raises(UserError, match="above 0.5 and below 1"):
        GateSpec(confidence=confidence)


def test_there_are_two_ways_to_decide():
    with pytest.raises(UserError, match="'interval'.*'point'"):
        GateSpec(decide="guess")  # type: ignore[arg-type]


def test_a_rows_own_limit_wins_kind_by_kind():
    spec = GateSpec(every=Bounds(99, max_drop=2), tasks={"t": Bounds(95), "u": Bounds(min_score=50)})
    assert spec.of_row("t") == Bounds(95, max_drop=2)
    assert spec.of_row("u") == Bounds(99, max_drop=2, min_score=50)
    assert spec.of_row("v") == spec.every


def test_limits_come_rows_first():
    spec = GateSpec(tasks={"t": Bounds(95)}, averages={"maths": Bounds(max_drop=1)}, overall=Bounds(98, min_score=40))
    assert list(spec.limits(["t", "u"])) == [
        ("task", "t", "min_recovery", 95),
        ("task", "u", "min_recovery", 99),
        ("average", "maths", "max_drop", 1),
        ("overall", "overall", "min_recovery", 98),
        ("overall", "overall", "min_score", 40),
    ]


def test_asking_nothing():
    assert GateSpec(every=Bounds(), tasks={"t": Bounds()}).asks_nothing
    assert not GateSpec().asks_nothing and not GateSpec(every=Bounds(), overall=Bounds(0)).asks_nothing


@pytest.mark.parametrize(("kind", "example"), [("max_drop", "1"), ("min_recovery", "99"), ("min_score", "99")])
def test_a_limit_out_of_range_is_refused_with_one_of_its_kind(kind: str, example: str):
    with pytest.raises(UserError, match=f"the limit {kind} is -1; give a number from 0 to 200, such as {example}\\."):
        Bounds(**{kind: -1})
