"""Calibration: samples read and refused, the other interpreter asked and told, its failures repeated."""

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcard.calibrate import probe, read_samples
from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec
from evalcard.progress import Silent
from evalcard.quantize import Job, quantize

INTERPRETER = '''#!{python}
"""Stands for an interpreter with llm-compressor: tells versions, keeps the job, copies the model."""
import json, os, shutil, sys
from pathlib import Path

here = Path(__file__).parent
if sys.argv[2:] == ["--versions"]:
    print(json.dumps({versions!r}))
    sys.exit(0)
job = json.loads(Path(sys.argv[2]).read_text())
told = {{"job": job, "cwd": os.listdir("."), "pythonpath": os.environ.get("PYTHONPATH")}}
(here / "told.json").write_text(json.dumps(told))
for step in range(3):
    print(f"step {{step}} \\u2588", end="\\r", flush=True)
{more}
for name in ("config.json", "model.safetensors"):
    shutil.copy(Path(job["model"]) / name, Path(job["out"]) / name)
Path("done.json").write_text(json.dumps({{"samples": 2, "tokens": 9}}))
'''
VERSIONS = {"llmcompressor": "0.14.0", "torch": "2.12.0"}


@pytest.fixture
def interpreter(tmp_path: Path) -> Callable[..., str]:
    def make(more: str = "", versions: dict[str, Any] = VERSIONS) -> str:
        file = tmp_path / "python"
        file.write_text(INTERPRETER.format(python=sys.executable, versions=versions, more=more))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return str(file)

    return make


@pytest.fixture
def job(tiny_model: Path, tmp_path: Path, interpreter: Callable[..., str]) -> Callable[..., Job]:
    data = tmp_path / "data.jsonl"
    chat = {"messages": [{"role": "user", "content": "two"}]}
    data.write_text(json.dumps({"text": "one"}) + "\n\n" + json.dumps(chat) + "\n")

    def make(more: str = "", versions: dict[str, Any] = VERSIONS, **changes: Any) -> Job:
        given: dict[str, Any] = {
            "model": ModelSpec(source=str(tiny_model)), "scheme": "w4a16-g32", "out": tmp_path / "out",
            "method": "gptq", "data": data, "max_seq_len": 64, "python": interpreter(more, versions),
        }  # fmt: skip
        return Job(**given | changes)

    return make


def test_what_the_other_interpreter_is_told(job, tiny_model: Path, tmp_path: Path):
    shown: list[str] = []
    quantize(job(ignore=("re:.*layers.1.*",)), Silent(), shown.append)
    told = json.loads((tmp_path / "told.json").read_text())
    order = told["job"]
    assert (order["method"], order["max_seq_len"], order["samples"]) == ("gptq", 64, 512)
    assert order["model"] == str(tiny_model) and order["ignore"] == ["re:.*layers.1.*", "lm_head"]
    assert sorted(map(str, order["texts"])) == ["[{'role': 'user', 'content': 'two'}]", "one"]
    (group,) = order["config_groups"].values()
    assert group["weights"]["group_size"] == 32 and group["targets"] == ["Linear"] and group["format"] is None
    # Nothing of ours lies beside the script, where it would hide a module of its own, or is on its path.
    assert sorted(told["cwd"]) == ["calibrate_script.py", "job.json"] and told["pythonpath"] is None
    assert "".join(shown) == "".join(f"step {step} \u2588\r" for step in range(3))


def test_what_is_kept_beside_the_weights(job, tiny_model: Path, tmp_path: Path):
    quantize(job(), Silent())
    out = tmp_path / "out"
    assert (out / "tokenizer.json").read_bytes() == (tiny_model / "tokenizer.json").read_bytes()
    recipe = yaml.safe_load((out / "calibration.yaml").read_text())
    assert (recipe["method"], recipe["scheme"], recipe["samples"], recipe["tokens"]) == ("gptq", "w4a16-g32", 2, 9)
    assert recipe["data"]["file"] == "data.jsonl" and len(recipe["data"]["sha256"]) == 64
    assert recipe["versions"] == VERSIONS and str(tmp_path) not in (out / "calibration.yaml").read_text()


def test_a_failure_repeats_what_was_said_last_and_leaves_nothing(job, tmp_path: Path):
    with pytest.raises(UserError, match=r"exit code 3.*\n(.*\n)*.*out of memory"):
        quantize(job("sys.exit(sys.stderr.write('CUDA out of memory\\n') and 3)"), Silent())
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out-*"))


def test_what_was_written_wrongly_is_removed(job, tmp_path: Path):
    spoil = "(Path(job['model']) / 'x'); open(Path(job['out']) / 'z.safetensors', 'w').write('no')"
    with pytest.raises(UserError, match="cannot be read"):
        quantize(job(spoil + "; os.environ.clear(); Path('done.json').write_text('{}'); sys.exit(0)"), Silent())
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out-*"))


def test_an_interpreter_without_llm_compressor(job):
    with pytest.raises(UserError, match=r"no llmcompressor.*pip install .llmcompressor>=0\.14.*--python"):
        quantize(job(versions={"llmcompressor": None, "torch": "2.12.0"}), Silent())


@pytest.mark.parametrize("python", ["/no/such/python", os.devnull])
def test_an_interpreter_that_is_none(python: str):
    with pytest.raises(UserError, match=f"--python {python} cannot be run"):
        probe(python)


def test_an_interpreter_that_says_something_else():
    with pytest.raises(UserError, match="no Python that works"):
        probe("/bin/echo")


def test_this_interpreter_says_what_it_has():
    from importlib.util import find_spec

    if find_spec("llmcompressor"):
        assert "llmcompressor" in probe(sys.executable)
    else:
        with pytest.raises(UserError, match="has no llmcompressor"):
            probe(sys.executable)


def test_longer_samples_than_the_model_has_positions(job):
    with pytest.raises(UserError, match="--max-seq-len 513 is beyond the 512 positions"):
        quantize(job(max_seq_len=513), Silent())


def test_samples_are_chosen_by_a_seed(tmp_path: Path):
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({"text": f"t{n}"}) + "\n" for n in range(50)))
    first = read_samples(file, 8)
    assert first["count"] == 8 == len(set(first["given"]["texts"])) and first == read_samples(file, 8)
    assert first["given"]["texts"] != [f"t{n}" for n in range(8)]
    assert sorted(read_samples(file, 99)["given"]["texts"]) == sorted(f"t{n}" for n in range(50))


def test_a_text_file_is_one_text(tmp_path: Path):
    (tmp_path / "a.txt").write_text("one\n\ntwo")
    assert read_samples(tmp_path / "a.txt", 5)["given"] == {"whole": "one\n\ntwo"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"text": "x"}\n{"prompt": "y"}\nnot json\n{"messages": ["z"]}\n', "3 lines.*2, 3, 4"),
        ("a.jsonl", "\n", "is empty"),
        ("a.csv", "text\n", r"\.csv is not read"),
        ("a.jsonl", '["text"]\n', "1 lines"),
    ],
)
def test_data_that_is_none(tmp_path: Path, name: str, text: str, message: str):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        read_samples(tmp_path / name, 4)


def test_data_that_is_not_there(tmp_path: Path):
    with pytest.raises(UserError, match="--data .* cannot be read"):
        read_samples(tmp_path / "none.jsonl", 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "scheme"), [("gptq", "w4a16-g32"), ("awq", "w4a16_asym-g32"), ("smoothquant", "w8a8")]
)
def test_llm_compressor_itself(tiny_model: Path, tmp_path: Path, method: Any, scheme: str):
    """EVALCARD_TEST_LLMC names an interpreter that has llm-compressor."""
    python = os.environ.get("EVALCARD_TEST_LLMC")
    if not python:
        pytest.skip("EVALCARD_TEST_LLMC names no interpreter with llm-compressor")
    data = tmp_path / "data.txt"
    data.write_text(" ".join(f"What is {n} plus {n * 7 % 31}?" for n in range(300)))
    job = Job(ModelSpec(source=str(tiny_model)), scheme, tmp_path / "out", method, (), data, 8, 32, python)
    found = quantize(job, Silent())
    assert not found.faults and len([layer for layer in found.layers if layer.scheme]) == 14
    assert "llmcompressor" in (tmp_path / "out" / "calibration.yaml").read_text()
    assert (tmp_path / "out" / "recipe.yaml").is_file()
