"""llm-compressor's lm-eval tests as a gate: what its YAML asks, how far that can be asked here, and what is different.

Such a file describes one test: a base model, how it is compressed, and under ``lmeval`` a task of lm-eval with its
shots and limit, a ``recovery_threshold`` (a fraction of the base model's score, 0.95 where none is given, or one by
metric) and ``metrics``, the figures that are looked at. The test's rule is: round(compressed / base, 2) >= threshold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcard.errors import UserError
from evalcard.gate.strict import shown
from evalcard.yamltext import read_yaml

if TYPE_CHECKING:
    from evalcard.gate.spec import GateSpec

SECTION = "lmeval"
_DEFAULTS: Mapping[str, Any] = {"task": "gsm8k", "num_fewshot": 5, "limit": 1000, "recovery_threshold": 0.95}
"""Of that file, where it leaves a key out."""
_STDERR = "_stderr,"
_MOST_EXPECTED = 1e9
"""No score is larger; of what is no number, nothing is smaller either."""

Measure = tuple[str, str]
"""(metric, filter)."""


@dataclass(frozen=True, slots=True)
class LmevalSetup:
    """What the file says beside the limit."""

    path: Path
    base_model: str | None
    task: str
    num_fewshot: int
    limit: int | None
    """Of items, the first ones; None for all."""
    measures: tuple[Measure, ...]
    """Those that are looked at; empty where none is named."""
    expected: Mapping[Measure, float]
    """Scores that the test warns below."""
    threshold: float
    """As a fraction."""


def read_lmeval(path: Path) -> "GateSpec | None":
    """The limits of such a file; None where it is another one, which the gate's own reader then judges.

    Raises UserError for a file that asks what cannot be asked here: a task with a lower score for a better model,
    several tasks, or other thresholds for metrics of the same answers.
    """
    data = read_yaml(path, "the gate file", "Give a YAML file of limits.")
    if not isinstance(data, dict) or not isinstance(data.get(SECTION), dict):
        return None
    from evalcard.gate.spec import Bounds, GateSpec

    setup = _setup(path, data, data[SECTION])
    limit = Bounds(min_recovery=as_percent(setup.threshold))
    return GateSpec(every=Bounds(), tasks={setup.task: limit}, asked_by=setup)


def _setup(path: Path, data: Mapping[str, Any], section: Mapping[str, Any]) -> LmevalSetup:
    told = {**_DEFAULTS, **section}
    task, shots, limit = told["task"], told["num_fewshot"], told["limit"]
    if not isinstance(task, str) or not task.strip() or not task.isprintable() or "," in task:
        raise _fault(path, "task", task, "give the name of one task")
    if type(shots) is not int or shots < 0:
        raise _fault(path, "num_fewshot", shots, "give a whole number from 0")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise _fault(path, "limit", limit, "give a number of items")
    if told.get("higher_is_better", True) is not True:
        raise _fault(path, "higher_is_better", told["higher_is_better"], "its recovery is for scores where it is true")
    expected = _expected(path, told.get("metrics"))
    base = data.get("model")
    return LmevalSetup(
        path=path,
        base_model=base if isinstance(base, str) else None,
        task=task.strip(),
        num_fewshot=shots,
        limit=limit,
        measures=tuple(expected),
        expected=expected,
        threshold=_threshold(path, told["recovery_threshold"], list(expected)),
    )


def _expected(path: Path, metrics: Any) -> dict[Measure, float]:
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise _fault(path, "metrics", metrics, "give a mapping such as exact_match,strict-match: 0.7")
    found = {}
    for key, value in metrics.items():
        if _STDERR in str(key):
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST_EXPECTED:
            raise _fault(path, f"metrics.{key}", value, "give a number, the score that is expected")
        found[_measure(str(key))] = float(value)
    return found


def _threshold(path: Path, given: Any, measures: list[Measure]) -> float:
    """One for the row: the same answers are judged by one measure here."""
    if not isinstance(given, dict):
        return _fraction(path, "recovery_threshold", given)
    by_measure = {_measure(str(key)): _fraction(path, f"recovery_threshold.{key}", one) for key, one in given.items()}
    asked = {by_measure.get(one, float(_DEFAULTS["recovery_threshold"])) for one in measures or by_measure}
    if len(asked) != 1:
        shown = ", ".join(f"{name_of(one)}: {value:g}" for one, value in by_measure.items()) or "none"
        raise _fault(
            path, "recovery_threshold", shown, "evalcard judges a row by one measure, so give the one threshold of it"
        )
    return asked.pop()


def _fraction(path: Path, where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.01 < value <= 2:
        raise _fault(path, where, value, "give a fraction such as 0.95")
    return float(value)


def as_percent(fraction: float) -> float:
    """Without what the product of two binary fractions leaves behind: 95, not 94.99999999999999."""
    return round(100 * fraction, 9)


def _fault(path: Path, where: str, value: Any, advice: str) -> UserError:
    return UserError(f"the gate file {path} is not right: {SECTION}.{where[:80]} is {shown(value)}; {advice}.")


def _measure(key: str) -> Measure:
    """``exact_match,strict-match`` as lm-eval writes it; without a filter it is ``none``."""
    metric, _, filtered = key.partition(",")
    return metric.strip(), filtered.strip() or "none"


def name_of(measure: Measure) -> str:
    return ",".join(measure)
