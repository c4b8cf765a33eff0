"""Sampled answers are addressed by (seed, item, repeat): however often a run is cut short, the answers are the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends.backend import Item, ItemAnswer
from evalcard.backends.embedded import EmbeddedBackend
from evalcard.evaluate import evaluate
from evalcard.results.store import RunFolder
from evalcard.tasks.prepare import Prepared, prepare


@pytest.fixture
def sampled(toy_spec: Callable[..., Any], tiny_model: Path) -> tuple[Any, Prepared]:
    spec = toy_spec("toy_sums", baseline=str(tiny_model), temperature=1.5, top_p=0.95, repeats=4, num_fewshot=0,
                    limit_per_subtask=3, max_new_tokens=12, threads=1, dtype="float32", device="cpu")  # fmt: skip
    return spec, prepare(spec)


def run_in(folder: Path, spec: Any, prepared: Prepared, backend: Any) -> dict[tuple[Any, int], Any]:
    with RunFolder.open(folder, "run") as opened:
        found = evaluate(spec, spec.baseline, "m", prepared, backend, opened)
    return {(one.item_id, one.repeat): one for one in found.samples["toy_sums"]}


def test_four_repeats_stay_four_after_a_resume(sampled: tuple[Any, Prepared], tmp_path: Path, fake_backend: Callable):
    spec, prepared = sampled

    def answer(item: Item) -> ItemAnswer:
        return ItemAnswer("stop", text=f"{item.item_id}/{item.repeat}", token_ids=(1,), output_tokens=1)

    for stop_after in (5, 2, 1):
        with pytest.raises(KeyboardInterrupt):
            run_in(tmp_path, spec, prepared, fake_backend(answer_of=answer, stop_after=stop_after))
    last = fake_backend(answer_of=answer)
    found = run_in(tmp_path, spec, prepared, last)
    assert len(last.asked) == 12 - 8 and len(found) == 12
    assert {key: one.text for key, one in found.items()} == {
        (item, repeat): f"{item}/{repeat}" for item in prepared.tasks[0].record.item_ids or [] for repeat in range(4)
    }
    assert len({one.key for one in found.values()}) == 12


class Interrupted(EmbeddedBackend):
    """Our engine, whose power fails after a few answers."""

    left = 5

    def answer(self, items: Any, on_answer: Any) -> None:
        def report(item: Item, answer: ItemAnswer) -> None:
            on_answer(item, answer)
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

        super().answer(items, report)


def test_a_resumed_run_equals_an_uninterrupted_one(sampled: tuple[Any, Prepared], tmp_path: Path):
    spec, prepared = sampled
    whole = run_in(tmp_path / "whole", spec, prepared, EmbeddedBackend(spec, spec.baseline))
    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "cut", spec, prepared, Interrupted(spec, spec.baseline))
    resumed = run_in(tmp_path / "cut", spec, prepared, EmbeddedBackend(spec, spec.baseline))
    assert {key: one.token_ids for key, one in resumed.items()} == {key: one.token_ids for key, one in whole.items()}
    assert len(whole) == 12 and len({tuple(one.token_ids or ()) for one in whole.values()}) > 9  # repeats differ
    other = spec.model_copy(update={"seed": 7})
    again = run_in(tmp_path / "other", other, prepare(other), EmbeddedBackend(other, other.baseline))
    assert all(whole[key].prompt_hash == again[key].prompt_hash for key in whole)
    assert sum(whole[key].token_ids != again[key].token_ids for key in whole) > 9
