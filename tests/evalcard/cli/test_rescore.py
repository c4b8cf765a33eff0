"""The flags of ``evalcard rescore``; what it does is tested with evalcard.rescore."""

from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke
from evalcard.errors import UserError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Arguments of each call, which then ends as a user's mistake."""
    calls: list[tuple[Any, ...]] = []

    def record(*arguments: Any) -> None:
        calls.append(arguments)
        raise UserError("as far as this test goes")

    monkeypatch.setattr("evalcard.rescore.rescore", record)
    return calls


def test_only_the_first_equals_sign_divides_task_and_judge(asked: list[tuple[Any, ...]]):
    flags = ["--judge", "gsm8k=number", "--judge", r"dates = regex=day=(\d+),", "--data-root", "d", "--trust-task-code"]
    assert invoke(["rescore", "some-run", "--out", "r", "-q", *flags]) == 2
    ((out, run, judges, data_root, trust, _, accepts_changed),) = asked
    assert (out, run, data_root, trust, accepts_changed) == (Path("r"), "some-run", "d", True, False)
    assert judges == {"gsm8k": "number", "dates": r"regex=day=(\d+),"}


def test_without_flags_the_latest_run_is_graded_as_its_tasks_are_defined(asked: list[tuple[Any, ...]]):
    assert invoke(["rescore", "-q"]) == 2
    ((out, run, judges, data_root, trust, *_),) = asked
    assert (out, run, judges, data_root, trust) == (Path("results"), "latest", {}, None, False)


@pytest.mark.parametrize("flags", [["gsm8k"], ["=number"], ["gsm8k="], ["a=number", "a=exact"]])
def test_pairs_that_are_none(asked: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str], flags: list[str]):
    assert invoke(["rescore", *(word for flag in flags for word in ("--judge", flag))]) == 2
    assert "--judge" in capsys.readouterr().err and asked == []


def test_changed_items_are_accepted_where_that_is_said(asked: list[tuple[Any, ...]]):
    assert invoke(["rescore", "-q", "--accept-changed-items"]) == 2
    assert asked[0][-1] is True
