"""Files that lm-eval itself wrote, and evalcard's own run of the same model and tasks."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.results.imported.detect import refuse_damaged
from evalcard.results.imported.load import import_results
from evalcard.results.store import RunFolder
from evalcard.results.stored import StoredModel

COMPARED = ["toy_colours", "toy_shapes", "toy_sums", "toy_last"]


@pytest.fixture(scope="module")
def stored(written: tuple[Path, dict[str, Any]]) -> StoredModel:
    (found,) = import_results(written[0])
    return found


@pytest.fixture(scope="module")
def own(
    toys: Any, more_tasks: dict[str, Path], tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> RunFolder:
    """evalcard's run of the same model and tasks, with its own engine."""
    from evalcard.plan import plan_run
    from evalcard.progress import Silent
    from evalcard.run import run_plan
    from evalcard.spec import make_spec

    out = tmp_path_factory.mktemp("own-run")
    tasks = [toys.path("toy_mc"), toys.path("toy_sums"), str(more_tasks["evalcard"] / "toy_last.yaml")]
    given = {"baseline": str(tiny_model), "tasks": tasks, "data_root": str(toys.data_root), "out": str(out)}
    outcome = run_plan(plan_run(make_spec(given), Silent()), Silent(), command=["evalcard", "run"])
    return RunFolder(out / outcome.run.name)


def test_the_model_is_named_without_its_path(stored: StoredModel, tiny_model: Path):
    assert (stored.model.name, stored.model.slug, stored.model.hub_id) == (tiny_model.name, tiny_model.name, None)
    assert stored.model.role == "baseline" and stored.model.weights_digest is None and stored.model.scheme is None
    assert str(tiny_model.parent) not in stored.model.model_dump_json() + stored.origin
    assert '"dtype": "torch.float32"' in str(stored.model.numerics)


def test_the_origin_names_files_and_what_was_left_out(stored: StoredModel, results_of: Any, written: Any):
    from importlib.metadata import version

    path = results_of(written[0])
    assert stored.origin.startswith(f"lm_eval {version('lm_eval')}: {path.name} (20")
    assert "toy_texts is left out: word_perplexity, bits_per_byte: no mean over items" in stored.origin
    assert stored.prompts == "text" and stored.is_complete and stored.seed == 1234
    assert stored.created is not None and stored.created.endswith("+00:00")


def test_scores_are_those_that_lm_eval_printed(stored: StoredModel, written: Any, score: Any):
    printed = written[1]["results"]
    assert [(row.name, row.rule, row.tasks) for row in stored.rows] == [
        ("toy_mc", "size", ["toy_colours", "toy_shapes"]),
        ("toy_sums", "task", ["toy_sums"]),
        ("toy_last", "task", ["toy_last"]),
    ]
    assert float(score(stored, "toy_mc")) == pytest.approx(printed["toy_mc"]["acc,none"], abs=1e-12)
    assert 0 < printed["toy_mc"]["acc,none"] < 1
    assert float(score(stored, "toy_sums")) == printed["toy_sums"]["exact_match,strict"]
    assert float(score(stored, "toy_last")) == printed["toy_last"]["acc,none"]


def test_task_records_say_what_evalcards_own_say(stored: StoredModel, own: RunFolder):
    ours = {task.name: task for task in own.read_run().tasks}
    assert sorted(stored.tasks) == sorted(COMPARED) == sorted(ours)
    for name, task in stored.tasks.items():
        for field in ("version", "metric", "filter", "chance", "higher_is_better", "num_fewshot", "repeats", "decoding",
                      "chat_template", "items_total", "items_selected", "selection", "item_ids"):  # fmt: skip
            assert getattr(task, field) == getattr(ours[name], field), (name, field)
        assert task.source == "lm_eval" and set(task.stop_strings) <= set(ours[name].stop_strings)
    assert stored.tasks["toy_last"].metric == "acc", "perplexity, the first metric, is no mean"
    assert stored.tasks["toy_sums"].stop_strings == ["Question:"]


def test_rows_are_those_of_evalcards_own_run(stored: StoredModel, own: RunFolder):
    ours = {row.name: row for row in own.read_run().rows}
    assert {row.name: (row.rule, sorted(row.tasks)) for row in stored.rows} == {
        name: (row.rule, sorted(row.tasks)) for name, row in ours.items()
    }


@pytest.mark.parametrize("task", COMPARED)
def test_every_item_is_graded_as_in_evalcards_own_run(stored: StoredModel, own: RunFolder, task: str):
    slug = own.read_run().models[0].slug
    ours = {(one.item_id, one.repeat): one for one in own.read_verdicts(slug, task)}
    theirs = {(one.item_id, one.repeat): one for one in stored.verdicts[task]}
    assert list(theirs) == sorted(ours) and len(theirs) == stored.tasks[task].items_selected
    for address, verdict in theirs.items():
        expected = ours[address]
        if expected.outcome == "truncated":  # lm-eval does not store why an answer ended
            assert verdict.outcome in ("wrong", "no_answer")
            expected = expected.model_copy(update={"outcome": verdict.outcome})
        assert verdict == expected, (task, address)


@pytest.mark.parametrize("task", COMPARED)
def test_answers_are_those_of_evalcards_own_run(stored: StoredModel, own: RunFolder, task: str):
    slug = own.read_run().models[0].slug
    ours = {one.item_id: one for one in own.journal(slug, task).read().values()}
    for sample in stored.samples[task]:
        same = ours[sample.item_id]
        assert sample.item_hash == same.item_hash and sample.task_version == same.task_version
        assert sample.text == same.text, "random weights still answer alike"
        for theirs, own_choice in zip(sample.choices or (), same.choices or (), strict=True):
            assert (theirs.text, theirs.is_greedy) == (own_choice.text, own_choice.is_greedy)
            assert theirs.logprob == pytest.approx(own_choice.logprob, abs=1e-3)


def test_prompts_are_hashed_as_text_and_shown(stored: StoredModel, written: Any):
    (path,) = written[0].rglob("samples_toy_shapes_*.jsonl")
    first = json.loads(path.read_text().splitlines()[0])
    assert stored.questions["toy_shapes"][0] == first["arguments"]["gen_args_0"]["arg_0"]
    hashes = [sample.prompt_hash for sample in stored.samples["toy_shapes"]]
    assert len(set(hashes)) == len(hashes) == 9


class _Rule:
    """Answers of every outcome, given by the question alone, to the harness."""

    @staticmethod
    def text(prompt: str) -> str:
        number = int(prompt.rsplit("What is ", 1)[1].split(" plus")[0])
        right = 2 * number + 3
        return (f" {right}\n#### {right}", " 7\n#### 7", " no idea", "", f" it is {right}")[number % 5]


@pytest.fixture
def harness_model() -> Any:
    from lm_eval.api.model import LM

    class Model(LM):
        def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
            return [(-float(ord(one.args[1][-1]) + len(one.args[0]) % 3 * 70) % 71, False) for one in requests]

        def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
            raise AssertionError("nothing rolls here")

        def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[Any]:
            return [_Rule.text(one.args[0]) for one in requests]

    return Model()


def test_generated_answers_of_every_outcome(
    harness_model: Any, run_lm_eval: Any, fake_backend: Any, toy_spec: Any, tmp_path: Path, score: Any
):
    """Right, wrong, unreadable and empty answers are graded as evalcard grades the same texts."""
    from evalcard.backends.backend import ItemAnswer
    from evalcard.samples import make_sample
    from evalcard.tasks.grade import grade
    from evalcard.tasks.prepare import prepare

    results = run_lm_eval(tmp_path, ["toy_sums"], harness_model)
    (stored,) = import_results(tmp_path)
    prepared = prepare(toy_spec("toy_sums"))
    (task,) = prepared.tasks
    samples = []
    answer_of = lambda item: ItemAnswer("stop", text=_Rule.text(item.requests[0].prompt), output_tokens=1)  # noqa: E731
    backend = fake_backend(answer_of=answer_of)
    backend.answer(
        prepared.items["toy_sums"],
        lambda item, answer: samples.append(make_sample(item, f"{item.item_id}", "3.0", answer)),
    )
    ours = {one.item_id: one for one in grade(task.task, task.scoring, samples)}
    theirs = {one.item_id: one for one in stored.verdicts["toy_sums"]}
    assert theirs == ours
    assert {one.outcome for one in theirs.values()} == {"correct", "wrong", "no_answer"}
    assert float(score(stored, "toy_sums")) == results["results"]["toy_sums"]["exact_match,strict"] == 3 / 12


def test_a_group_that_weighs_its_tasks_alike(harness_model: Any, run_lm_eval: Any, tmp_path: Path, score: Any):
    results = run_lm_eval(tmp_path, ["toy_uneven"], harness_model)["results"]
    (stored,) = import_results(tmp_path)
    assert [(row.name, row.rule) for row in stored.rows] == [("toy_uneven", "mean")]
    single = [results[name]["acc,none"] for name in ("toy_colours", "toy_shapes")]
    assert single[0] != single[1], "else both rules would give the same score"
    assert float(score(stored, "toy_uneven")) == pytest.approx(results["toy_uneven"]["acc,none"], abs=1e-12)


def test_a_limit_is_told(harness_model: Any, run_lm_eval: Any, tmp_path: Path):
    run_lm_eval(tmp_path, ["toy_sums"], harness_model, limit=4)
    (stored,) = import_results(tmp_path)
    task = stored.tasks["toy_sums"]
    assert (task.items_total, task.items_selected, task.selection, task.item_ids) == (12, 4, "first 4", [0, 1, 2, 3])


def test_chosen_items_are_told(harness_model: Any, run_lm_eval: Any, tmp_path: Path):
    run_lm_eval(tmp_path, ["toy_sums"], harness_model, samples={"toy_sums": [2, 5, 11]})
    (stored,) = import_results(tmp_path)
    task = stored.tasks["toy_sums"]
    assert (task.items_total, task.items_selected, task.selection) == (12, 3, "3 chosen items")
    assert task.item_ids == [2, 5, 11] == [one.item_id for one in stored.verdicts["toy_sums"]]


def test_sampled_answers_are_described_in_evalcards_words(harness_model: Any, run_lm_eval: Any, tmp_path: Path):
    from evalcard.tasks.prompts.decoding import decoding_of, in_words

    given = {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20}
    run_lm_eval(tmp_path, ["toy_sums"], harness_model, gen_kwargs=given, torch_random_seed=77)
    (stored,) = import_results(tmp_path)
    assert stored.tasks["toy_sums"].decoding == in_words(decoding_of("toy_sums", given, None, None, 77))


@pytest.mark.parametrize("which", ["results", "samples"])
def test_a_file_by_itself(folder: Path, which: str):
    """The results file stands for all its tasks, a samples file for its own."""
    if which == "results":
        (path,) = folder.rglob("results_*.json")
        (stored,) = import_results(path)
        assert sorted(stored.tasks) == sorted(COMPARED)
    else:
        (path,) = folder.rglob("samples_toy_shapes_*.jsonl")
        (stored,) = import_results(path)
        assert list(stored.tasks) == ["toy_shapes"] and [row.name for row in stored.rows] == ["toy_shapes"]


def test_without_samples(folder: Path, results_of: Any):
    for path in folder.rglob("samples_*"):
        path.unlink()
    with pytest.raises(UserError, match="toy_colours, .*run lm_eval again with --log_samples"):
        import_results(folder)


def test_samples_without_results(folder: Path, results_of: Any):
    results_of(folder).unlink()
    with pytest.raises(UserError, match=r"no results_.*json beside it that scores 'toy_"):
        import_results(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda line: line[: len(line) // 2], "line 3, is damaged: "),
        (lambda line: b"[1, 2]", "line 3, is damaged: it holds list"),
        (lambda line: line.replace(b'"doc_id"', b'"id"'), r"line 3, is damaged: it is no sample .*KeyError: 'doc_id'"),
        (lambda line: line.replace(b'"doc_id": 2', b'"doc_id": 1'), "item 1 comes once more than it has filters"),
        (lambda line: line.replace(b'"gen_args_3"', b'"gen_args_x"'), "line 3, is damaged"),
    ],
)
def test_damaged_lines_are_named(folder: Path, change: Callable[[bytes], bytes], words: str):
    (path,) = folder.rglob("samples_toy_shapes_*.jsonl")
    lines = path.read_bytes().split(b"\n")
    lines[2] = change(lines[2])
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(UserError, match=words) as caught:
        import_results(folder)
    assert path.name in str(caught.value)


def test_missing_answers_show_as_incomplete(folder: Path):
    """What was to be answered stays the number to reach; nothing drops out of a total."""
    (path,) = folder.rglob("samples_toy_sums_*.jsonl")
    kept = [line for line in path.read_text().splitlines(keepends=True) if json.loads(line)["doc_id"] != 4]
    path.write_text("".join(kept))
    (stored,) = import_results(folder)
    assert "toy_sums is left out" not in stored.origin
    assert stored.tasks["toy_sums"].items_selected == 12 and len(stored.samples["toy_sums"]) == 11


def test_logits_that_are_not_finite(folder: Path):
    (path,) = folder.rglob("samples_toy_shapes_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[3]["resps"][1][0][0] = "nan"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (stored,) = import_results(folder)
    sample, verdict = stored.samples["toy_shapes"][3], stored.verdicts["toy_shapes"][3]
    assert sample.finish == "error" and sample.choices[1].logprob is None and sample.fault
    assert verdict.outcome == "error" and verdict.scores == []


def test_lines_of_versions_that_name_no_filter(folder: Path):
    """Such lines come filter by filter, so the first of an item is the first filter's."""
    (expected,) = import_results(folder)
    (path,) = folder.rglob("samples_toy_sums_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        del line["filter"], line["metrics"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (stored,) = import_results(folder)
    assert stored.verdicts["toy_sums"] == expected.verdicts["toy_sums"]


def test_a_hub_model_and_its_chat_template(folder: Path, results_of: Any, edit: Any):
    def change(data: dict[str, Any]) -> None:
        data["model_name"] = "org/Some-Model"
        data["config"] |= {"model_sha": "abc123"}
        data["chat_template"] = "{{ messages }}"

    edit(results_of(folder), change)
    (stored,) = import_results(folder)
    assert (stored.model.name, stored.model.hub_id, stored.model.revision) == (
        "org/Some-Model",
        "org/Some-Model",
        "abc123",
    )
    assert stored.model.slug == "Some-Model" and all(task.chat_template for task in stored.tasks.values())
    assert stored.model.template_digest is not None and len(stored.model.template_digest) == 64


def test_the_template_digest_is_evalcards_own(folder: Path, results_of: Any, edit: Any, tokenizer_folder: Path):
    from evalcard.tasks.prompts.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(str(tokenizer_folder))
    text = (tokenizer_folder / "chat_template.jinja").read_text()
    edit(results_of(folder), lambda data: data.update(chat_template=text))
    (stored,) = import_results(folder)
    assert stored.model.template_digest == tokenizer.template_digest


def test_a_group_that_no_rule_explains_is_listed_by_its_tasks(folder: Path, results_of: Any, edit: Any):
    def change(data: dict[str, Any]) -> None:
        data["results"]["toy_mc"]["acc,none"] += 0.01

    edit(results_of(folder), change)
    (stored,) = import_results(folder)
    assert sorted(row.name for row in stored.rows) == sorted(COMPARED)


def test_what_a_task_says_to_evalcard_counts(folder: Path, results_of: Any, edit: Any):
    stated = {"category": "Shapes", "chance": 0.125, "id_field": "question"}
    edit(results_of(folder), lambda data: data["configs"]["toy_shapes"]["metadata"].update(evalcard=stated))
    (stored,) = import_results(folder)
    task = stored.tasks["toy_shapes"]
    assert (task.category, task.chance) == ("Shapes", 0.125) and stored.tasks["toy_colours"].category == "Other"
    assert stored.verdicts["toy_shapes"][3].item_id == "Which shape is number 3?"


@pytest.mark.parametrize("instead", [None, 3, "x", [], {}, [[1]]])
@pytest.mark.parametrize("file", ["samples", "results"])
def test_any_other_shape_is_the_files_fault(folder: Path, results_of: Any, file: str, instead: Any):
    """Whatever one entry is replaced by, it is imported or refused in words, and never an internal error."""
    (path,) = folder.rglob("samples_toy_sums_*.jsonl") if file == "samples" else [results_of(folder)]
    original, outcomes = path.read_text(), set()
    first, _, rest = original.partition("\n") if file == "samples" else (original, "", "")
    for key in json.loads(first):
        changed = json.loads(first) | {key: instead}
        path.write_text(json.dumps(changed) + "\n" + rest)
        try:
            import_results(folder)
            outcomes.add("imported")
        except UserError as error:
            assert len(str(error)) > 40
            outcomes.add("refused")
    assert outcomes == {"imported", "refused"}, "some entries matter and some do not"


def test_it_compares_as_a_run_does(folder: Path, edit: Any):
    """The other model lost one item of a task and gained none."""
    from evalcard.compare.joined import compare_stored

    (baseline,) = import_results(folder)
    (path,) = folder.rglob("samples_toy_shapes_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    right = next(line for line in lines if line["acc"] == 1.0)
    right["acc"] = 0.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    wrong = sum(1 for line in lines if line["acc"] == 0.0)

    def change(data: dict[str, Any]) -> None:
        data["results"]["toy_shapes"]["acc,none"] = 1 - wrong / len(lines)
        total = data["results"]["toy_colours"]["acc,none"] * 5 + len(lines) - wrong
        data["results"]["toy_mc"]["acc,none"] = total / (5 + len(lines))

    (results,) = folder.rglob("results_*.json")
    edit(results, change)
    (compressed,) = import_results(folder)
    _, comparison = compare_stored(baseline, compressed)
    row = next(row for row in comparison.tasks if row.task == "toy_mc")
    assert (row.compressed[0].lost, row.compressed[0].gained) == (1, 0)


def _told_nowhere(data: dict[str, Any], task: str, metric: str) -> None:
    """The task's metric by another name, and nothing that states its direction."""
    data["higher_is_better"] = {}
    data["configs"][task]["metric_list"] = [{"metric": metric, "aggregation": "mean"}]
    data["results"][task] = {key.replace("exact_match", metric): one for key, one in data["results"][task].items()}


def _rename_metric(folder: Path, task: str, metric: str) -> None:
    (path,) = folder.rglob(f"samples_{task}_*.jsonl")
    path.write_text(path.read_text().replace("exact_match", metric))


@pytest.mark.parametrize("table", [None, {}, {"toy_sums": None}, {"toy_sums": {}}, {"toy_sums": {"wer": None}}])
@pytest.mark.parametrize("stated", [True, False])
def test_a_direction_is_the_task_files_where_the_results_have_none(
    folder: Path, results_of: Any, edit: Any, table: Any, stated: bool
):
    def change(data: dict[str, Any]) -> None:
        data["higher_is_better"] = table
        for one in data["configs"]["toy_sums"]["metric_list"]:
            one["higher_is_better"] = stated

    edit(results_of(folder), change)
    (stored,) = import_results(folder)
    assert stored.tasks["toy_sums"].higher_is_better is stated


@pytest.mark.parametrize(("metric", "expected"), [("wer", False), ("f1", True)])
def test_a_direction_that_nothing_states_is_that_of_a_known_metric(
    folder: Path, results_of: Any, edit: Any, metric: str, expected: bool
):
    edit(results_of(folder), lambda data: _told_nowhere(data, "toy_sums", metric))
    _rename_metric(folder, "toy_sums", metric)
    (stored,) = import_results(folder)
    assert stored.tasks["toy_sums"].metric == metric
    assert stored.tasks["toy_sums"].higher_is_better is expected


def test_a_task_of_unknown_direction_is_left_out(folder: Path, results_of: Any, edit: Any):
    edit(results_of(folder), lambda data: _told_nowhere(data, "toy_sums", "cost"))
    _rename_metric(folder, "toy_sums", "cost")
    (stored,) = import_results(folder)
    assert "toy_sums" not in stored.tasks
    why, is_by_design = stored.left_out["toy_sums"]
    assert why == "nothing states whether higher or lower is better for cost" and not is_by_design


def test_what_has_no_score_for_an_item_is_left_out_by_design(folder: Path):
    (stored,) = import_results(folder)
    assert {name: one.is_by_design for name, one in stored.left_out.items()} == {"toy_texts": True}


def test_a_damaged_value_is_no_design(folder: Path):
    (path,) = folder.rglob("samples_toy_sums_*.jsonl")
    path.write_text(path.read_text().replace('"exact_match": ', '"exact_match": NaN, "was": '))
    (stored,) = import_results(folder)
    assert not stored.left_out["toy_sums"].is_by_design and "no mean over items" in stored.left_out["toy_sums"].why


@pytest.mark.parametrize(
    ("instead", "said"),
    [("NaN", "is NaN, which is no number"), ('"N/A"', 'is "N/A", which is no number'), ("null", "is null, which is"),
     ("2.0", "is 2, which is not from 0 to 1")],
)  # fmt: skip
def test_a_value_that_is_no_score_is_named_with_its_line(folder: Path, instead: str, said: str):
    (path,) = folder.rglob("samples_toy_sums_*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    item = json.loads(lines[2])["doc_id"]
    spoilt = [number for number, line in enumerate(lines) if json.loads(line)["doc_id"] == item]  # one for each filter
    for number in spoilt:
        lines[number] = re.sub(r'"exact_match": [0-9.]+', f'"exact_match": {instead}', lines[number])
    path.write_text("".join(lines))
    (stored,) = import_results(folder)
    why = stored.left_out["toy_sums"].why
    assert f"no mean over items, as exact_match of item {item} {said}" in why
    assert any(why.endswith(f"{path.name}, line {number + 1}") for number in spoilt)


@pytest.mark.parametrize("gone", [["configs"], ["versions"], ["configs", "versions"]])
def test_results_that_lack_a_table_say_so(folder: Path, results_of: Any, gone: list[str]):
    path = results_of(folder)
    data = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in data.items() if key not in gone}))
    with pytest.raises(UserError, match=f"has no {' and '.join(repr(one) for one in gone)}, .* cut down to its scores"):
        refuse_damaged(path)
    with pytest.raises(UserError, match=rf"results_.*\.json has no '{gone[0]}'"):
        refuse_damaged(folder)
    path.write_text(json.dumps(data | dict.fromkeys(gone)))
    with pytest.raises(UserError, match=f"has no '{gone[0]}'"):
        import_results(path)


def test_samples_that_were_cut_off_between_lines_are_told(folder: Path):
    (path,) = folder.rglob("samples_toy_sums_*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 4]).replace('"exact_match": 0.0', '"exact_match": 1.0'))
    (stored,) = import_results(folder)
    assert "its samples are of " in stored.left_out["toy_sums"].why and " items: copy the file anew" in (
        stored.left_out["toy_sums"].why
    )


def test_a_log_probability_that_is_none_is_the_files_fault(folder: Path):
    (path,) = folder.rglob("samples_toy_shapes_*.jsonl")
    path.write_text(re.sub(r'"resps": \[\[\["?-[0-9.e-]+"?', '"resps": [[[1e308', path.read_text(), count=1))
    assert "1e308" in path.read_text()
    with pytest.raises(UserError, match="not laid out as lm_eval.*a log-probability is '1e.308', which is none"):
        import_results(folder)


@pytest.mark.parametrize("count", [float("inf"), float("nan"), 1e300, -3, 2.5, "many"])
def test_a_count_that_is_none_is_the_files_fault(folder: Path, results_of: Any, edit: Any, count: Any):
    def change(data: dict[str, Any]) -> None:
        data["n-samples"]["toy_sums"]["effective"] = count

    edit(results_of(folder), change)
    with pytest.raises(UserError, match="not laid out as lm_eval.*n-samples is .*, which is no count"):
        import_results(folder)


def test_a_task_name_longer_than_any_file_name(folder: Path, results_of: Any, edit: Any):
    name = "t" * 5000

    def change(data: dict[str, Any]) -> None:
        for table in ("results", "configs"):
            data[table][name] = data[table]["toy_sums"]

    edit(results_of(folder), change)
    with pytest.raises(UserError, match=r"has scores of t{80}\.\.\., but there is no samples_t+ beside it") as error:
        import_results(folder)
    assert len(str(error.value)) < 2000


def test_figures_that_overflow_are_left_out(folder: Path, results_of: Any, edit: Any):
    def change(data: dict[str, Any]) -> None:
        figures = data["results"]["toy_sums"]
        data["results"]["toy_sums"] = {key: 1.7e308 if "stderr" not in key else one for key, one in figures.items()}

    edit(results_of(folder), change)
    (path,) = folder.rglob("samples_toy_sums_*.jsonl")
    path.write_text(re.sub(r'"exact_match": [\d.]+', '"exact_match": 1.7e308', path.read_text()))
    (stored,) = import_results(folder)
    assert "toy_sums" in stored.left_out and "toy_sums" not in stored.tasks


def test_files_that_count_for_nothing_are_told(folder: Path, results_of: Any):
    path = results_of(folder)
    (samples,) = folder.rglob("samples_toy_sums_*.jsonl")
    later = "2031-02-03T04-05-06.000007"
    path.with_name(f"results_{later}.json").write_text(path.read_text()[:-40])
    samples.with_name(f"samples_toy_sums_{later}.jsonl").write_text(samples.read_text())
    path.with_name("results_of_mine.json").write_text("{")
    (stored,) = import_results(folder)
    told = {name: one.why for name, one in stored.left_out.items() if later in name}
    assert told == {
        f"results_{later}.json": "it cannot be read",
        f"samples_toy_sums_{later}.jsonl": "there are no results of its date",
    }
    assert not any("mine" in name for name in stored.left_out) and "toy_sums" in stored.tasks


def test_how_written_answers_ended_is_not_told(stored: StoredModel):
    ends = {task: {one.finish for one in samples} for task, samples in stored.samples.items()}
    assert ends["toy_sums"] == {"not_told"} and ends["toy_colours"] == {"stop"}
    assert stored.source is not None and not stored.source.tells_endings
    assert not {one.outcome for one in stored.verdicts["toy_sums"]} & {"truncated", "error"}
