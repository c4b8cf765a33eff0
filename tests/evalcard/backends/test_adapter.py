"""Our engine as a model of the harness, under its own evaluator and its own command."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Any:
    from evalcard.backends.adapter import EvalcardLM

    return EvalcardLM.create_from_arg_string(f"pretrained={tiny_model},dtype=float32,device=cpu", {"batch_size": 3})


def request(*args: Any) -> Any:
    from lm_eval.api.instance import Instance

    return Instance("loglikelihood", {}, args, 0, metadata=("t", 0, 1))


def test_answers_come_in_the_order_of_the_requests(model: Any):
    pairs = [("Question: one\nAnswer:", f" {letter}") for letter in "ABCDABCD"]
    found = model.loglikelihood([request(*pair) for pair in pairs], disable_tqdm=True)
    alone = [model.loglikelihood([request(*pair)], disable_tqdm=True)[0] for pair in pairs[::-1]][::-1]
    assert found == alone and found[:4] == found[4:] and len(set(found)) == 4
    assert model.loglikelihood([], disable_tqdm=True) == []


def test_one_call_with_different_arguments(model: Any):
    short = {"until": ["\n"], "max_gen_toks": 2, "do_sample": False}
    long = {"until": [], "max_gen_toks": 9}
    texts = model.generate_until(
        [request("What is 3", arguments) for arguments in (long, short, long)], disable_tqdm=True
    )
    assert texts[0] == texts[2] and texts[0].startswith(texts[1].split("\n")[0]) and len(texts[0]) > len(texts[1])


def test_repeats_get_noise_of_their_own(model: Any):
    arguments = {"until": [], "max_gen_toks": 8, "do_sample": True, "temperature": 5.0}
    first, second, other = model.generate_until(
        [request("What", arguments), request("What", arguments), request("That", arguments)], disable_tqdm=True
    )
    again = model.generate_until([request("What", arguments)], disable_tqdm=True)
    assert first != second and again == [first] and other != first


def test_whole_texts(model: Any):
    text = "The circle is round. " * 5
    (whole, empty) = model.loglikelihood_rolling([request(text), request("<s>")], disable_tqdm=True)
    assert whole < 0 and empty < 0


def test_a_prompt_that_does_not_fit_is_never_cut(model: Any):
    with pytest.raises(UserError, match="do not fit the model's 512 tokens"):
        model.generate_until([request("word " * 900, {"until": []})], disable_tqdm=True)


@pytest.mark.parametrize(
    ("arguments", "match"), [("pretrained=x,gpus=2", "unknown arguments gpus"), ("dtype=float32", "missing")]
)
def test_users_mistakes(arguments: str, match: str):
    from evalcard.backends.adapter import EvalcardLM

    with pytest.raises(UserError, match=match):
        EvalcardLM.create_from_arg_string(arguments)


def test_the_command_lines_device_is_a_wish(tiny_model: Path):
    """It says cuda:0 unless told otherwise; the model's own argument is an order."""
    from evalcard.backends.adapter import EvalcardLM

    for own, wished, expected in (("", "cuda:0", "auto"), ("", "cpu", "cpu"), (",device=cpu", "cuda:0", "cpu")):
        made = EvalcardLM.create_from_arg_string(f"pretrained={tiny_model}{own}", {"device": wished, "batch_size": 1})
        assert made._backend._spec.device == expected


def test_arguments_reach_the_spec(tiny_model: Path):
    from evalcard.backends.adapter import _spec

    given = {"scheme": "w8a8", "max_length": 99, "kv_memory": 1 << 20, "device": "cuda:0", "tokenizer": "x/y"}
    spec, model = _spec(str(tiny_model), given)
    assert (spec.max_model_len, spec.kv_memory, spec.device) == (99, 1 << 20, "cuda")
    assert (model.scheme, model.args, model.source) == ("w8a8", {"tokenizer": "x/y"}, str(tiny_model))


def test_scores_equal_the_hf_model(tiny_model: Path, toys: Any, model: Any):
    import lm_eval
    from lm_eval.tasks import TaskManager

    pytest.importorskip("accelerate")
    manager = TaskManager(include_defaults=False, include_path=str(toys.harness_folder))
    options: dict[str, Any] = {"tasks": ["toy_mc", "toy_sums", "toy_texts"], "limit": 4, "bootstrap_iters": 0}
    options |= {"apply_chat_template": True, "task_manager": manager}
    ours: Any = lm_eval.simple_evaluate(model=model, **options)
    theirs: Any = lm_eval.simple_evaluate(
        model="hf", model_args=f"pretrained={tiny_model},dtype=float32", device="cpu", batch_size=4, **options
    )
    for task, samples in ours["samples"].items():
        for one, other in zip(samples, theirs["samples"][task], strict=True):
            assert one["arguments"] == other["arguments"]
            assert task != "toy_sums" or one["resps"] == other["resps"]
    for task, scores in ours["results"].items():
        for name, value in scores.items():
            if isinstance(value, float):
                assert value == pytest.approx(theirs["results"][task][name], rel=1e-3), (task, name)


def command(*arguments: str) -> subprocess.CompletedProcess:
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'engine'}"}
    whole = [sys.executable, "-m", "evalcard.lm_eval", *arguments]
    return subprocess.run(whole, capture_output=True, text=True, cwd=ROOT, env=env)


def test_help_from_the_clones_root():
    done = command("--help")
    assert done.returncode == 0 and "lm-eval" in done.stdout, done.stderr


def test_the_harness_still_finds_its_own_models():
    """In a fresh interpreter: the adapter first, then the harness's."""
    code = (
        "import evalcard.backends.adapter; from lm_eval.api.registry import get_model;"
        "print(get_model('hf').__name__, get_model('evalcard').__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["HFLM", "EvalcardLM"], done.stderr


def test_the_command(tiny_model: Path, toys: Any, tmp_path: Path):
    model_args = f"pretrained={tiny_model},dtype=float32,device=cpu"
    tasks = str(toys.harness_folder / "toy_sums.yaml")
    arguments = ["--model", "evalcard", "--model_args", model_args, "--tasks", tasks, "--limit", "2"]
    arguments += ["--output_path", str(tmp_path)]
    done = command(*arguments)
    assert done.returncode == 0, done.stderr[-2000:]
    (results,) = tmp_path.rglob("results_*.json")
    assert set(json.loads(results.read_text())["results"]) == {"toy_sums"}


def test_a_users_mistake_ends_the_command_with_its_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    def refuse() -> None:
        raise UserError("unknown arguments gpus")

    monkeypatch.setattr("lm_eval.__main__.cli_evaluate", refuse)
    with pytest.raises(SystemExit) as end:
        runpy.run_module("evalcard.lm_eval", run_name="__main__")
    assert end.value.code == 2 and "unknown arguments gpus" in capsys.readouterr().err
