"""What the peers are asked, and what is said of their precision; no peer runs here."""

import argparse
import sys
from pathlib import Path

import compare_hf
import numpy
import peer_lm_eval
import pytest
import yaml
from ab_rounds import Limits, Measured, Referee, Round, Scores
from compare_openvino import precisions
from machine_load import Finished, Usage
from peer_lm_eval import HARNESS_TASKS, Peer, command_of, lm_eval_side, versions
from rendered_match import head_of, schemes
from report_rounds import check_scores, table
from suites import SUITES, Suite, evalcard_command


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    for folder, names in {"openai/gsm8k/main": ("train", "test"), "cais/mmlu/anatomy": ("dev", "test")}.items():
        (tmp_path / folder).mkdir(parents=True)
        for name in names:
            (tmp_path / folder / f"{name}.jsonl").write_text("{}\n")
    return tmp_path


def options(command: list[str]) -> dict[str, str]:
    return {name: value for name, value in zip(command, command[1:], strict=False) if name.startswith("--")}


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_every_task_of_a_suite_is_one_of_the_harness(suite, data_root: Path, tmp_path: Path) -> None:
    tasks = [task for task in suite.tasks if task in ("mmlu_anatomy", "gsm8k", "gsm8k_cot")]
    command, _ = command_of(
        Peer(), Path("M"), tasks, data_root, tmp_path / "s", limit=3, threads=1, num_fewshot=suite.num_fewshot
    )
    ours = options(evalcard_command(suite, "M", data_root, tmp_path, limit=3, threads=1))
    theirs = options(command)
    assert ours["--num-fewshot"] == theirs["--num_fewshot"] == str(suite.num_fewshot)
    assert ours["--limit-per-subtask"] == theirs["--limit"] == "3"
    for task in tasks:
        found = yaml.safe_load((tmp_path / "s" / f"local_{task}.yaml").read_text())
        assert Path(found["include"]).is_relative_to(HARNESS_TASKS) and Path(found["include"]).is_file()
        assert all(Path(file).is_relative_to(data_root) for file in found["dataset_kwargs"]["data_files"].values())


def test_a_peer_of_another_environment_sees_none_of_this_one(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "here")
    peer = Peer("vllm", "bfloat16", "auto", "env/bin/python", "a=1", takes_device=False, env=(("SPACE", "4"),))
    command, env = command_of(peer, Path("M"), ["gsm8k"], data_root, tmp_path / "s", limit=None, threads=2)
    assert command[0] == "env/bin/python" and "--device" not in command and "--limit" not in command
    assert options(command)["--model_args"] == "pretrained=M,dtype=bfloat16,a=1"
    assert options(command)["--batch_size"] == "auto" and env["SPACE"] == "4" and "PYTHONPATH" not in env
    assert peer.setting == "bfloat16, batch auto, a=1"
    command, env = command_of(Peer(), Path("M"), ["gsm8k"], data_root, tmp_path / "s", limit=None, threads=2)
    assert env["PYTHONPATH"] == "here" and options(command)["--device"] == "cpu"


def test_a_peer_that_takes_too_long_is_ended_and_has_no_scores(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caps: list[float | None] = []

    def run_command(command: list[str], env: dict[str, str], cap_s: float | None) -> Finished:
        caps.append(cap_s)
        return Finished(Usage(7.0, 6.0, 0.0), "", is_cut=True)

    monkeypatch.setattr(peer_lm_eval, "run_command", run_command)
    args = argparse.Namespace(model=tmp_path, data_root=data_root, threads=2)
    found = lm_eval_side(args, Peer(), SUITES["gsm8k"], 3, 7.0)()
    assert caps == [7.0] and found.is_cut and found.seconds == 7.0 and not found.scores.values


def test_an_environment_without_the_peer_is_said(tmp_path: Path) -> None:
    assert versions(sys.executable, "torch").startswith("torch ")
    with pytest.raises(SystemExit, match="lacks one of no-such-engine"):
        versions(sys.executable, "no-such-engine")
    with pytest.raises(SystemExit, match="does not run"):
        versions(str(tmp_path / "python"), "torch")


@pytest.mark.parametrize(
    ("batches", "dtypes", "tried", "best"),
    [
        ("1,8,32", "float32,bfloat16", [("float32", 8), ("bfloat16", 8), ("bfloat16", 1), ("bfloat16", 32)], 32),
        ("8", "bfloat16", [], 8),
    ],
)
def test_the_best_setting_is_looked_for_dtype_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, batches: str, dtypes: str, tried: list, best: int
) -> None:
    """bfloat16 is the faster dtype here, and larger batches are faster; each setting is tried once, on 5 items."""
    command = ["x", "--model", str(tmp_path), "--data-root", str(tmp_path), "--batches", batches, "--dtypes", dtypes]
    monkeypatch.setattr(sys, "argv", [*command, "--limit", "5"])
    asked: list[tuple] = []

    def side(args: argparse.Namespace, peer: Peer, suite: Suite, limit: int):
        asked.append((peer.dtype, peer.batch))
        assert limit == 5
        return lambda: measured((10 if peer.dtype == "float32" else 5) + 1 / peer.batch)

    monkeypatch.setattr(compare_hf, "lm_eval_side", side)
    found = compare_hf.best_peer(compare_hf.parse(), SUITES["mmlu"], Referee(Limits(), print))
    assert asked == tried and found == Peer(batch=best, dtype="bfloat16")


def test_schemes_and_the_precision_of_heads() -> None:
    assert schemes("w8a8,FP32,w8a8+head=w8") == ["w8a8", "fp32", "w8a8+head=w8"]
    assert [head_of(name) for name in schemes("w8a8,fp32,w8a8+head=w8")] == ["float32", "float32", "int8"]
    with pytest.raises(argparse.ArgumentTypeError, match="w9"):
        schemes("w9")


@pytest.mark.parametrize("own_head", [False, True])
def test_precisions_of_a_gguf(own_head: bool, tmp_path: Path) -> None:
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    values = numpy.ones((4, 32), dtype=numpy.float32)
    coded = {kind: quants.quantize(values, kind) for kind in (GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0)}
    writer = GGUFWriter(tmp_path / "m.gguf", "llama")
    for name in ("blk.0.attn_q.weight", "blk.0.attn_k.weight"):
        writer.add_tensor(name, coded[GGMLQuantizationType.Q4_1], raw_dtype=GGMLQuantizationType.Q4_1)
    writer.add_tensor("blk.0.attn_norm.weight", values[0])
    writer.add_tensor("token_embd.weight", coded[GGMLQuantizationType.Q8_0], raw_dtype=GGMLQuantizationType.Q8_0)
    if own_head:
        writer.add_tensor("output.weight", values.astype(numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    head = "F16" if own_head else "Q8_0 (tied)"
    assert precisions(tmp_path / "m.gguf") == f"weights Q4_1, head {head}"


def measured(seconds: float, score: float = 0.5, items: int = 4, is_cut: bool = False) -> Measured:
    scores = Scores() if is_cut else Scores({"t acc,none": score}, {"t": items})
    return Measured(Usage(seconds, seconds, 0.0), scores, None if is_cut else 9, is_cut)


def test_the_table_has_medians_of_rounds_that_count() -> None:
    rounds = [
        Round(0, 0.0, {"evalcard": measured(10)}, measured(30)),
        Round(1, 0.0, {"evalcard": measured(500)}, measured(50), void="busy"),
        Round(1, 0.0, {"evalcard": measured(20)}, measured(80)),
    ]
    assert table(rounds, "title", "peer")[-2:] == ["| evalcard | 15.0 | 9 | 3.50 |", "| peer | 55.0 | 9 | 1 |"]
    cut = [Round(0, 0.0, {"evalcard": measured(10)}, measured(80, is_cut=True))]
    assert table(cut, "title", "peer")[-2:] == ["| evalcard | 10.0 | 9 | 8.00 |", "| peer | 80.0 (cut) | - | 1 |"]


def test_scores_are_printed_once_and_again_where_they_change(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = [Round(number, 0.0, {"evalcard": measured(10)}, measured(30, score)) for number, score in
              enumerate((0.5, 0.5, 0.25))]  # fmt: skip
    check_scores([*rounds, Round(3, 0.0, {"evalcard": measured(10)}, measured(80, is_cut=True))])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("scores")] == ["scores of round 0:", "scores of round 2:"]
    assert "difference +0.0000" in lines[1] and "difference +0.2500" in lines[3]


def test_other_items_end_the_comparison() -> None:
    with pytest.raises(SystemExit, match="round 0: the sides answered other items"):
        check_scores([Round(0, 0.0, {"evalcard": measured(10)}, measured(30, items=5))])
