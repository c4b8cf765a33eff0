"""The flags of ``evalcard quantize``; what it does is tested with evalcard.quantize."""

from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke
from evalcard.errors import UserError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def record(job: Any, progress: Any, show: Any) -> None:
        calls.append((job, show))
        raise UserError("as far as this test goes")

    monkeypatch.setattr("evalcard.quantize.quantize", record)
    return calls


def test_flags_become_a_job(asked: list[Any]):
    flags = ["--scheme", "w4a16", "--method", "gptq", "--data", "d.jsonl", "--samples", "32", "--max-seq-len", "256",
             "--ignore", "a", "--ignore", "re:b", "--out", "o", "--python", "p", "-q"]  # fmt: skip
    assert invoke(["quantize", "org/m", *flags]) == 2
    ((job, show),) = asked
    assert (job.model.source, job.scheme, job.method, job.out) == ("org/m", "w4a16", "gptq", Path("o"))
    assert (job.data, job.samples, job.max_seq_len, job.python) == (Path("d.jsonl"), 32, 256, "p")
    assert job.ignore == ("a", "re:b") and show is None


def test_defaults(asked: list[Any], capsys: pytest.CaptureFixture[str]):
    assert invoke(["quantize", "org/m", "--scheme", "fp8", "--out", "o"]) == 2
    ((job, show),) = asked
    assert (job.method, job.data, job.samples, job.max_seq_len, job.python) == ("rtn", None, 512, 2048, None)
    show("progress \r")
    said = capsys.readouterr()
    assert said.err.endswith("progress \r") and said.out == ""


def test_what_was_made_is_said(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out"
    assert invoke(["quantize", str(tiny_model), "--scheme", "w8a16", "--out", str(out), "-q"]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: compressed-tensors: w8a16 (int8, per channel); 0.")
    assert invoke(["doctor", str(out)]) == 0


@pytest.mark.parametrize("missing", ["--scheme", "--out"])
def test_flags_that_must_be_given(missing: str, capsys: pytest.CaptureFixture[str]):
    given = {"--scheme": "w8a8", "--out": "o"}
    del given[missing]
    assert invoke(["quantize", "m", *(part for pair in given.items() for part in pair)]) == 2
    assert f"Missing option '{missing}'" in capsys.readouterr().err
