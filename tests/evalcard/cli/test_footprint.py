"""``evalcard footprint`` as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke

LLAMA = {"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
         "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
         "dtype": "bfloat16"}  # fmt: skip
MLA = {"model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 2, "n_routed_experts": 12,
       "first_k_dense_replace": 1, "num_nextn_predict_layers": 1}  # fmt: skip


def config_at(folder: Path, config: dict[str, Any]) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder / "config.json")


@pytest.fixture
def llama(tmp_path: Path) -> str:
    return config_at(tmp_path / "Meta-Llama-3-70B", LLAMA)


def said(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert invoke(["footprint", *args]) == 0
    return capsys.readouterr().out


def test_the_textbook_figures(llama: str, capsys: pytest.CaptureFixture[str]):
    text = said(capsys, llama, "--gpu", "80", "--gpus", "4", "--gpu-share", "1", "--context", "2k,8k,32k,128k")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "Meta-Llama-3-70B (llama): 70.55 billion parameters"
    assert "bf16 131.4 (141.1) 16.00" in lines and "bf16 leaves 188.6 GiB (202.5 GB)." in lines
    assert "A token takes 327,680 bytes in bf16, 163,840 bytes in fp8." in lines
    caches = [line for line in lines if line.endswith(")") and " tokens" in line]
    assert [line.split(" tokens")[0] for line in caches] == ["2,048", "8,192", "32,768", "131,072"]
    assert [line.split()[2] for line in caches] == ["0.625", "2.5", "10", "40"]
    assert "bf16 bf16 4: 301 4: 75 4: 18 4: 4" in lines
    assert "* more tokens than the config's max_position_embeddings, 8,192." in lines
    assert all(len(line) <= 80 for line in text.splitlines())


def test_what_is_asked_for_is_shown(llama: str, capsys: pytest.CaptureFixture[str]):
    text = said(
        capsys, llama, "--scheme", "w4a16-g64,int8", "--kv-cache", "int8", "--context", "4k,100", "--requests", "9"
    )
    assert "w4a16-g64" in text and "w8a8" in text and "4,096 tokens" in text and "100 tokens" in text
    assert "fp8" not in text and "*" not in text and "weights and 9 requests" in text
    assert "168,960 bytes in int8" in text


def test_lengths_are_those_that_the_model_allows(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = said(capsys, config_at(tmp_path / "short", {**LLAMA, "max_position_embeddings": 512}))
    assert "512 tokens" in text and "2,048" not in text and "*" not in text
    text = said(capsys, config_at(tmp_path / "long", {**LLAMA, "max_position_embeddings": 10_485_760}))
    assert "10,485,760 tokens" in text and "*" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_scheme_with_its_kv_cache_has_one_line(llama: str, capsys: pytest.CaptureFixture[str]):
    text = said(capsys, f"{Path(llama).parent}:w4a16+kv=fp8", "--context", "2k", "--kv-cache", "bf16")
    fits = [line.split()[:2] for line in text[text.index("GPUs: requests") :].splitlines() if ": " in line]
    assert ["w4a16+kv=fp8", "fp8"] in fits and ["w4a16+kv=fp8", "bf16"] not in fits and ["w4a16", "bf16"] in fits
    assert "163,840 bytes in fp8" in text


def test_a_config_without_model_type_is_named_as_it_was_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "other.json").write_text('{"hidden_size": 8}')
    assert invoke(["footprint", str(tmp_path / "other.json")]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert f"{tmp_path}/other.json: the config names no model_type, so that its tensors are not counted here" in error


def test_a_scheme_after_the_model_has_a_row(llama: str, capsys: pytest.CaptureFixture[str]):
    folder = str(Path(llama).parent)
    told = json.loads(said(capsys, f"{folder}:nvfp4a16", "--json"))
    assert [row["scheme"] for row in told["weights"]] == ["bf16", "w8a8", "w4a16", "nvfp4a16"]
    assert told["model"] == "Meta-Llama-3-70B" and told["gpu"]["name"] == "h100-80"
    assert str(folder) not in json.dumps(told)


def test_files_are_measured(capsys: pytest.CaptureFixture[str]):
    text = said(capsys, "@demo")
    assert "its file holds 0.005865 GiB (0.006297 GB)" in text and "+ measured" in text and "lets expect" not in text
    assert "the embedding" in text  # a tied head


def test_a_difference_from_the_files_is_said(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    config = json.loads((tiny_model / "config.json").read_text())
    folder = tmp_path / "other"
    config_at(folder, {**config, "num_hidden_layers": config["num_hidden_layers"] + 1, "layer_types": None})
    (folder / "model.safetensors").write_bytes((tiny_model / "model.safetensors").read_bytes())
    assert "less than the config lets expect" in " ".join(said(capsys, str(folder)).split())
    same = said(capsys, str(tiny_model))
    assert "+ measured" in same and "lets expect" not in same


def test_notes_of_a_latent_cache_and_many_cards(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = config_at(tmp_path / "m", MLA)
    text = " ".join(said(capsys, path, "--gpu", "0.1", "--gpu-share", "1").split())
    assert "active for a token" in text and "the latent vector of its multi-head latent attention" in text
    assert "Not counted: 1 layer for predicting further tokens" in text
    assert "On more than 1 card tensor parallelism stores copies of the cache, which is one for all heads" in text
    assert "cards do not divide the 128 heads: tensor parallelism takes" in text


@pytest.mark.parametrize(
    "args, message",
    [
        (["--gpu", "h1000"], "unknown GPU 'h1000'"),
        (["--scheme", "w5a5"], "unknown scheme 'w5a5'"),
        (["--kv-cache", "nf4"], "unknown KV cache dtype 'nf4'"),
        (["--context", "2k,no"], "--context 'no' is no number of tokens"),
        (["--context", "0"], "--context '0' is no number"),
        (["--context", ","], "--context is empty"),
        (["--gpu-share", "1.1"], "--gpu-share 1.1: give the part"),
        (["--gpu-share", "0"], "--gpu-share 0: give the part"),
        (["--gpu-share", "nan"], "--gpu-share nan: give the part"),
        (["--gpu", "0.0001"], "unknown GPU '0.0001'"),
        (["--gpus", "0"], "--gpus"),
    ],
)
def test_mistakes(llama: str, args: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["footprint", llama, *args]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_family_names_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["footprint", config_at(tmp_path / "m", {"model_type": "mamba2"})]) == 2
    error = capsys.readouterr().err
    assert "model_type 'mamba2'" in error and "llama4" in error and "Traceback" not in error


def test_nothing_heavy_is_imported(llama: str):
    heavy = ("torch", "transformers", "lm_eval", "pandas", "numpy", "huggingface_hub", "jinja2", "pydantic_settings")
    code = (
        "import sys; from evalcard.cli.main import invoke; code = invoke(['footprint', sys.argv[1]]); "
        f"print('loaded:', *[name for name in {heavy!r} if name in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, llama], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].strip() == "loaded:"
