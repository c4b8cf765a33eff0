"""Is more of a metric better? What the metric's own name says, where a harness's file does not state it."""

import re

_HIGHER = frozenset({
    "acc", "acc_all", "acc_bytes", "acc_mutual_info", "acc_norm", "acc_norm_nospace", "accuracy", "answer", "bleu",
    "chrf", "chrf++", "choice", "em", "exact", "exact_match", "extractive_match", "f1", "f1_score", "includes",
    "inst_level_loose_acc", "inst_level_strict_acc", "likelihood", "match", "math", "math_pass", "maj", "mcc", "pass",
    "pass_at_1", "pattern", "prefix_exact_match", "prefix_quasi_exact_match", "prompt_level_loose_acc",
    "prompt_level_strict_acc", "quasi_exact_match", "rouge1", "rouge2", "rougel", "rougelsum",
})  # fmt: skip
_LOWER = frozenset({
    "bits_per_byte", "brier_score", "byte_perplexity", "cer", "ece", "loss", "mae", "mse", "perplexity", "ppl", "rmse",
    "ter", "wer", "word_perplexity",
})  # fmt: skip
_PARAMETERS = re.compile(r"[@:(].*", re.DOTALL)
"""Such as in ``pass@1`` and ``maj@4``."""


def known_direction(metric: str) -> bool | None:
    """Whether higher is better; None for a metric that is not known, as a guess could turn a loss into a gain."""
    name = _PARAMETERS.sub("", metric.lower()).rpartition("/")[2]
    return True if name in _HIGHER else False if name in _LOWER else None


def unknown_direction(metric: str) -> str:
    """Why a task of such a metric is left out."""
    return f"nothing states whether higher or lower is better for {metric[:80]}"
