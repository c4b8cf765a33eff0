"""A run that ended while its compressed model was answering: what both answered can be compared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.plan import plan_run
from evalcard.progress import Silent
from evalcard.results.records import RunRecord
from evalcard.results.store import RunFolder
from evalcard.run import run_plan
from evalcard.stored import compare_results


@pytest.fixture
def ended_after(
    toy_spec: Callable[..., Any], fake_backend: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], RunRecord]:
    """A run whose compressed model was interrupted after so many answers, as run.json tells of it."""

    def run(answers: int) -> RunRecord:
        plain = toy_spec("toy_sums", out=str(tmp_path))
        spec = toy_spec("toy_sums", out=str(tmp_path), compressed=[f"{plain.baseline.source}:w8a8"])

        def backend(model: Any) -> Any:
            return fake_backend(stop_after=answers, weights="w1") if model.scheme else fake_backend()

        monkeypatch.setattr("evalcard.plan.make_backends", lambda spec, _: [backend(one) for one in spec.models])
        with pytest.raises(KeyboardInterrupt):
            run_plan(plan_run(spec, Silent()), Silent(), command=["evalcard", "run"])
        return RunFolder(tmp_path / spec.run_name).read_run()

    return run


def test_what_both_answered_is_compared_with_a_warning(ended_after: Callable[[int], RunRecord], tmp_path: Path):
    run = ended_after(5)
    assert run.finished is None and len(run.models) == 1
    before = {path: path.read_bytes() for path in (tmp_path / run.name).rglob("*.json*")}
    for names in ((run.name,), (run.name, run.name)):
        found = compare_results(tmp_path, *names, common_items=True)
        assert found.comparison.tasks[0].n == 5 and found.compressed[0].model.scheme == "w8a8"
        (one,) = found.comparison.tasks[0].compressed
        assert (one.lost, one.gained) == (0, 0) and one.score == found.comparison.tasks[0].baseline.score
        assert any(
            finding.severity == "warning" and "left out" in finding.finding for finding in found.comparison.health
        )
    assert {path: path.read_bytes() for path in (tmp_path / run.name).rglob("*.json*")} == before, "nothing is written"
    with pytest.raises(UserError, match="no compressed model with complete answers, as it did not end.*--common-items"):
        compare_results(tmp_path, run.name)


def test_a_baseline_is_not_taken_for_the_compressed_model(ended_after: Callable[[int], RunRecord], tmp_path: Path):
    name = ended_after(0).name
    for common_items in (False, True):
        with pytest.raises(UserError, match=f"as the run did not end. Name one: {name}:"):
            compare_results(tmp_path, f"{name}:baseline", name, common_items=common_items)
    with pytest.raises(UserError, match="no answers of a compressed model, as it did not end"):
        compare_results(tmp_path, name, common_items=True)
