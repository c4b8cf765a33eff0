"""What lm-eval itself writes for the tiny model and toy tasks, once a session."""

import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

LAST_WORD = {
    "task": "toy_last", "test_split": "test", "output_type": "loglikelihood", "doc_to_text": "{{question}} It is a",
    "doc_to_target": " {{choices[answer]}}", "metadata": {"version": 1.5},
    "metric_list": [{"metric": "perplexity", "aggregation": "perplexity", "higher_is_better": False},
                    {"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}  # fmt: skip
UNEVEN = {"group": "toy_uneven", "task": ["toy_tag"],
          "aggregate_metric_list": [{"metric": "acc", "weight_by_size": False}]}  # fmt: skip


@pytest.fixture(scope="session")
def more_tasks(toys: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Task files that score one continuation, for evalcard and for the harness, and a group that weighs tasks alike."""
    own, other = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("other")
    files = {"test": str(toys.data_root / "toy/choice/shapes/test.jsonl")}
    hub = {"dataset_path": "toy/choice", "dataset_name": "shapes"}
    local = {"dataset_path": "json", "dataset_kwargs": {"data_files": files, "cache_dir": str(other / "cache")}}
    (own / "toy_last.yaml").write_text(yaml.safe_dump(LAST_WORD | hub))
    (other / "toy_last.yaml").write_text(yaml.safe_dump(LAST_WORD | local))
    (other / "toy_uneven.yaml").write_text(yaml.safe_dump(UNEVEN))
    return {"evalcard": own, "harness": other}


@pytest.fixture(scope="session")
def run_lm_eval(toys: Any, more_tasks: dict[str, Path]) -> Callable[..., dict[str, Any]]:
    """What lm_eval's command does with --output_path and --log_samples; returns its results."""

    def run(out: Path, tasks: list[str], model: Any, **options: Any) -> dict[str, Any]:
        import lm_eval
        from lm_eval.loggers import EvaluationTracker
        from lm_eval.tasks import TaskManager

        tracker = EvaluationTracker(output_path=str(out))
        own = [str(toys.harness_folder), str(more_tasks["harness"])]
        manager = TaskManager(include_path=own, include_defaults=False)
        results = lm_eval.simple_evaluate(
            model, tasks=tasks, task_manager=manager, evaluation_tracker=tracker, log_samples=True, bootstrap_iters=0,
            device="cpu", verbosity="ERROR", **options,
        )  # fmt: skip
        assert results is not None
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        for name in results["configs"]:
            tracker.save_results_samples(task_name=name, samples=samples[name])
        return results

    return run


@pytest.fixture(scope="session")
def written(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, run_lm_eval: Callable[..., dict[str, Any]]
) -> tuple[Path, dict[str, Any]]:
    """The folder that lm_eval filled with the tiny model's answers, and the results it returned."""
    out = tmp_path_factory.mktemp("lm_eval")
    arguments = {"pretrained": str(tiny_model), "dtype": "float32"}
    results = run_lm_eval(out, ["toy_all", "toy_texts", "toy_last"], "hf", model_args=arguments, batch_size=4)
    return out, results


@pytest.fixture
def folder(written: tuple[Path, dict[str, Any]], tmp_path: Path) -> Path:
    """A copy of it to change."""
    return Path(shutil.copytree(written[0], tmp_path / "results"))


@pytest.fixture
def results_of() -> Callable[[Path], Path]:
    def find(folder: Path) -> Path:
        (path,) = folder.rglob("results_*.json")
        return path

    return find


@pytest.fixture
def edit() -> Callable[[Path, Callable[[dict[str, Any]], Any]], None]:
    """Change a JSON file in place."""

    def change(path: Path, how: Callable[[dict[str, Any]], Any]) -> None:
        data = json.loads(path.read_text())
        how(data)
        path.write_text(json.dumps(data))

    return change


@pytest.fixture
def score() -> Callable[..., Fraction]:
    """The score of a row of a stored model, as comparing it computes it."""

    def compute(stored: Any, name: str) -> Fraction:
        from evalcard.compare.recovery import score_row

        (row,) = [row for row in stored.rows if row.name == name]
        tables = []
        for task in row.tasks:
            measure = (stored.tasks[task].metric, stored.tasks[task].filter)
            tables.append({
                (one.item_id, one.repeat): Fraction(value)
                for one in stored.verdicts[task]
                for value in [next((s.value for s in one.scores if (s.metric, s.filter) == measure), 0.0)]
            })  # fmt: skip
        found = score_row(row.rule, tables)
        assert found is not None
        return found.score

    return compute
