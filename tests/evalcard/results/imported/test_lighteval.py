"""Results as lighteval's evaluation tracker lays them out: results/<model>/ and details/<model>/<date>/."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.results.imported.load import import_results

DATE = "2026-03-04T05-06-07.000089"
MATH, LETTERS = "gsm8k|5", "mmlu:{}|0"


def detail(index: int, value: float, **changes: Any) -> dict[str, Any]:
    """One row of a generated task's details; a row has the three columns that the tracker sorts."""
    found = {"extracted_predictions": ["9"], "extracted_golds": [str(index)]}
    doc = {"query": f"Q{index}?", "choices": [str(index)], "gold_index": 0, "instruction": None, "id": str(index),
           "task_name": MATH, "specific": found}  # fmt: skip
    response = {"input": f"shots\nQ{index}?", "input_tokens": [1, 2, 3], "text": [f"it is {index}"],
                "output_tokens": [[4, 5]], "text_post_processed": None, "logprobs": [],
                "argmax_logits_eq_gold": []}  # fmt: skip
    return {"doc": doc | changes.pop("doc", {}), "metric": {"extractive_match": value} | changes.pop("metric", {}),
            "model_response": response | changes.pop("model_response", {})}  # fmt: skip


def letters(index: int, right: bool) -> dict[str, Any]:
    """One row of a task whose choices are scored."""
    logprobs = [-1.0, -2.0, -3.0, -4.0] if right else [-2.0, -1.0, -3.0, -4.0]
    doc = {"choices": [" A", " B", " C", " D"], "specific": {"subject": "x"}}
    response = {"text": [], "logprobs": logprobs, "argmax_logits_eq_gold": [right, not right, False, False],
                "output_tokens": [[7], [8], [9], [10]]}  # fmt: skip
    row = detail(index, 0.0, doc=doc, model_response=response)
    return row | {"metric": {"acc": float(right)}}


def task_config(name: str, metric: str, **changes: Any) -> dict[str, Any]:
    metrics = [{"metric_name": metric, "higher_is_better": True, "category": "GENERATIVE", "sample_level_fn": "f",
                "corpus_level_fn": "mean", "batched_compute": False}]  # fmt: skip
    shots = int(name.rpartition("|")[2])
    return {"name": name.partition("|")[0], "hf_repo": "openai/gsm8k", "hf_subset": "main", "metrics": metrics,
            "evaluation_splits": ["test"], "generation_size": 256, "stop_sequence": ["Question:"], "version": 2,
            "num_fewshots": shots, "original_num_docs": -1, "effective_num_docs": -1} | changes  # fmt: skip


def save(out: Path, tasks: dict[str, list[dict[str, Any]]], *, model: str = "org/Model", **changes: Any) -> Path:
    """Write results and details of ``tasks``; returns the results file."""
    import pyarrow
    import pyarrow.parquet

    date = changes.pop("date", DATE)
    figures: dict[str, dict[str, float]] = {}
    for key, rows in tasks.items():
        names = dict.fromkeys(name for row in rows for name in row["metric"])
        figures[key] = {}
        for name in names:
            values = [row["metric"][name] for row in rows if isinstance(row["metric"].get(name), (int, float))]
            figures[key] |= {name: sum(values) / max(1, len(values)), f"{name}_stderr": 0.1}
    subjects = [key for key in figures if key.startswith("mmlu:")]
    if len(subjects) > 1:
        figures["mmlu:_average|0"] = {
            "acc": sum(figures[key]["acc"] for key in subjects) / len(subjects), "acc_stderr": 0.1,
        }  # fmt: skip
    configs = {key: task_config(key, next(iter(rows[0]["metric"]))) for key, rows in tasks.items()}
    general = {"lighteval_sha": "?", "max_samples": None, "model_name": model, "start_time": 1.0,
               "model_config": {"model_name": model, "revision": "main", "dtype": "bfloat16",
                                "generation_parameters": {"temperature": 0, "max_new_tokens": None}}}  # fmt: skip
    data = {"config_general": general, "results": figures | {"all": {"acc": 0.5}}, "versions": {},
            "config_tasks": configs, "summary_tasks": {}, "summary_general": {}}  # fmt: skip
    changes.pop("change", lambda _: None)(data)
    results = out / "results" / model.strip("/") / f"results_{date}.json"
    details = out / "details" / model.strip("/") / date
    for folder in (results.parent, details):
        folder.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(data, indent=2))
    for key, rows in tasks.items():
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), details / f"details_{key}_{date}.parquet")
    return results


@pytest.fixture
def both() -> dict[str, list[dict[str, Any]]]:
    """A generated task in the order in which lighteval shuffled it, and two subjects of scored letters."""
    return {
        MATH: [detail(2, 1.0), detail(0, 0.0), detail(1, 1.0)],
        LETTERS.format("law"): [letters(i, i < 3) for i in range(4)],
        LETTERS.format("art"): [letters(i, i < 1) for i in range(2)],
    }


def test_a_folder_of_results_and_details(tmp_path: Path, both: dict[str, list[dict[str, Any]]], score: Any):
    save(tmp_path, both)
    (stored,) = import_results(tmp_path)
    assert (stored.model.name, stored.model.hub_id, stored.model.slug) == ("org/Model", "org/Model", "Model")
    assert stored.model.revision == "main" and stored.created == "2026-03-04T05:06:07.000089"
    assert stored.origin == f"lighteval: results_{DATE}.json (2026-03-04T05:06:07)"
    assert [(row.name, row.rule, row.tasks) for row in stored.rows] == [
        ("mmlu", "mean", ["mmlu:law", "mmlu:art"]),
        ("gsm8k", "task", ["gsm8k"]),
    ]
    assert float(score(stored, "mmlu")) == (3 / 4 + 1 / 2) / 2, "as lighteval prints mmlu:_average"
    assert float(score(stored, "gsm8k")) == 2 / 3


def test_the_task_record(tmp_path: Path, both: dict[str, list[dict[str, Any]]]):
    save(tmp_path, both)
    (stored,) = import_results(tmp_path)
    task, law = stored.tasks["gsm8k"], stored.tasks["mmlu:law"]
    assert (task.metric, task.filter, task.num_fewshot, task.version) == ("extractive_match", "none", 5, "2")
    assert (task.items_total, task.items_selected, task.selection) == (3, 3, "all")
    assert (task.decoding, task.chance, task.stop_strings) == ("greedy", 0.0, ["Question:"])
    assert (task.dataset, task.dataset_config, task.dataset_split) == ("openai/gsm8k", "main", "test")
    assert (law.decoding, law.chance, law.metric, law.num_fewshot) == ("scored", 0.25, "acc", 0)


def test_answers_and_verdicts(tmp_path: Path, both: dict[str, list[dict[str, Any]]]):
    save(tmp_path, both)
    (stored,) = import_results(tmp_path)
    assert [one.item_id for one in stored.samples["gsm8k"]] == [0, 1, 2]
    sample, verdict = stored.samples["gsm8k"][2], stored.verdicts["gsm8k"][2]
    assert (sample.text, sample.finish, sample.output_tokens, sample.prompt_tokens) == ("it is 2", "stop", 2, 3)
    assert (verdict.outcome, verdict.extracted, verdict.target) == ("correct", "9", "2")
    assert stored.verdicts["gsm8k"][0].outcome == "wrong" and stored.questions["gsm8k"][2] == "Q2?"
    choices = stored.samples["mmlu:law"][3].choices or []
    assert [(one.text, one.logprob, one.tokens) for one in choices][:2] == [(" A", -2.0, 1), (" B", -1.0, 1)]
    assert [one.is_greedy for one in choices] == [False, True, False, False]
    assert stored.verdicts["mmlu:law"][3].extracted == " B" and stored.verdicts["mmlu:law"][3].target == " A"


def test_what_metrics_note_on_a_document_does_not_change_it(tmp_path: Path):
    """Two models' documents are the same although extracted answers are stored in them."""
    one = save(tmp_path / "a", {MATH: [detail(i, 1.0) for i in range(3)]})
    noted = {"specific": {"extracted_predictions": [], "extracted_golds": ["0"]}}
    other = save(tmp_path / "b", {MATH: [detail(i, 0.0, doc=noted) for i in range(3)]})
    (a,), (b,) = import_results(one), import_results(other)
    for ours, theirs in zip(a.samples["gsm8k"], b.samples["gsm8k"], strict=True):
        assert (ours.item_hash, ours.prompt_hash) == (theirs.item_hash, theirs.prompt_hash)
    assert {verdict.outcome for verdict in b.verdicts["gsm8k"]} == {"no_answer"}


def test_another_prompt_has_another_hash(tmp_path: Path):
    one = save(tmp_path / "a", {MATH: [detail(0, 1.0)]})
    other = save(tmp_path / "b", {MATH: [detail(0, 1.0, model_response={"input": "other shots\nQ0?"})]})
    (a,), (b,) = import_results(one), import_results(other)
    assert a.samples["gsm8k"][0].prompt_hash != b.samples["gsm8k"][0].prompt_hash
    assert a.samples["gsm8k"][0].item_hash == b.samples["gsm8k"][0].item_hash


def test_an_answer_as_long_as_it_could_be_was_cut(tmp_path: Path):
    long = detail(1, 0.0, model_response={"output_tokens": [list(range(256))]})
    save(tmp_path, {MATH: [detail(0, 1.0), long]})
    (stored,) = import_results(tmp_path)
    assert [one.finish for one in stored.samples["gsm8k"]] == ["stop", "length"]
    assert [one.outcome for one in stored.verdicts["gsm8k"]] == ["correct", "truncated"]


def test_sampling_and_limits_are_told(tmp_path: Path):
    def change(data: dict[str, Any]) -> None:
        general = data["config_general"]
        general["max_samples"] = 2
        general["model_config"]["generation_parameters"] |= {"temperature": 0.6, "top_p": 0.95, "seed": 7}

    save(tmp_path, {MATH: [detail(17, 1.0), detail(4, 0.0)]}, change=change)
    (stored,) = import_results(tmp_path)
    task = stored.tasks["gsm8k"]
    assert task.decoding == "sampled, temperature 0.6, top-p 0.95, seed 7" and stored.seed == 7
    assert (task.items_selected, task.item_ids) == (2, [4, 17])
    assert task.items_total == 18, "the positions tell how far the task goes at least"


def test_metrics_over_the_whole_task_are_left_out(tmp_path: Path):
    def change(data: dict[str, Any]) -> None:
        data["results"][MATH] = {"bleu": 31.5}

    rows = [detail(i, 0.0) | {"metric": {"bleu": [1.0, 2.0]}} for i in range(2)]
    save(tmp_path, {MATH: rows}, change=change)
    with pytest.raises(UserError, match="gsm8k is left out: bleu: no mean over items"):
        import_results(tmp_path)


def test_both_ways_of_asking_in_one_task(tmp_path: Path):
    """A document that is asked for a text and for choices has two rows; the primary metric's is taken."""
    scored = [letters(i, i == 0) | {"metric": {"acc": float(i == 0), "extractive_match": None}} for i in range(2)]
    written = [detail(i, float(i == 1), metric={"acc": None}) for i in range(2)]
    save(tmp_path, {MATH: written + scored})
    (stored,) = import_results(tmp_path)
    assert stored.tasks["gsm8k"].metric == "extractive_match"
    assert [one.text for one in stored.samples["gsm8k"]] == ["it is 0", "it is 1"]


@pytest.mark.parametrize("which", ["results", "details"])
def test_a_file_by_itself(tmp_path: Path, both: dict[str, list[dict[str, Any]]], which: str):
    path = save(tmp_path, both)
    if which == "details":
        (path,) = tmp_path.rglob("details_gsm8k*.parquet")
    (stored,) = import_results(path)
    assert list(stored.tasks) == (["gsm8k"] if which == "details" else ["gsm8k", "mmlu:law", "mmlu:art"])


def test_a_local_model_keeps_its_path_to_itself(tmp_path: Path):
    save(tmp_path, {MATH: [detail(0, 1.0), detail(1, 0.0)]}, model="/home/someone/models/Tiny")
    (stored,) = import_results(tmp_path)
    assert (stored.model.name, stored.model.hub_id) == ("Tiny", None)
    assert "someone" not in stored.model.model_dump_json() + stored.origin
    assert len(stored.samples["gsm8k"]) == 2


def test_without_details(tmp_path: Path):
    path = save(tmp_path, {MATH: [detail(0, 1.0)]})
    next(tmp_path.rglob("*.parquet")).unlink()
    with pytest.raises(UserError, match="scores of gsm8k, .*run lighteval again with --save-details"):
        import_results(path)


def test_details_without_results(tmp_path: Path):
    save(tmp_path, {MATH: [detail(0, 1.0)]}).unlink()
    with pytest.raises(UserError, match=rf"no results_{DATE}\.json"):
        import_results(tmp_path)


def test_damaged_details(tmp_path: Path):
    save(tmp_path, {MATH: [detail(0, 1.0)]})
    (path,) = tmp_path.rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UserError, match="is damaged") as caught:
        import_results(tmp_path)
    assert path.name in str(caught.value)


def test_the_same_document_twice(tmp_path: Path):
    save(tmp_path, {MATH: [detail(0, 1.0), detail(0, 1.0)]})
    with pytest.raises(UserError, match="the same document twice"):
        import_results(tmp_path)


def test_documents_of_two_splits_that_share_a_position(tmp_path: Path):
    rows = [detail(0, 1.0), detail(0, 0.0, doc={"query": "of the other split"}), detail(1, 1.0)]
    save(tmp_path, {MATH: rows})
    (stored,) = import_results(tmp_path)
    ids: list[Any] = [one.item_id for one in stored.samples["gsm8k"]]
    assert ids[0] == 1 and all(str(one).startswith("0-") for one in ids[1:]) and len(set(ids)) == 3


@pytest.mark.parametrize("build", [lambda folder: (folder / "x").mkdir(), lambda folder: None])
def test_nothing_there(tmp_path: Path, build: Callable[[Path], Any]):
    build(tmp_path)
    with pytest.raises(UserError, match="holds no results of lm-eval, lighteval or inspect"):
        import_results(tmp_path)


@pytest.mark.parametrize(
    ("metric", "stated", "expected"),
    [("cost", False, False), ("cost", True, True), ("cost", {"cost": False}, False), ("wer", None, False),
     ("em", None, True), ("cost", None, None), ("cost", "no", None), ("cost", {}, None)],
)  # fmt: skip
def test_a_direction_is_never_guessed(tmp_path: Path, metric: str, stated: Any, expected: bool | None):
    def change(data: dict[str, Any]) -> None:
        data["config_tasks"][MATH]["metrics"][0]["higher_is_better"] = stated

    rows = [detail(i, 0.0) | {"metric": {metric: float(i)}} for i in range(3)]
    law = LETTERS.format("law")
    save(tmp_path, {MATH: rows, law: [letters(i, i < 2) for i in range(4)]}, change=change)
    (stored,) = import_results(tmp_path)
    if expected is None:
        assert "gsm8k" not in stored.tasks and not stored.left_out["gsm8k"].is_by_design
        assert stored.left_out["gsm8k"].why == "nothing states whether higher or lower is better for cost"
    else:
        assert stored.tasks["gsm8k"].higher_is_better is expected


@pytest.mark.parametrize(
    ("limit", "tokens", "finish"),
    [(4, [[1, 2]], "stop"), (4, [[1, 2, 3, 4]], "length"), (None, [[1, 2]], "not_told"), (4, [], "not_told")],
)
def test_an_end_is_told_by_the_limit_only(limit: int | None, tokens: list[list[int]], finish: str):
    from evalcard.results.imported.lighteval_details import Told, _finish

    header = {"config_tasks": {"a|0": {"generation_size": limit}}, "results": {"a|0": {}}, "model_config": {}}
    assert _finish(Told("a", "a|0", header), tokens) == finish
