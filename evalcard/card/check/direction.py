"""Which way a row is better, as far as its label says so: a recovery is compressed over baseline, or turned round."""

import re
from functools import lru_cache
from typing import Literal

Direction = Literal["higher", "lower", "either", "unsaid"]
"""either: a cost, of which cards print both ratios. unsaid: the label is a name that tells nothing."""

_SAYS_LOWER = re.compile(
    r"perplexity|\bppl\b|\bkld?\b|divergence|bits.per.byte|\bbpb\b|\b[wct]er\b|\bbrier\b|↓|\blower (?:is |= ?)?better",
    re.I,
)
_SAYS_HIGHER = re.compile(
    r"(?:\baccuracy|(?<![a-z])acc(?:[_ ]norm)?\b|\bexact[_ ]match\b|\bf1\b|\bpass@|\bbleu\b|\brouge|\bprecision\b|"
    r"\brecall\b|\bauroc\b|\bauc\b|\bwin[ -]?rate\b|\bsolve[ -]?rate\b|\bthroughput\b|\bspeed-?up\b)"
    r"(?![_ -]*(?:loss|lost|drop|error|degradation))|↑|\bhigher (?:is |= ?)?better",
    re.I,
)
_LOWER = re.compile(
    r"\bloss\b|\berrors?\b|\bn?r?m[as]p?e\b|\bnll\b|\bhallucination[_ ]rates?\b|\bfailure[_ ]rates?\b|"
    r"\bfalse[_ -](?:positive|negative)s?\b|\b(?:fp|fn|ee)r\b|\bece\b",
    re.I,
)
_COST = re.compile(
    r"latency|\bttft\b|\btpot\b|\bitl\b|\btime\b|\bm?s(?:ec)?\b(?=\)|$|/)|\bms\b|\b(?:milli)?seconds?\b|\bminutes?\b|"
    r"\bmemory\b|\bv?ram\b|\b[kmgt]i?b\b|\bsize\b|\bfootprint\b|\benergy\b|\bjoules?\b|\bk?wh\b|\bwatts?\b|\bpower\b|"
    r"\bcosts?\b|\bprice\b|\bco2\b|\bemissions?\b|\bflops\b|\btoxicity\b|\bhallucinations?\b|\brefusals?\b",
    re.I,
)
"""What costs something, and what is counted as good by some and as bad by others."""
_RATE = re.compile(
    r"(?:tokens?|tok|toks|requests?|req|queries|samples|items|it)\s*(?:/|per)\s*(?:s\b|sec|minute|h)", re.I
)
_SHARES = re.compile(
    r"mmlu|gsm-?8k|hellaswag|\barc\b|arc[_ -](?:c|e)|winogrande|truthfulqa|ifeval|\bbbh\b|gpqa|\bmusr\b|humaneval|"
    r"\bmbpp|math-?500|\baime|boolq|\bpiqa\b|openbookqa|triviaqa|livecodebench",
    re.I,
)
"""Benchmarks that are shares of right answers wherever they are printed."""
_RULES: tuple[tuple[re.Pattern[str], Direction], ...] = (
    (_SAYS_LOWER, "lower"),
    (_SAYS_HIGHER, "higher"),
    (_RATE, "higher"),
    (_LOWER, "lower"),
    (_COST, "either"),
    (_SHARES, "higher"),
)


@lru_cache(maxsize=4096)
def direction_of(text: str) -> Direction:
    """Of a label with all that stands beside it; a measure says more than the benchmark it was taken on."""
    return next((direction for pattern, direction in _RULES if pattern.search(text)), "unsaid")


def is_lower_better(text: str) -> bool:
    """Whether a label says so, or names a measure of which less is more."""
    return direction_of(text) == "lower"
