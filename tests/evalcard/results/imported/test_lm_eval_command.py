"""What the harness's own command writes of two models is imported, compared, carded and judged."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke
from evalcard.results.agreement import read_agreeing
from evalcard.results.runs import find_run

COLOURS = ("red", "blue", "green")
NUM_ITEMS, NUM_RIGHT = 20, 17
TASK = "colours"


def save_tokenizer(folder: Path) -> list[str]:
    """Whole words; returns the vocabulary."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<s>", "</s>", "<unk>", "Question", ":", "the", "colour", "of", "number", "is", *COLOURS]
    words += [str(number) for number in range(NUM_ITEMS)]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<unk>"
    ).save_pretrained(folder)
    return words


def save_models(folder: Path) -> list[int]:
    """A model of random weights and the same with noise on them; returns the colour that the first finds likeliest of
    each item."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    words = save_tokenizer(folder / "base")
    save_tokenizer(folder / "small")
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, initializer_range=0.5,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder / "base")
    prompts = [["Question", ":", "the", "colour", "of", "number", str(n), "is"] for n in range(NUM_ITEMS)]
    ids = torch.tensor([[words.index(word) for word in prompt] for prompt in prompts])
    with torch.no_grad():
        logits = model(ids).logits[:, -1, [words.index(colour) for colour in COLOURS]]
        for weight in model.parameters():
            weight.add_(0.04 * torch.randn_like(weight))
    model.save_pretrained(folder / "small")
    return [int(row.argmax()) for row in logits]


def write_task(folder: Path, likeliest: list[int]) -> None:
    """The base model is right on the first items and wrong on the last ones."""
    golds = [(found + (n >= NUM_RIGHT)) % len(COLOURS) for n, found in enumerate(likeliest)]
    lines = [json.dumps({"n": n, "gold": gold}) + "\n" for n, gold in enumerate(golds)]
    (folder / "documents.jsonl").write_text("".join(lines))
    data = {"data_files": {"test": str(folder / "documents.jsonl")}, "cache_dir": str(folder / "cache")}
    task = {
        "task": TASK, "dataset_path": "json", "dataset_kwargs": data, "test_split": "test",
        "output_type": "multiple_choice", "doc_to_text": "Question: the colour of number {{n}} is",
        "doc_to_target": "gold", "doc_to_choice": list(COLOURS), "metadata": {"version": 1.0},
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    (folder / "tasks").mkdir()
    (folder / "tasks" / "colours.yaml").write_text(json.dumps(task))  # which is YAML, too


def run_lm_eval(folder: Path, model: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable, "-m", "lm_eval", "--model", "hf", "--model_args",
        f"pretrained={folder / model},dtype=float32", "--tasks", TASK, "--include_path", str(folder / "tasks"),
        "--device", "cpu", "--batch_size", "4", "--output_path", str(folder / "out"), "--log_samples",
    ]  # fmt: skip
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds ``out``, with a folder of results a model."""
    pytest.importorskip("accelerate", reason="lm-eval's model 'hf' needs it")
    folder = tmp_path_factory.mktemp("command")
    write_task(folder, save_models(folder))
    running = [run_lm_eval(folder, model) for model in ("base", "small")]
    for process in running:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
    return folder


def told_by_harness(folder: Path, model: str) -> tuple[float, dict[int, float], Path]:
    """(score, score by item, results file), as lm-eval wrote them."""
    (results,) = (folder / "out").glob(f"*{model}/results_*.json")
    (samples,) = results.parent.glob(f"samples_{TASK}_*.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    score = json.loads(results.read_text())["results"][TASK]["acc,none"]
    return score, {line["doc_id"]: line["acc"] for line in lines}, results


def test_its_command_is_imported_compared_and_carded(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    base, small = (told_by_harness(written, model) for model in ("base", "small"))
    assert base[0] == NUM_RIGHT / NUM_ITEMS, "the task was made of this model's answers"
    lost = sum(base[1][n] > small[1][n] for n in range(NUM_ITEMS))
    gained = sum(base[1][n] < small[1][n] for n in range(NUM_ITEMS))
    assert lost, "the noise must show, or nothing is compared"

    kept = tmp_path / "kept"
    code = invoke(["compare", str(base[2].parent), str(small[2].parent), "--card", str(kept)])
    printed = capsys.readouterr()
    assert code == 0 and f"Card: {kept / 'README.md'}" in printed.err

    folder = find_run(tmp_path, "kept")
    run = folder.read_run()
    comparison = read_agreeing(folder, run)
    (row,) = comparison.tasks
    (one,) = row.compressed
    assert (row.baseline.score, one.score, one.lost, one.gained) == (base[0], small[0], lost, gained)
    assert one.recovery is not None and one.recovery.value == pytest.approx(100 * small[0] / base[0])
    assert one.recovery.low is not None and one.recovery.low < one.recovery.value

    check_card(kept, run, base[2], small[2], written)
    assert check_again(kept, tmp_path, capsys) == (one.recovery.value, lost, gained)


def check_card(kept: Path, run: Any, base: Path, small: Path, written: Path) -> None:
    """It says who measured, from which files, and what is not known; no folder of this machine is on it."""
    import lm_eval

    card = (kept / "README.md").read_text()
    assert f"lm_eval {lm_eval.__version__}" in card and base.name in card and small.name in card
    assert "Not told by it: tokenizer, weights, bits per weight and size" in card
    assert "**Hardware:** not told" in card
    assert (run.hardware, run.git, {model.weights_digest for model in run.models}) == ({}, None, {None})
    for part in {str(written), str(kept), str(written).replace("/", "__"), written.name}:
        assert part not in card, part
    assert (kept / "models" / "small" / "README.md").is_file()


def check_again(kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[float, int, int]:
    """The folder is a run: the gate judges it, cards are written again, and comparing it says the same."""
    assert invoke(["gate", str(kept), "--min-recovery", "2", "--out", str(tmp_path)]) == 0
    assert invoke(["card", str(kept), "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert "gate: passed" in (kept / "README.md").read_text()
    assert invoke(["compare", str(kept), "--flips", "1", "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["flips"][0]["question"].startswith("Question: the colour of number"), "it is kept with the run"
    (one,) = found["comparison"]["tasks"][0]["compressed"]
    return one["recovery"]["value"], one["lost"], one["gained"]
