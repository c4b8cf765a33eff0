"""Scores for the Hub's leaderboards: registered benchmarks, whole sets, percent, nothing that only looks like one."""

from typing import Any

import pytest
import yaml

from evalcard.card.check.check import check_card
from evalcard.card.check.lists import benchmarks
from evalcard.card.evalresults import _TASKS, eval_results
from evalcard.card.render import write_cards
from evalcard.results.records import RowRecord, SourceRecord
from evalcard.results.store import RunFolder

SLUG = "toy-1b-w8a8"


@pytest.fixture
def gsm_case(make_case):
    """The made-up run's first task as GSM8K, asked in full, or with other facts."""

    def make(name: str = "gsm8k", **facts: Any):
        run, _ = make_case()
        told = {
            "name": name,
            "dataset": "openai/gsm8k",
            "metric": "exact_match",
            "filter": "strict-match",
            "num_fewshot": 5,
        }
        record = run.tasks[0].model_copy(update={**told, **facts})
        run, comparison = make_case()
        renamed = [row.model_copy(update={"task": name, "tasks": [name]}) if row.task == "arc" else row
                   for row in comparison.tasks[:2]]  # fmt: skip
        rows = [RowRecord(name=name, tasks=[name], rule="task"), run.rows[1]]
        health = [one for one in comparison.health if one.severity != "blocker"]
        run = run.model_copy(update={"tasks": [record, run.tasks[1]], "rows": rows})
        return run, comparison.model_copy(update={"tasks": renamed, "health": health})

    return make


def test_a_registered_benchmark(gsm_case):
    ((path, text),) = eval_results(*gsm_case(), SLUG).items()
    assert path == ".eval_results/gsm8k.yaml"
    (entry,) = yaml.safe_load(text)
    assert entry["dataset"] == {"id": "openai/gsm8k", "task_id": "gsm8k"}
    assert entry["value"] == 72.5 and entry["date"] == "2026-11-30" and isinstance(entry["date"], str)
    assert entry["notes"] == (
        "5-shot; exact_match, strict-match; scored; 200 items; task file of evalcard, version 1.0; evalcard 0.1.0"
    )


def test_another_program_that_measured_it_is_named(gsm_case):
    run, comparison = gsm_case()
    told = '{"backend": "hf", "lm_eval": "0.4.13", "dtype": "bfloat16"}'
    models = [model.model_copy(update={"numerics": told}) for model in run.models]
    sources = {model.slug: SourceRecord(program="lm_eval 0.4.13") for model in models}
    run = run.model_copy(update={"models": models, "sources": sources})
    ((entry,),) = (yaml.safe_load(text) for text in eval_results(run, comparison, SLUG).values())
    assert entry["notes"].endswith("version 1.0; lm_eval 0.4.13; backend hf; dtype bfloat16")
    assert "evalcard 0" not in entry["notes"]


def test_repeats_and_chat_template_are_in_the_notes(gsm_case):
    (text,) = eval_results(*gsm_case(repeats=4, chat_template=True), SLUG).values()
    assert "mean of 4 samples an item; chat template; 200 items" in text


@pytest.mark.parametrize(
    "facts",
    [
        {"items_total": 1319, "selection": "seeded"},
        {"name": "arc"},
        {"name": "my_gsm8k"},
        {"dataset": "acme/gsm8k-cleaned"},
        {"source": "file"},
        {"metric": "bits_per_byte"},
        {"higher_is_better": False},
    ],
)
def test_what_is_no_score_of_the_benchmark(gsm_case, facts):
    assert eval_results(*gsm_case(**facts), SLUG) == {}


def test_a_run_without_an_end(gsm_case):
    run, comparison = gsm_case()
    assert eval_results(run.model_copy(update={"finished": None}), comparison, SLUG) == {}


def test_a_run_that_stopped_early(sequential_case):
    assert eval_results(*sequential_case, SLUG) == {}


def test_every_benchmark_is_one_that_the_check_knows():
    for dataset, task_id in _TASKS.values():
        assert task_id in benchmarks()[dataset]


def test_the_file_lies_beside_the_card_and_goes_when_it_is_wrong_no_more(gsm_case, tmp_path):
    run, comparison = gsm_case()
    with RunFolder.open(tmp_path, "run") as folder:
        write_cards(folder, run, comparison)
        beside = folder.path / "models" / SLUG
        file = beside / ".eval_results" / "gsm8k.yaml"
        mine = beside / ".eval_results" / "mine.yaml"
        mine.write_text("- dataset: {id: cais/hle, task_id: hle}\n  value: 3.1\n", encoding="utf-8")
        figure = beside / "figures" / "my-own.png"
        figure.write_bytes(b"\x89PNG of the user's")
        files = {".eval_results/gsm8k.yaml": file.read_bytes()}
        card = (beside / "README.md").read_text(encoding="utf-8")
        assert not [one for one in check_card(card, files=files) if ".eval_results" in one.where]
        write_cards(folder, run.model_copy(update={"finished": None}), comparison.model_copy(update={"tasks": []}))
        assert not file.exists() and not (beside / "figures" / "scores.png").exists()
        assert mine.exists() and figure.exists()
