"""Limits where none is given: those that the run was started with, else 99 % of every row."""

from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.gate.default import default_limits
from evalcard.gate.spec import Bounds, GateSpec


@pytest.fixture
def started(record: Any) -> Any:
    return lambda **settings: record({"t": {}}, ["base", "small"], resolved=settings)


def test_a_run_without_limits_is_held_against_99(started: Any):
    assert default_limits(started()) == (GateSpec(), "99 % of every row")
    assert default_limits(started(gate_file=None, min_recovery=None, confidence=None))[0] == GateSpec()


def test_a_runs_own_limits_hold(started: Any, tmp_path: Path):
    limits, origin = default_limits(started(min_recovery=95.0, confidence=0.9))
    assert limits == GateSpec(every=Bounds(95), confidence=0.9)
    assert origin == "those that the run was started with, --min-recovery 95 --confidence 0.9"
    file = tmp_path / "gate.yaml"
    file.write_text("max_drop: 2\nconfidence: 0.9\n")
    limits, origin = default_limits(started(gate_file=str(file), min_recovery=95.0))
    assert limits == GateSpec(every=Bounds(95, max_drop=2), confidence=0.9)
    assert origin.endswith(f"--gate-file {file} --min-recovery 95")


def test_limits_that_cannot_be_read_any_more_are_not_replaced(started: Any):
    with pytest.raises(UserError, match=r"made-up was started with cannot be read: .*gone.yaml.* --min-recovery 99"):
        default_limits(started(gate_file="gone.yaml"))
    with pytest.raises(UserError, match="its min_recovery is 'much'"):
        default_limits(started(min_recovery="much"))
