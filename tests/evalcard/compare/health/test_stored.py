"""Two stored results beside each other: the same items, the same tokens?"""

import pytest

from evalcard.compare.health.stored import subset_against_full, tokenizers_differ
from evalcard.results.records import TaskRecord


@pytest.fixture
def task(case, flips):
    record = case.add("gsm8k", *flips(10, 5, 0, 0)).tasks["gsm8k"]

    def make(selected: int, ids: list[int] | None = None, total: int = 1319, how: str = "seeded") -> TaskRecord:
        facts = {"items_total": total, "items_selected": selected, "item_ids": ids, "selection": how}
        return record.model_copy(update=facts)

    return make


def test_equal_sets_are_fine(task):
    assert subset_against_full(task(1319), task(1319)) is None
    assert subset_against_full(task(3, [1, 2, 3]), task(3, [3, 2, 1])) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ((200, [*range(200)]), (1319,), "a subset of 200 of 1319 items (seeded) stands against all 1319 items."),
        ((2, [1, 2]), (2, [1, 3]), "a subset of 2 of 1319 items (seeded) stands against a subset of 2 of 1319 items "
         "(seeded)."),
        ((1319,), (1320, None, 1320), "all 1319 items stands against all 1320 items."),
    ],
)  # fmt: skip
def test_other_items_are_a_blocker(task, ours, theirs, said):
    found = subset_against_full(task(*ours), task(*theirs))
    assert found.finding.lower() == said.lower()
    assert found.finding[0].isupper()
    assert (found.severity, found.row) == ("blocker", "gsm8k")


def test_common_items_are_a_warning_that_counts_the_others(task):
    found = subset_against_full(task(200, [*range(200)]), task(1319), common=180)
    assert found.severity == "warning"
    assert found.finding.endswith(
        "only the 180 items that both have are compared, and 20 items of the one and 1139 of the other are left out."
    )


def test_tokenizers(case):
    case.slugs = ["base", "small"]
    base, small = case.run().models
    assert tokenizers_differ(base, small) is None
    other = small.model_copy(update={"tokenizer_digest": "u", "template_digest": "v"})
    found = tokenizers_differ(base, other)
    assert found.finding == "The tokenizers and chat templates of base and small differ."
    assert (found.severity, found.model) == ("warning", "small")
    template = small.model_copy(update={"template_digest": "v"})
    assert tokenizers_differ(base, template).finding == "The chat templates of base and small differ."
