"""Do two models' answers end alike? Paired, exact, and only where the change is one that matters."""

import random
from fractions import Fraction

import pytest

from evalcard.compare.health.endings import about_endings
from evalcard.compare.pairing import Answered
from evalcard.gate.judge import GateSpec, judge


def ends(case, slug, task, items, **changes):
    """Change these items' answers; ``outcome`` goes to the verdict."""
    outcome = changes.pop("outcome", None)
    for stored, update in ((case.samples, changes), (case.verdicts, {"outcome": outcome} if outcome else {})):
        answers = stored[slug][task]
        answers[:] = [one.model_copy(update=update) if one.item_id in items else one for one in answers]


def differing(comparison):
    return [one for one in comparison.health if one.where == "gsm8k, base and small"]


def test_truncated_answers_rose(case, flips):
    case.add("gsm8k", *flips(1000, 500, 0, 0))
    ends(case, "base", "gsm8k", range(990, 1000), finish="length")
    ends(case, "small", "gsm8k", range(910, 1000), finish="length")
    comparison = case.compare()
    (found,) = differing(comparison)
    assert found.finding == (
        "Truncated answers rose from 1.0 % (10 of 1000) to 9.0 % (90 of 1000); by chance alone: p = 1.7e-24."
    )
    assert (found.severity, found.row, found.model) == ("warning", "gsm8k", "small")
    assert "limit" in found.advice
    assert judge(comparison, GateSpec()).outcome == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"text": ""}, "Empty answers"),
        ({"text": "again and " * 40}, "Answers that end in a loop"),
        ({"outcome": "no_answer"}, "Replies without an answer"),
    ],
)
@pytest.mark.parametrize(("slug", "verb"), [("base", "fell"), ("small", "rose")])
def test_every_ending_and_both_directions(case, flips, changes, said, slug, verb):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    ends(case, slug, "gsm8k", range(90, 100), **changes)
    (found,) = differing(case.compare())
    before, after = ("10.0 % (10 of 100)", "0.0 % (0 of 100)")[:: -1 if slug == "small" else 1]
    assert found.finding == f"{said} {verb} from {before} to {after}; by chance alone: p = 0.002."


@pytest.mark.parametrize(
    ("n", "before", "after"),
    [
        (100, range(0), range(7)),  # p = 0.016
        (2000, range(0), range(19)),  # p = 4e-6, and less than one point
        (1000, range(0, 90), range(45, 140)),  # 45 against 50
        (1000, range(0, 90), range(0, 90)),
    ],
)
def test_chance_and_trifles_are_not_said(case, flips, n, before, after):
    case.add("gsm8k", *flips(n, n // 2, 0, 0))
    ends(case, "base", "gsm8k", before, finish="length")
    ends(case, "small", "gsm8k", after, finish="length")
    assert differing(case.compare()) == []


def test_the_pairs_decide_and_not_the_two_shares(case, flips):
    """Two shares of 45 % and 47 % of 1000: nothing unless they are nested, as then all 20 changes go one way."""
    case.add("gsm8k", *flips(1000, 500, 0, 0))
    ends(case, "base", "gsm8k", range(450), finish="length")
    ends(case, "small", "gsm8k", range(470), finish="length")
    (found,) = differing(case.compare())
    assert "rose from 45.0 % (450 of 1000) to 47.0 % (470 of 1000)" in found.finding


def test_an_item_with_repeats_counts_once(case):
    """Seven items of four answers each are seven tosses, not 28."""
    case.add("gsm8k", [[1, 1, 1, 1]] * 100, [[1, 1, 1, 1]] * 100)
    ends(case, "small", "gsm8k", range(7), finish="length")
    assert differing(case.compare()) == []
    ends(case, "small", "gsm8k", range(8), finish="length")
    (found,) = differing(case.compare())
    assert found.finding.endswith("from 0.0 % (0 of 400) to 8.0 % (32 of 400); by chance alone: p = 0.0078.")


def test_samples_of_one_model_only_are_left_to_other_findings(case, flips):
    case.add("gsm8k", *flips(100, 50, 0, 0))
    ends(case, "base", "gsm8k", range(50), finish="length")
    for stored in (case.samples, case.verdicts):
        stored["small"]["gsm8k"] = stored["small"]["gsm8k"][50:]
    assert differing(case.compare()) == []


def test_what_stands_alone_need_not_stand_beside_other_tests(case, flips):
    """p = 0.0078 is said of one test, and not where two other rows moved to and fro."""
    case.add("gsm8k", *flips(100, 50, 0, 0)).add("arc", *flips(100, 50, 0, 0)).add("sums", *flips(100, 50, 0, 0))
    ends(case, "small", "gsm8k", range(8), finish="length")
    (found,) = differing(case.compare())
    assert found.finding.endswith("p = 0.0078.")
    for name in ("arc", "sums"):
        ends(case, "base", name, range(0, 5), finish="length")
        ends(case, "small", name, range(5, 10), finish="length")
    assert differing(case.compare()) == []


KINDS = [{"finish": "length"}, {"is_empty": True}, {"is_loop": True}, {"outcome": "no_answer"}]


def test_a_lossless_model_is_seldom_warned_of_however_many_rows(case, flips):
    """Six rows, four endings, each of a tenth of either model's answers by chance: any warning in at most 1 % of runs,
    where single tests at 1 % gave one in more than every tenth."""
    names = [f"t{n}" for n in range(6)]
    for name in names:
        case.add(name, *flips(4, 2, 0, 0))
    run, source, runs = case.run(), random.Random(4), 150
    plain = {"value": Fraction(1), "outcome": "correct", "finish": "stop", "item_hash": "i", "prompt_hash": "p"}
    kinds = [Answered(**(plain | changes)) for changes in ({}, *KINDS)]

    def answers():
        drawn = {name: source.choices(kinds, (6, 1, 1, 1, 1), k=200) for name in names}
        return {name: {(item, 0): one for item, one in enumerate(given)} for name, given in drawn.items()}

    warned = sum(any(about_endings(run, run.models[1], {"base": answers(), "small": answers()})) for _ in range(runs))
    # 0.01 and not quite three standard errors of the simulation.
    assert warned / runs <= 0.03
