"""The sequential test: its capital against the definition, its errors, its ends, and what may not change it."""

import itertools
import math
import random
from fractions import Fraction

import pytest

from evalcard.compare import betting, sequential
from evalcard.compare.sequential import SequentialTest, seeded_order

LIMIT = Fraction(95, 100)
Pairs = list[tuple[Fraction, Fraction]]


def items(both: int, lost: int, gained: int, neither: int) -> Pairs:
    kinds = ((1, 1),) * both + ((1, 0),) * lost + ((0, 1),) * gained + ((0, 0),) * neither
    return [(Fraction(b), Fraction(c)) for b, c in kinds]


def graded(n: int, seed: int, recovery: float = 0.95) -> Pairs:
    """Means of four coupled answers."""
    source = random.Random(seed)
    found = []
    for _ in range(n):
        chance, noise = source.betavariate(1.4, 0.6), [source.random() for _ in range(4)]
        other = [one if source.random() < 0.75 else source.random() for one in noise]
        right = sum(one < chance for one in noise), sum(one < chance * recovery for one in other)
        found.append((Fraction(right[0], 4), Fraction(right[1], 4)))
    return found


def shuffled(pairs: Pairs, seed: int) -> Pairs:
    return [pairs[i] for i in seeded_order(len(pairs), seed)]


def feed(pairs: Pairs, limit: Fraction = LIMIT, batch: int = 32, until: int | None = None) -> SequentialTest:
    """All of ``pairs``, or as many as a decision takes (``until`` None)."""
    test = SequentialTest(len(pairs), limit, 0.95)
    for start in range(0, until or len(pairs), batch):
        part = pairs[start : min(start + batch, until or len(pairs))]
        if test.update([b for b, _ in part], [c for _, c in part]) and until is None:
            break
    return test


def recovery(pairs: Pairs) -> Fraction:
    return sum((c for _, c in pairs), Fraction(0)) / sum((b for b, _ in pairs), Fraction(0))


@pytest.mark.parametrize("limit", [Fraction(1), Fraction(1, 2)])
def test_over_all_orders_the_capital_of_a_set_at_the_limit_is_1(limit, monkeypatch):
    """The definition of a martingale, by brute force: 7! orders, a look and new bets after every item."""
    monkeypatch.setattr(sequential, "_REBET", 1)
    pairs = items(2, 2, 2, 1) if limit == 1 else items(1, 3, 1, 2)
    assert recovery(pairs) == limit
    high, low = [0.0] * 7, [0.0] * 7
    orders = list(itertools.permutations(pairs))
    for order in orders:
        test = SequentialTest(7, limit, 0.95)
        for at, (b, c) in enumerate(order):
            test.update([b], [c])
            high[at] += math.exp(test._high.log_capital) / len(orders)
            low[at] += math.exp(test._low.log_capital) / len(orders)
    assert high == pytest.approx([1.0] * 7, abs=1e-9)
    assert low == pytest.approx([1.0] * 7, abs=1e-9)


@pytest.mark.parametrize("pairs", [items(50, 4, 2, 20), graded(60, 3)], ids=["binary", "graded"])
def test_capital_is_the_product_of_its_definition(pairs):
    pairs = shuffled(pairs, 1)
    test = feed(pairs, batch=7, until=40)
    excess, high, low = Fraction(0), 1.0, 1.0
    for at, ((b, c), step) in enumerate(zip(pairs, test._steps, strict=False)):
        mean = -excess / (len(pairs) - at)
        gain = float(c - LIMIT * b - mean)
        high *= 1 + min(step.on_high, 0.95 / float(mean + LIMIT)) * gain
        low *= 1 - min(step.on_low, 0.95 / float(1 - mean)) * gain
        excess += c - LIMIT * b
    assert math.exp(test._high.log_capital) == pytest.approx(high, rel=1e-9)
    assert math.exp(test._low.log_capital) == pytest.approx(low, rel=1e-9)


def test_bet_is_the_best_of_a_grid():
    source = random.Random(5)
    for _ in range(200):
        gains = [source.uniform(0.01, 1), -source.uniform(0.01, 1), source.uniform(-0.9, 0.9)]
        cells = [(source.uniform(0.1, 50), gain) for gain in gains]
        top = 0.95 / -min(gains)
        grid = [top * i / 2000 for i in range(2001)]
        best = max(grid, key=lambda bet: sum(w * math.log1p(bet * gain) for w, gain in cells))
        assert betting.kelly(cells, -min(gains)) == pytest.approx(best, abs=top / 1000)


@pytest.mark.parametrize("pairs", [items(158, 11, 3, 28), graded(200, 8)], ids=["binary", "graded"])
def test_errors_at_the_limit_are_rare_though_every_batch_is_looked_at(pairs):
    """300 orders: at most 2.5 % and three standard errors, 5.2 %."""
    at, below = recovery(pairs), recovery(pairs) + Fraction(1, 10**9)
    wrong_fail = sum(feed(shuffled(pairs, seed), at, batch=5).decision == "FAIL" for seed in range(300))
    wrong_pass = sum(feed(shuffled(pairs, seed), below, batch=5).decision == "PASS" for seed in range(300))
    assert max(wrong_fail, wrong_pass) <= 15


@pytest.mark.parametrize(
    ("pairs", "answer", "share"),
    [
        (items(1154, 33, 33, 99), "PASS", 0.25),
        (items(1121, 66, 66, 66), "PASS", 0.35),
        (items(758, 33, 33, 495), "PASS", 0.50),
        (items(1009, 178, 0, 132), "FAIL", 0.15),
        (items(666, 125, 7, 521), "FAIL", 0.15),
    ],
    ids=["0.9, 5 %", "0.9, 10 %", "0.6, 5 %", "0.9, 85 %", "0.6, 85 %"],
)
def test_a_clear_case_ends_early(pairs, answer, share):
    assert len(pairs) == 1319
    tests = [feed(shuffled(pairs, seed)) for seed in range(31)]
    assert sum(test.decision == answer for test in tests) >= 30
    assert sorted(test.num_used for test in tests)[15] <= share * 1319


def test_graded_scores_end_early_too():
    pairs = graded(1319, 4, recovery=1.0)
    tests = [feed(shuffled(pairs, seed), Fraction(9, 10)) for seed in range(15)]
    assert sorted(test.num_used for test in tests)[7] <= 0.4 * 1319
    assert all(test.decision == "PASS" for test in tests)


def test_interval_covers_and_agrees_with_the_decision():
    pairs = items(158, 11, 3, 28)
    limits = (Fraction(9, 10), LIMIT, Fraction(99, 100))
    for limit in limits:
        missed = 0
        for seed in range(60):
            test = feed(shuffled(pairs, seed), limit, until=60 + 2 * seed)
            found = test.interval()
            assert found is not None and 0 <= found.low <= found.high
            assert (found.low >= limit) == (test.decision == "PASS"), (found, limit)
            assert (found.high < limit) == (test.decision == "FAIL"), (found, limit)
            missed += not found.low <= recovery(pairs) <= found.high
        assert missed <= 8, limit  # 5 % and three standard errors of 60 orders


def test_ratios_ruled_out_are_an_interval():
    test = feed(shuffled(items(158, 11, 3, 28), 2), until=120)
    found = test.interval()
    assert found is not None
    ratios = [i / 200 for i in range(120, 300)]
    assert [test._is_ruled_out(one, True) for one in ratios] == [one <= found.low for one in ratios]
    assert [test._is_ruled_out(one, False) for one in ratios] == [one >= found.high for one in ratios]


@pytest.mark.parametrize("lost", [5, 6])
def test_the_complete_set_is_decided_exactly(lost):
    pairs = items(100 - lost, lost, 0, 20)
    test = feed(shuffled(pairs, 0), until=120)
    assert test.decision == ("PASS" if lost == 5 else "FAIL")
    found = test.interval()
    assert found is not None and found.low == found.high == float(recovery(pairs))


def test_ends_where_the_rest_cannot_change_the_answer():
    test = SequentialTest(4, Fraction(1, 2), 0.95)
    assert test.update([1], [1]) is None
    assert test.update([0], [1]) == "PASS"  # 1.5 ahead, and two items can cost 1
    lagging = SequentialTest(3, Fraction(2), 0.95)
    assert lagging.update([1], [0]) is None  # 2 behind with two items left: equality passes
    assert lagging.update([1], [1]) == "FAIL"


def test_does_not_depend_on_how_the_items_are_batched():
    pairs = shuffled(items(158, 11, 3, 28), 7)
    tests = [feed(pairs, batch=batch, until=150) for batch in (1, 13, 150)]
    assert len({test.decision for test in tests}) == 1
    for test in tests[1:]:
        assert test._high.log_capital == pytest.approx(tests[0]._high.log_capital, abs=1e-9)
        assert test._low.log_capital == pytest.approx(tests[0]._low.log_capital, abs=1e-9)


def test_scores_may_be_fractions_floats_or_whole_numbers():
    pairs = shuffled(items(60, 5, 5, 30), 3)
    exact, plain = SequentialTest(100, LIMIT, 0.95), SequentialTest(100, LIMIT, 0.95)
    exact.update([b for b, _ in pairs[:64]], [c for _, c in pairs[:64]])
    plain.update([float(b) for b, _ in pairs[:64]], [int(c) for _, c in pairs[:64]])
    assert exact.interval() == plain.interval()


@pytest.mark.parametrize("limit", [Fraction(0), Fraction(3, 10), Fraction(1), Fraction(6, 5), Fraction(2)])
def test_any_limit(limit):
    test = feed(shuffled(items(100, 10, 10, 80), 1), limit)
    assert test.decision == ("PASS" if limit <= 1 else "FAIL")


class TestSeveralRows:
    """The tests of several rows make one decision: each keeps its error for a PASS, they share that for a FAIL."""

    @staticmethod
    def both(pairs: Pairs, used: int, num_tests: int = 5) -> tuple[SequentialTest, SequentialTest]:
        tests = SequentialTest(len(pairs), LIMIT, 0.95), SequentialTest(len(pairs), LIMIT, 0.95, num_tests)
        for test in tests:
            test.update([b for b, _ in pairs[:used]], [c for _, c in pairs[:used]])
        return tests

    def test_a_pass_is_as_soon_as_that_of_one_row(self):
        pairs = shuffled(items(1154, 33, 33, 99), 4)
        firsts = []
        for num_tests in (1, 5):
            test = SequentialTest(len(pairs), LIMIT, 0.95, num_tests)
            firsts.append(next(at for at, (b, c) in enumerate(pairs) if test.update([b], [c]) == "PASS"))
        assert firsts[0] == firsts[1] < 0.6 * len(pairs)

    def test_a_fail_needs_a_capital_of_so_many_times_as_much(self):
        pairs = shuffled(items(666, 125, 7, 521), 4)
        test, reached = SequentialTest(len(pairs), LIMIT, 0.95, 5), []
        for b, c in pairs:
            if test.update([b], [c]) == "FAIL":
                break
            reached.append(math.exp(test._low.log_capital))
        assert max(reached) >= 40, "a single row would have failed before"
        assert max(reached) < 200 <= math.exp(test._low.log_capital)

    def test_the_interval_agrees_and_only_its_upper_end_moves(self):
        for seed in range(12):
            pairs = shuffled(items(158, 25, 3, 14), seed)
            one, five = self.both(pairs, 40 + 6 * seed)
            (first, other) = one.interval(), five.interval()
            assert first is not None and other is not None
            assert other.low == first.low and other.high > first.high
            assert (other.high < LIMIT) == (five.decision == "FAIL")
            assert (other.low >= LIMIT) == (five.decision == "PASS")

    def test_three_rows_at_their_limit_fail_together_as_rarely_as_one(self):
        """250 orders: at most 2.5 % and three standard errors, 5.5 %."""
        rows = [items(158, 11, 3, 28), items(100, 20, 10, 70), graded(150, 8)]
        wrong = 0
        for seed in range(250):
            tests = []
            for number, pairs in enumerate(rows):
                test = SequentialTest(len(pairs), recovery(pairs), 0.95, len(rows))
                for start in range(0, len(pairs), 15):
                    part = shuffled(pairs, 10_000 * number + seed)[start : start + 15]
                    if test.update([b for b, _ in part], [c for _, c in part]):
                        break
                tests.append(test)
            wrong += any(test.decision == "FAIL" for test in tests)
        assert wrong <= 13


def test_recovery_of_the_items_seen_is_exact():
    test = SequentialTest(9, LIMIT, 0.95)
    assert test.recovery is None
    test.update([1, Fraction(1, 3)], [Fraction(1, 2), 0])
    assert test.recovery == Fraction(3, 8)


def test_without_a_baseline_answer_there_is_no_recovery():
    test = SequentialTest(10, LIMIT, 0.95)
    assert test.interval() is None
    test.update([0, 0], [1, 0])
    assert test.interval() is None and test.num_used == 2


@pytest.mark.parametrize("scores", [([1.5], [1]), ([0], [-0.1]), ([1, 1], [1]), ([1] * 11, [1] * 11)])
def test_refuses_what_is_no_share_or_no_pair(scores):
    with pytest.raises(AssertionError):
        SequentialTest(10, LIMIT, 0.95).update(*scores)


def test_seeded_order_is_a_permutation_that_stays():
    assert sorted(seeded_order(1000, 3)) == list(range(1000))
    assert seeded_order(1000, 3) == seeded_order(1000, 3) != seeded_order(1000, 4)
    assert seeded_order(8, 0) == [3, 7, 5, 2, 4, 1, 6, 0]
    assert seeded_order(0, 1) == []


def test_seeded_order_leaves_no_place_to_an_item():
    first = [seeded_order(10, seed)[0] for seed in range(2000)]
    assert all(150 <= first.count(item) <= 250 for item in range(10))
