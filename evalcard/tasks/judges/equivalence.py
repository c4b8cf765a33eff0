"""Whether two expressions mean the same, by math-verify; runs in the processes of worker.py only, which limit its
time.

math-verify decides; before it stand the rules it lacks. An expression is parsed as a whole or not at all (its own
parser takes the 4 of ``4\\sqrt(2)`` where the rest is no LaTeX). Numbers that clearly differ are not equal, however
small they are (it rounds to six decimals: 1/2004! would be 1/2006!). A percent sign is a unit that may be missing on
either side.
"""

import logging
from functools import lru_cache
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify
from sympy import (  # type: ignore[import-untyped]
    Expr,
    FiniteSet,
    Float,
    GreaterThan,
    Interval,
    LessThan,
    MatrixBase,
    Mul,
    Rational,
    StrictGreaterThan,
    StrictLessThan,
    Tuple,
    UnevaluatedExpr,
    Union,
)

_INEQUALITIES = (LessThan, StrictLessThan, GreaterThan, StrictGreaterThan)
_EXACT_TOLERANCE = 1e-12
_ROUNDED_TOLERANCE = 1e-4
"""Greatest relative difference of two numbers of which one has decimals, so was perhaps rounded."""
_EVALUATED_DIGITS = 30


def are_equal(gold: str, answer: str) -> bool:
    """Both are LaTeX without dollars (latex.py); the gold comes first since the comparison has a direction.

    Raises whatever sympy raises; takes any time and memory.
    """
    right, given = _alternatives(parsed(gold)), _alternatives(parsed(answer))
    if right is None or given is None:
        return False
    for one, other in _readings(right, given):
        if not _clearly_differ(one, other) and verify(
            one, other, timeout_seconds=None, allow_set_relation_comp=True, raise_on_error=False
        ):
            return True
    return False


@lru_cache(maxsize=4096)
def parsed(latex: str) -> Any:
    """A sympy object; None where the whole of it is no expression."""
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns that we limit the time ourselves
    found = parse(f"${latex}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
    return found[0] if found else None


def _alternatives(expression: Any) -> Any:
    """Inequalities joined by "or" as the union they describe, which the parser gives as a set of inequalities."""
    parts = getattr(expression, "args", ())
    if isinstance(expression, FiniteSet) and parts and all(isinstance(part, _INEQUALITIES) for part in parts):
        return Union(*(part.as_set() for part in parts))
    return expression


def _readings(gold: Any, answer: Any) -> list[tuple[Any, Any]]:
    """With a percent sign on one side only: the number before it, and its hundredth."""
    of_gold, of_answer = _percentage(gold), _percentage(answer)
    if of_gold is not None and of_answer is not None:
        return [(of_gold, of_answer)]
    if of_gold is not None:
        return [(of_gold, answer), (of_gold / 100, answer)]
    if of_answer is not None:
        return [(gold, of_answer), (gold, of_answer / 100)]
    return [(gold, answer)]


def _percentage(expression: Any) -> Any:
    if isinstance(expression, Mul) and len(expression.args) == 2:
        number, unit = expression.args
        if unit == UnevaluatedExpr(Rational(1, 100)):
            return number
    return None


def _clearly_differ(gold: Any, answer: Any) -> bool:
    """Whether both are numbers, or tuples or matrices of the same shape, with a pair of unequal numbers."""
    pairs = _pairs(gold, answer)
    if pairs is not None:
        return any(_clearly_differ(one, other) for one, other in pairs)
    if not (isinstance(gold, Expr) and isinstance(answer, Expr)) or gold.free_symbols or answer.free_symbols:
        return False
    tolerance = _ROUNDED_TOLERANCE if gold.has(Float) or answer.has(Float) else _EXACT_TOLERANCE
    try:
        one, other = gold.doit().evalf(_EVALUATED_DIGITS), answer.doit().evalf(_EVALUATED_DIGITS)
        largest = max(abs(one), abs(other))
        return bool(largest.is_finite and largest != 0 and abs(one - other) > tolerance * largest)
    except (TypeError, ValueError, ArithmeticError, NotImplementedError):  # no number to be had: math-verify may know
        return False


def _pairs(gold: Any, answer: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(gold, Tuple) and isinstance(answer, Tuple) and len(gold) == len(answer):
        return list(zip(gold, answer, strict=True))
    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase) and gold.shape == answer.shape:
        return list(zip(gold.flat(), answer.flat(), strict=True))
    if isinstance(gold, Interval) and isinstance(answer, Interval):
        return [(gold.start, answer.start), (gold.end, answer.end)]
    return None
