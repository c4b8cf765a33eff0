"""The self-test of a machine, and the string that names its arithmetic."""

import pytest
import torch

from evalcard_engine import numerics
from evalcard_engine.arithmetic.cpu_plans import CPU_PLANS, cpu_features, cpu_plan
from evalcard_engine.arithmetic.exact_linear import onednn_serves


def test_self_test_finds_routing_that_mixes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numerics.routing_faults(60, 4) == ()
    honest = torch.softmax
    monkeypatch.setattr(torch, "softmax", lambda x, dim: honest(x, dim) + 1e-4 * x.shape[0])
    assert "60 experts" in numerics.routing_faults(60, 4)[0]


def test_this_machine_is_in_the_table_and_its_name_is_stable() -> None:
    assert cpu_plan() is CPU_PLANS[cpu_features()]
    first = numerics.describe("cpu", torch.float32, numerics.self_test(torch.float32, 3, (64, 64)))
    numerics.self_test.cache_clear()
    onednn_serves.cache_clear()
    again = numerics.describe("cpu", torch.float32, numerics.self_test(torch.float32, 3, (64, 64)))
    assert first == again
    assert f"torch {torch.__version__}" in first and cpu_features() in first
