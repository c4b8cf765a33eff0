"""The whole job on the bundled model: from a spec to a card, again for free, and nothing loaded for bad input."""

import json
import shutil
from pathlib import Path

import pytest

from evalcard.backends.backend import Identity
from evalcard.cli.main import invoke
from evalcard.errors import UserError
from evalcard.gate.judge import judge
from evalcard.plan import plan_run, slugs
from evalcard.progress import Silent
from evalcard.resources import demo_model
from evalcard.results.records import NoiseRecord
from evalcard.run import Outcome, run_plan
from evalcard.spec import RunSpec, make_spec


def spec_of(out: Path, **changes: object) -> RunSpec:
    base = {"baseline": "@demo", "compressed": ["@demo:w4a16"], "tasks": "demo", "limit_per_subtask": 4}
    return make_spec(base | {"out": str(out)} | changes)


def execute(spec: RunSpec) -> Outcome:
    return run_plan(plan_run(spec, Silent()), Silent(), command=["evalcard", "run"])


def reused(outcome: Outcome) -> int:
    return sum(step.reused for step in outcome.run.progress)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    out = tmp_path_factory.mktemp("results")
    return out, execute(spec_of(out))


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening an engine fails the test."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr("evalcard_engine.models.open_model", refuse)


def test_a_run_leaves_what_the_docs_say(finished: tuple[Path, Outcome]):
    out, outcome = finished
    folder = out / outcome.run.name
    for name in ("run.json", "comparison.json", "README.md", "models/evalcard-demo-w4a16/README.md"):
        assert (folder / name).is_file(), name
    for task in ("demo_knowledge", "demo_words", "demo_maths"):
        assert (folder / "samples" / "evalcard-demo" / f"{task}.jsonl").read_bytes().count(b"\n") == 4
    assert outcome.run.finished and reused(outcome) == 0
    assert [row.task for row in outcome.comparison.tasks] == ["demo_knowledge", "demo_words", "demo_maths"]


def test_front_matter_holds_no_path(finished: tuple[Path, Outcome]):
    from huggingface_hub import ModelCard

    _, outcome = finished
    card = ModelCard.load(outcome.card)
    assert "base_model" not in card.data.to_dict() and card.data.tags == ["evalcard", "w4a16"]
    assert str(demo_model().parent) not in outcome.card.read_text(encoding="utf-8")


def test_the_same_command_again_loads_no_weights(finished: tuple[Path, Outcome], no_weights: None):
    out, first = finished
    again = execute(spec_of(out))
    assert reused(again) == 2 * 3 * 4
    assert again.comparison == first.comparison
    assert [model.bits_per_weight for model in again.run.models] == [m.bits_per_weight for m in first.run.models]
    assert again.run.models[1].bits_per_weight == pytest.approx(4.125)


def test_the_plan_and_what_came_of_it_are_stored_and_kept(finished: tuple[Path, Outcome], no_weights: None):
    out, first = finished
    for model in first.run.models:
        engine = model.engine
        assert engine is not None and 0 < engine.planned_tokens_to_compute <= engine.planned_prompt_tokens
        assert engine.planned_tokens_to_compute <= engine.computed_tokens and engine.steps > 0
        assert engine.memory_halvings == 0 < engine.planned_pages
    again = execute(spec_of(out))
    assert [model.engine for model in again.run.models] == [model.engine for model in first.run.models]
    assert execute(spec_of(out, tasks="demo_words", limit_per_subtask=1)).run.models[0].engine is None


def test_another_run_takes_equal_answers(finished: tuple[Path, Outcome], no_weights: None):
    out, first = finished
    smaller = execute(spec_of(out, tasks="demo_words", limit_per_subtask=2))
    assert smaller.run.name != first.run.name and reused(smaller) == 4
    assert smaller.run.models[0].weight_bytes == first.run.models[0].weight_bytes


def test_reuse_takes_from_another_root_and_fresh_does_not(finished: tuple[Path, Outcome], tmp_path: Path):
    out, _ = finished
    taken = execute(spec_of(tmp_path / "a", tasks="demo_words", limit_per_subtask=2, reuse=(str(out),)))
    assert reused(taken) == 4
    fresh = execute(spec_of(tmp_path / "a", tasks="demo_words", limit_per_subtask=2, reuse=(str(out),), fresh=True))
    # The files hold other seconds, and all else is the same.
    files = {"made_from": {}}
    assert reused(fresh) == 0 and fresh.comparison.made_from != taken.comparison.made_from
    assert fresh.comparison.model_copy(update=files) == taken.comparison.model_copy(update=files)


def test_a_baseline_alone_has_scores_and_a_page(tmp_path: Path, finished: tuple[Path, Outcome]):
    alone = execute(spec_of(tmp_path, compressed=(), reuse=(str(finished[0]),)))
    assert alone.comparison.tasks[0].compressed == [] and alone.card.is_file()


def test_equal_labels_get_slugs_of_their_own(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name / "model").mkdir(parents=True)
    spec = make_spec(
        {"baseline": str(tmp_path / "a" / "model"), "compressed": [str(tmp_path / "b" / "model")], "tasks": "demo"}
    )
    one, two = slugs(spec)
    assert one != two and one.startswith("model-") and two.startswith("model-")


def copy_of_demo(target: Path, without: str | None = None) -> Path:
    shutil.copytree(demo_model(), target)
    if without:
        for path in target.glob(without):
            path.unlink()
    return target


BAD = {
    "unknown task": (lambda tmp: ["--tasks", "demo_wrds"], "demo_words"),
    "unknown scheme": (lambda tmp: ["--compressed", "@demo:w8a9"], "w8a8"),
    "missing folder": (lambda tmp: ["--baseline", "./nowhere", "--tasks", "demo"], "nowhere"),
    "no config": (
        lambda tmp: ["--baseline", str(copy_of_demo(tmp / "m", "config.json")), "--tasks", "demo"],
        "config.json",
    ),
    "no tokenizer": (
        lambda tmp: ["--baseline", str(copy_of_demo(tmp / "m", "tokenizer*")), "--tasks", "demo"],
        "tokenizer",
    ),
    "no weights": (
        lambda tmp: ["--baseline", str(copy_of_demo(tmp / "m", "*.safetensors")), "--tasks", "demo"],
        "safetensors",
    ),
    "hub id while offline": (lambda tmp: ["--baseline", "org/no-such-model", "--tasks", "demo"], "org/no-such-model"),
    "results folder is a file": (lambda tmp: ["--out", str(file_in(tmp))], "cannot write results"),
}


def file_in(folder: Path) -> Path:
    path = folder / "file"
    path.write_text("not a folder")
    return path


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_ends_with_2_before_weights_load(case: str, tmp_path: Path, monkeypatch, capsys, no_weights: None):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    make_args, says = BAD[case]
    assert invoke(["run", "--limit-per-subtask", "2", "--quiet", *make_args(tmp_path)]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_other_token_ids_are_refused_with_the_first_difference(tmp_path: Path, capsys, no_weights: None):
    other = copy_of_demo(tmp_path / "other")
    path = other / "tokenizer.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    vocab = data["model"]["vocab"]
    words = [word for word in vocab if word.strip().isalpha() and len(word.strip()) > 2]
    for one, two in zip(words[::2], words[1::2], strict=False):
        vocab[one], vocab[two] = vocab[two], vocab[one]
    path.write_text(json.dumps(data), encoding="utf-8")
    code = invoke(["run", "--baseline", "@demo", "--compressed", str(other), "--tasks", "demo_words", "--out",
                   str(tmp_path / "results"), "--quiet"])  # fmt: skip
    error = capsys.readouterr().err
    assert code == 2 and "demo_words" in error and "item" in error, error


def test_a_task_that_cannot_be_compared_is_refused(monkeypatch, capsys, tmp_path: Path, no_weights: None):
    task = tmp_path / "texts.yaml"
    data = tmp_path / "data" / "acme" / "texts"
    data.mkdir(parents=True)
    (data / "test.jsonl").write_text('{"text": "one two three"}\n')
    task.write_text(
        "task: texts\ndataset_path: acme/texts\ntest_split: test\noutput_type: loglikelihood_rolling\n"
        'doc_to_text: ""\ndoc_to_target: "{{text}}"\nmetric_list:\n  - metric: word_perplexity\n'
    )
    args = ["--tasks", str(task), "--data-root", str(tmp_path / "data"), "--out", str(tmp_path / "results")]
    assert invoke(["run", "--baseline", "@demo", *args, "--quiet"]) == 2
    assert "mean over items: texts (word_perplexity)" in capsys.readouterr().err


def test_dry_run_writes_nothing_and_tells_the_counts(tmp_path: Path, capsys, no_weights: None):
    assert invoke(["run", "--dry-run", "--json", "--limit-per-subtask", "3", "--out", str(tmp_path / "r")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["answers_per_model"] == 9 and len(told["models"]) == 3
    assert not (tmp_path / "r").exists()


def planned(capsys: pytest.CaptureFixture, *flags: str) -> dict:
    """The dry run's summary for a program, by task."""
    assert invoke(["run", "--dry-run", "--json", *flags]) == 0, capsys.readouterr().err
    return {task["name"]: task for task in json.loads(capsys.readouterr().out)["tasks"]}


def test_flags_reach_the_plan(capsys, no_weights: None):
    tasks = planned(capsys, "--limit", "9", "--temperature", "0.6", "--top-p", "0.9", "--repeats", "3")
    assert [task["items_selected"] for task in tasks.values()] == [9, 9, 9]
    told = tasks["demo_maths"]
    assert told["repeats"] == 3 and told["decoding"] == "sampled, temperature 0.6, top-p 0.9, seed 1234"
    assert told["selection"] == "seeded" and len(told["item_ids"]) == 9
    assert tasks["demo_knowledge"]["decoding"] == "scored" and tasks["demo_knowledge"]["repeats"] == 1


def test_a_flag_that_says_0_is_given(tmp_path: Path, capsys, no_weights: None):
    """0 equals False, and an unset flag is False."""
    spec = tmp_path / "spec.yaml"
    spec.write_text("baseline: '@demo'\ntasks: demo_maths\nseed: 7\ntemperature: 0.6\nrepeats: 2\n")
    assert planned(capsys, str(spec))["demo_maths"]["decoding"].endswith("seed 7")
    assert planned(capsys, str(spec), "--seed", "0")["demo_maths"]["decoding"].endswith("seed 0")
    told = planned(capsys, str(spec), "--temperature", "0", "--repeats", "1")["demo_maths"]
    assert (told["decoding"], told["repeats"]) == ("greedy", 1)


def test_the_off_half_of_a_pair_is_given(capsys, no_weights: None):
    names = []
    for flags in ([], ["--no-fewshot-as-multiturn"]):
        assert invoke(["run", "--dry-run", "--json", *flags]) == 0
        names.append(json.loads(capsys.readouterr().out)["run"])
    assert names[0] != names[1]


def test_what_is_refused_before_weights_load(capsys, no_weights: None):
    for flags, says in [
        (["--limit", "3", "--limit-per-subtask", "3"], "give one"),
        (["--limit", "2.5"], "whole number of items, or a share below 1"),
        (["--repeats", "2"], "decoded greedily"),
        (["--fewshot-as-multiturn"], "needs chat_template"),
        (["--max-model-len", "4096"], "beyond the 512 positions"),
    ]:
        assert invoke(["run", "--dry-run", *flags]) == 2
        assert says in capsys.readouterr().err


def test_the_plan_tells_totals_shots_and_metrics_before_weights_load(capsys, no_weights: None):
    assert invoke(["run", "--dry-run", "--limit", "9", "--temperature", "0.5", "--repeats", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("  demo_knowledge: 9 of ") and "0-shot, acc, scored" in line for line in lines), lines
    assert any(line.startswith("  demo_maths: 9 of ") and "2 answers each" in line for line in lines), lines


def test_the_plan_of_a_group_tells_the_total_of_its_row(toys, tokenizer_folder: Path, no_weights: None, monkeypatch):
    monkeypatch.setattr("evalcard.plan.make_backends", lambda spec, _: [FakeIdentity() for _ in spec.models])
    spec = make_spec({"baseline": str(tokenizer_folder), "tasks": [toys.path("toy_all")], "limit": 6,
                      "data_root": str(toys.data_root)})  # fmt: skip
    lines = plan_run(spec, Silent()).lines()
    assert "  toy_mc: 6 of 14 items of 2 tasks, 2-shot, acc, scored" in lines
    assert "  toy_sums: 6 of 12 items, 3-shot, exact_match (strict), greedy" in lines
    assert any("12 answers x 1 models = 12" in line for line in lines)


class FakeIdentity:
    """A backend that is only asked who it is."""

    def identity(self) -> Identity:
        return Identity("w0", "fake")


def test_json_is_the_comparison(finished: tuple[Path, Outcome], capsys):
    out, outcome = finished
    args = ["--compressed", "@demo:w4a16", "--limit-per-subtask", "4", "--out", str(out), "--json"]
    assert invoke(["run", *args]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == outcome.comparison.model_dump(mode="json")["tasks"]


def test_a_model_beside_itself_recovers_whole(tmp_path: Path, finished: tuple[Path, Outcome]):
    same = execute(spec_of(tmp_path, compressed=["@demo"], tasks="demo_words", reuse=(str(finished[0]),)))
    assert [model.role for model in same.run.models] == ["baseline", "compressed"]
    ((score,),) = [row.compressed for row in same.comparison.tasks]
    assert (score.lost, score.gained, score.mcnemar_p) == (0, 0, 1.0)


def test_the_verdict_stands_until_what_it_judged_changes(tmp_path: Path, finished: tuple[Path, Outcome]):
    spec = spec_of(tmp_path, reuse=(str(finished[0]),))
    first = execute(spec)
    assert invoke(["gate", "--decide", "point", "--out", str(tmp_path)]) == 4
    assert "cannot be judged" in first.card.read_text(encoding="utf-8")
    again = execute(spec)
    assert again.comparison.verdict and again.comparison.verdict["outcome"] == "CANNOT_JUDGE"


def test_gate_after_a_run(finished: tuple[Path, Outcome], capsys):
    out, outcome = finished
    args = ["gate", outcome.run.name, "--decide", "point", "--out", str(out), "--json"]
    code = invoke([*args, "--min-recovery", "0"])
    verdict = json.loads(capsys.readouterr().out)
    assert (
        code == verdict["exit_code"] == {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3, "CANNOT_JUDGE": 4}[verdict["outcome"]]
    )
    assert invoke([*args, "--task", "no_such_task=90"]) == 2


def test_weights_that_change_between_planning_and_loading_are_not_answered_for(tmp_path: Path):
    import torch
    from safetensors.torch import load_file, save_file

    folder = copy_of_demo(tmp_path / "m")
    spec = make_spec(
        {"baseline": str(folder), "tasks": "demo_words", "limit_per_subtask": 2, "out": str(tmp_path / "r")}
    )
    plan = plan_run(spec, Silent())
    weights = load_file(folder / "model.safetensors")
    save_file({name: torch.zeros_like(one) for name, one in weights.items()}, folder / "model.safetensors")
    with pytest.raises(UserError, match="weights of m changed after this run was planned"):
        run_plan(plan, Silent(), command=["evalcard", "run"])
    assert not list((tmp_path / "r").glob("*/samples/*/*.jsonl"))


class TestJudged:
    """A run with a limit ends with a verdict; one without keeps what the gate said before."""

    def test_a_limit_is_judged_and_shown(self, tmp_path: Path, finished: tuple[Path, Outcome]):
        roots = {"reuse": (str(finished[0]),)}
        plain = execute(spec_of(tmp_path, **roots))
        assert plain.verdict is None and plain.comparison.verdict is None
        plan = plan_run(spec_of(tmp_path, min_recovery=97, confidence=0.9, **roots), Silent())
        done = run_plan(plan, Silent(), command=["evalcard", "run"])
        assert done.run.name == plain.run.name and done.verdict is not None and plan.gate is not None
        assert done.verdict == judge(plain.comparison, plan.gate, plain.run)
        assert (done.verdict.confidence, done.verdict.outcome) == (0.9, "CANNOT_JUDGE")
        assert done.comparison.verdict == done.verdict.model_dump(mode="json")
        assert "cannot be judged" in done.card.read_text(encoding="utf-8")
        again = execute(spec_of(tmp_path, **roots))
        assert again.verdict is None and again.comparison == done.comparison


class TestNoise:
    """The baseline is asked again while it is open, and only where an earlier attempt does not know the answer."""

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[str], bool]]:
        """(items a task, tasks with samples, whether the engine is open) of every check."""
        calls: list[tuple[int, list[str], bool]] = []

        def check(spec, prepared, tokenizer, backend, samples, verdicts, progress):
            assert {name: len(found) for name, found in samples.items()} == {
                name: len(found) for name, found in verdicts.items()}  # fmt: skip
            calls.append((spec.noise_check, list(samples), backend._engine is not None))
            return [NoiseRecord(task=name, answers=spec.noise_check, differing=1, flipped=0) for name in samples]

        monkeypatch.setattr("evalcard.noise.check_noise", check)
        return calls

    def test_asked_once_and_kept(self, tmp_path: Path, asked: list[tuple[int, list[str], bool]]):
        few = {"tasks": "demo_words", "limit_per_subtask": 2}
        first = execute(spec_of(tmp_path, noise_check=2, **few))
        assert asked == [(2, ["demo_words"], True)]
        assert first.run.noise == [NoiseRecord(task="demo_words", answers=2, differing=1, flipped=0)]
        again = execute(spec_of(tmp_path, noise_check=2, **few))
        assert len(asked) == 1 and again.run.noise == first.run.noise
        other = execute(spec_of(tmp_path, noise_check=1, **few))
        assert asked[1:] == [(1, ["demo_words"], False)] and other.run.noise[0].answers == 1
        execute(spec_of(tmp_path, noise_check=1, fresh=True, **few))
        assert asked[2:] == [(1, ["demo_words"], True)]
        assert execute(spec_of(tmp_path, **few)).run.noise == [] and len(asked) == 3

    def test_an_attempt_that_was_cut_off_afterwards_knows_it(
        self, tmp_path: Path, asked: list[tuple[int, list[str], bool]], monkeypatch: pytest.MonkeyPatch
    ):
        few = {"tasks": "demo_words", "limit_per_subtask": 2, "noise_check": 2}

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("evalcard.run.compare_run", stop)
            with pytest.raises(KeyboardInterrupt):
                execute(spec_of(tmp_path, **few))
        assert len(execute(spec_of(tmp_path, **few)).run.noise) == 1 and len(asked) == 1

    def test_answers_that_changed_are_asked_again(self, tmp_path: Path, asked: list[tuple[int, list[str], bool]]):
        few = {"tasks": "demo_words", "limit_per_subtask": 2, "noise_check": 2}
        first = execute(spec_of(tmp_path, **few))
        journal = first.card.parent / "samples" / "evalcard-demo" / "demo_words.jsonl"
        journal.write_text(journal.read_text().splitlines(keepends=True)[0])
        execute(spec_of(tmp_path, **few))
        assert len(asked) == 2

    def test_our_engine_says_the_same_in_any_order(self, tmp_path: Path):
        done = execute(spec_of(tmp_path, tasks="demo_words", limit_per_subtask=4, noise_check=4, compressed=()))
        assert done.run.noise == [NoiseRecord(task="demo_words", answers=4, differing=0, flipped=0)]


class TestSequential:
    """The demo pairs, on our engine."""

    @staticmethod
    def spec(out: Path, **changes: object) -> RunSpec:
        base = {"tasks": "demo_words", "limit_per_subtask": None, "sequential": True}
        return spec_of(out, **(base | changes))

    def test_a_good_pair_passes_early(self, tmp_path: Path):
        done = execute(self.spec(tmp_path, compressed=["@demo:w8a8"], min_recovery=90, noise_check=3))
        (early,) = done.run.sequential
        assert early.decision == "PASS" and early.used < 125 and done.verdict is not None
        assert done.verdict.outcome in ("PASS", "INCONCLUSIVE") and done.verdict.exit_code in (0, 3)
        assert [one.answers for one in done.run.noise] == [3]
        assert f"{early.used} of 250" in done.card.read_text(encoding="utf-8")

    def test_a_damaged_model_fails_early(self, tmp_path: Path):
        import torch
        from safetensors.torch import load_file, save_file

        folder = copy_of_demo(tmp_path / "damaged")
        source = torch.Generator().manual_seed(0)
        weights = load_file(folder / "model.safetensors")
        for name, one in weights.items():
            if one.ndim == 2:
                noise = torch.randn(one.shape, generator=source) * 0.4 * one.float().std()
                weights[name] = (one.float() + noise).to(one.dtype)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        done = execute(self.spec(tmp_path / "results", compressed=[str(folder)], min_recovery=95))
        (early,) = done.run.sequential
        assert (early.decision, early.high is not None and early.high < 95) == ("FAIL", True) and early.used < 200
        assert done.verdict is not None and (done.verdict.outcome, done.verdict.exit_code) == ("FAIL", 1)

    def test_what_cannot_stop_early_is_refused_before_weights_load(self, tmp_path: Path, no_weights: None):
        for changes, says in [
            ({"compressed": ["@demo:w8a8", "@demo:w4a16"], "min_recovery": 95}, "judges one compressed model, got 2"),
            ({}, "no limit is given"),
            ({"min_recovery": 0}, "a limit above 0"),
        ]:
            with pytest.raises(UserError, match=says):
                execute(self.spec(tmp_path / "r", **changes))
        assert not (tmp_path / "r").exists()
