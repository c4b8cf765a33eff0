"""pass@k: the chance that at least one of k answers, drawn without replacement from an item's n, is right.

The unbiased estimator of Chen et al., "Evaluating Large Language Models Trained on Code" (2021), equation 1:
1 - C(n - c, k) / C(n, k) for an item with c of n answers right, averaged over items.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction

from evalcard.compare.recovery import Rule, Values, plain_mean
from evalcard.results.records import ItemId


def pass_at(rule: Rule, tasks: Sequence[Values]) -> list[Fraction]:
    """pass@k of a row by k - 1, for every k up to the number of answers an item has, exact; [0] is the row's score.

    ``mean`` weighs tasks alike, the others items alike. Empty where items were answered once or unequally often, or a
    score is neither 0 nor 1.
    """
    counted = [counts for counts in map(_right_counts, tasks) if counts]
    answers = {n for counts in counted for n, _ in counts}
    if len(answers) != 1 or any(right is None for counts in counted for _, right in counts):
        return []
    (n,) = answers
    if n < 2:
        return []
    pools = [[right for _, right in counts if right is not None] for counts in counted]
    if rule != "mean":
        pools = [[right for pool in pools for right in pool]]
    by_pool = [_pool_pass_at(n, pool) for pool in pools]
    return [plain_mean(at_k) for at_k in zip(*by_pool, strict=True)]


def _pool_pass_at(n: int, right: Sequence[int]) -> list[Fraction]:
    """pass@1 ... pass@n over items with ``right`` of ``n`` answers right.

    C(m, k + 1) = C(m, k) (m - k) / (k + 1) is whole, so thousands of repeats take no binomial from scratch.
    """
    items = Counter(right)
    total, missed = 1, dict.fromkeys(items, 1)
    found = []
    for k in range(n):
        total = total * (n - k) // (k + 1)
        missed = {c: ways * (n - c - k) // (k + 1) for c, ways in missed.items()}
        found.append(1 - Fraction(sum(items[c] * ways for c, ways in missed.items()), len(right) * total))
    return found


def _right_counts(values: Values) -> list[tuple[int, int | None]]:
    """(answers, answers that are right) of each item; None right where a score is neither 0 nor 1."""
    by_item: dict[ItemId, list[Fraction]] = defaultdict(list)
    for (item_id, _), value in values.items():
        by_item[item_id].append(value)
    return [
        (len(scores), int(sum(scores)) if all(score in (0, 1) for score in scores) else None)
        for scores in by_item.values()
    ]
