"""Measured scores beside published ones: what matches, and what is far away."""

import pytest

from evalcard.compare.comparison import compare_run
from evalcard.compare.health import published
from evalcard.compare.health.published import Published, _scores
from evalcard.gate.judge import GateSpec, judge
from evalcard.results.records import ItemScore

BASE, SMALL = "meta-llama/Meta-Llama-3.1-8B-Instruct", "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16"


@pytest.fixture
def compared(case, told):
    def compare(base=BASE, small=SMALL, scheme=None, resolved=None):
        run = case.run()
        ids = zip(run.models, (base, small), (None, scheme), strict=True)
        models = [model.model_copy(update={"hub_id": hub, "scheme": how}) for model, hub, how in ids]
        run = run.model_copy(update={"models": models, "resolved": resolved or {}})
        return compare_run(run, case.verdicts, case.samples)

    return compare


def test_a_score_far_below_the_published_one(case, flips, compared, told):
    """68.3 % in the card, 42.1 % here: prompts, template or a broken load."""
    case.add("mmlu", *flips(14042, 5912, 0, 0), chance=0.25, num_fewshot=5)
    comparison = compared()
    found = {one.where: one for one in comparison.health}
    assert found["mmlu, base"].finding == f"Published 68.3 (5-shot, in the card of {SMALL}), measured 42.1 ± 0.4."
    assert found["mmlu, small"].finding == f"Published 66.9 (5-shot, in the card of {SMALL}), measured 42.1 ± 0.4."
    assert [(one.severity, one.row, one.model) for one in found.values()] == [
        ("warning", "mmlu", None), ("warning", "mmlu", "small")]  # fmt: skip
    assert judge(comparison, GateSpec()).outcome == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("n", "right", "severity"),
    [
        (6000, 4098, None),  # 68.3 %
        (6000, 3980, None),  # 66.3 %: not two points
        (6000, 3970, "note"),  # 66.2 %: 2.1 points, 3.5 standard errors
        (6000, 3800, "note"),  # 63.3 %
        (6000, 3795, "warning"),  # 63.25 %: more than five points
        (6000, 4400, "warning"),  # 73.3 %: too good is far away, too
        (200, 117, None),  # 58.5 %, 9.8 points and 2.8 standard errors
        (200, 115, "warning"),  # 57.5 %, 10.8 points and 3.1 standard errors
    ],
)
def test_distance_in_points_and_in_standard_errors(case, compared, n, right, severity):
    case.add("mmlu", [1] * right + [0] * (n - right), [1] * right + [0] * (n - right), chance=0.25, num_fewshot=5)
    found = [one.severity for one in compared(small=None, scheme="w4a16").health]
    assert found == ([severity] if severity else [])


@pytest.mark.parametrize(
    "how",
    [
        {"base": None, "small": None},
        {"base": "someone/else", "small": "someone/other"},
        {"base": None, "small": SMALL, "scheme": "w4a16"},
        {"base": None, "small": BASE, "scheme": "w8a8"},
    ],
)
def test_other_models_are_not_held_against_it(case, flips, compared, how):
    case.add("mmlu", *flips(1000, 421, 0, 0), chance=0.25, num_fewshot=5)
    assert compared(**how).health == []


@pytest.mark.parametrize("facts", [{"num_fewshot": 0}, {"num_fewshot": 5, "metric": "exact_match"}])
def test_other_settings_are_not_held_against_it(case, flips, compared, facts):
    case.add("mmlu", *flips(1000, 421, 0, 0), chance=0.25, **facts)
    assert compared().health == []


def test_a_renamed_model_and_a_local_folder_with_its_base_model(case, flips, compared, told):
    case.add("mmlu", *flips(1000, 421, 0, 0), chance=0.25, num_fewshot=5)
    assert list(told(compared(base="meta-llama/Llama-3.1-8B-Instruct", small=None))) == ["warning: mmlu, base"]
    by_base = compared(base=None, small=None, resolved={"base_model": BASE.lower()})
    assert list(told(by_base)) == ["warning: mmlu, base"]


def test_another_measure_of_the_row_is_the_published_one(case, flips, compared, told):
    """Cards give hellaswag's acc_norm, while acc is the task's first metric."""
    case.add("hellaswag", *flips(1000, 600, 0, 0), chance=0.25, num_fewshot=10)
    for slug, right in (("base", 805), ("small", 600)):
        verdicts = case.verdicts[slug]["hellaswag"]
        case.verdicts[slug]["hellaswag"] = [
            one.model_copy(update={"scores": [*one.scores, norm(float(one.item_id < right))]}) for one in verdicts
        ]
    assert told(compared()) == {
        "warning: hellaswag, small": f"Published 79.9 (10-shot, in the card of {SMALL}), measured 60.0 ± 1.5."
    }


def norm(value: float) -> ItemScore:
    return ItemScore(metric="acc_norm", filter="none", value=value)


def test_of_two_cards_the_nearer_counts(case, flips, compared, monkeypatch):
    stated = [Published(BASE, "mmlu", 5, "acc", None, score, f"org/{score}") for score in (0.683, 0.43, 0.2)]
    monkeypatch.setattr(published, "_scores", lambda: ({}, {BASE.lower(): stated}))
    case.add("mmlu", *flips(1000, 421, 0, 0), chance=0.25, num_fewshot=5)
    assert compared(small=None, scheme="w4a16").health == []
    stated[1] = stated[1]._replace(score=0.36)
    (found,) = compared(small=None, scheme="w4a16").health
    assert found.finding == "Published 36.0 (5-shot, in the card of org/0.43), measured 42.1 ± 1.6."


def test_every_stored_score_is_a_fraction_of_a_known_model():
    _, scores = _scores()
    assert sum(map(len, scores.values())) > 150
    for name, stated in scores.items():
        assert name == name.lower() and "/" in name
        for one in stated:
            assert 0 < one.score <= 1 and one.shots >= 0 and "/" in one.card, one
