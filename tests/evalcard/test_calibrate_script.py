"""The script that llm-compressor's interpreter runs, with stand-ins for its packages."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from evalcard import calibrate_script
from evalcard.calibrate_script import leave_memory_unpinned, recipe, run, token_rows


class Letters:
    """A tokenizer of letters that puts 0 in front."""

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [0] * add_special_tokens + [ord(letter) for letter in text]}

    def apply_chat_template(self, messages: list[dict[str, str]], tokenize: bool) -> str:
        assert not tokenize
        return "".join(f"<{one['role']}>{one['content']}" for one in messages)


def test_texts_are_cut_and_chats_are_rendered():
    job = {"texts": ["abcdef", [{"role": "u", "content": "x"}], ""], "max_seq_len": 4, "samples": 9}
    rows = token_rows(job, Letters())
    assert rows == [[0, 97, 98, 99], [ord(letter) for letter in "<u>x"], [0]]


def test_a_whole_text_is_cut_into_windows_spread_over_it():
    job = {"whole": "".join(map(chr, range(100))), "max_seq_len": 10, "samples": 3}
    assert [row[0] for row in token_rows(job, Letters())] == [0, 30, 60]
    assert all(len(row) == 10 for row in token_rows(job | {"samples": 99}, Letters()))
    assert [len(row) for row in token_rows(job | {"whole": "abc"}, Letters())] == [3]
    assert len(token_rows(job | {"whole": "a" * 25, "samples": 9}, Letters())) == 2  # the short end is left out


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stand-ins for llm-compressor and what it needs; what they were called with."""
    calls: dict[str, Any] = {}

    def modifier(name: str) -> Any:
        return lambda **settings: (name, settings)

    names = {
        "llmcompressor.modifiers.gptq": ["GPTQModifier"],
        "llmcompressor.modifiers.quantization": ["QuantizationModifier"],
        "llmcompressor.modifiers.transform.awq": ["AWQModifier"],
        "llmcompressor.modifiers.transform.smoothquant": ["SmoothQuantModifier"],
    }
    for module, members in names.items():
        made: Any = ModuleType(module)
        for member in members:
            setattr(made, member, modifier(member))
        monkeypatch.setitem(sys.modules, module, made)
    model = SimpleNamespace(save_pretrained=lambda out, save_compressed: calls.update(saved=(out, save_compressed)))
    loader = SimpleNamespace(from_pretrained=lambda place, dtype: calls.update(loaded=(place, dtype)) or model)
    tokenizers = SimpleNamespace(from_pretrained=lambda place: Letters())
    fakes = {
        "llmcompressor": SimpleNamespace(oneshot=lambda **given: calls.update(oneshot=given)),
        "transformers": SimpleNamespace(AutoTokenizer=tokenizers, AutoModelForCausalLM=loader),
        "datasets": SimpleNamespace(Dataset=SimpleNamespace(from_list=list)),
        "torch": SimpleNamespace(accelerator=SimpleNamespace(is_available=lambda: True)),
    }
    for name, fake in fakes.items():
        monkeypatch.setitem(sys.modules, name, fake)  # type: ignore[arg-type]
    return calls


@pytest.mark.parametrize(
    ("method", "names"),
    [("gptq", ["GPTQModifier"]), ("awq", ["AWQModifier", "QuantizationModifier"]),
     ("smoothquant", ["SmoothQuantModifier", "GPTQModifier"])],
)  # fmt: skip
def test_modifiers_of_each_method(packages: dict[str, Any], method: str, names: list[str]):
    job = {"method": method, "config_groups": {"g": 1}, "ignore": ["lm_head"], "smoothing": 0.8}
    made = recipe(job)
    assert [name for name, _ in made] == names
    assert made[-1][1] == {"config_groups": {"g": 1}, "ignore": ["lm_head"]}
    if method == "smoothquant":
        assert made[0][1] == {"smoothing_strength": 0.8}


def test_a_job_is_run_and_saved(packages: dict[str, Any]):
    job = {"model": "m", "out": "o", "method": "gptq", "config_groups": {}, "ignore": [], "texts": ["ab", "c"],
           "max_seq_len": 8, "samples": 4}  # fmt: skip
    assert run(job) == {"samples": 2, "tokens": 5}
    assert packages["loaded"] == ("m", "auto") and packages["saved"] == ("o", True)
    given = packages["oneshot"]
    assert given["num_calibration_samples"] == 2 and given["max_seq_length"] == 8
    assert given["dataset"][0] == {"input_ids": [0, 97, 98], "attention_mask": [1, 1, 1]}


@pytest.mark.parametrize("has_gpu", [True, False])
def test_memory_is_pinned_for_a_gpu_only(has_gpu: bool):
    tensor = type("Tensor", (), {"pin_memory": lambda self: "pinned"})
    leave_memory_unpinned(SimpleNamespace(accelerator=SimpleNamespace(is_available=lambda: has_gpu), Tensor=tensor))
    one = tensor()
    assert one.pin_memory() == ("pinned" if has_gpu else one)


def test_versions_need_nothing_but_python(tmp_path: Path):
    command = [sys.executable, "-I", "-S", calibrate_script.__file__, "--versions"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout) == dict.fromkeys(calibrate_script.PACKAGES)  # -S: nothing is installed
