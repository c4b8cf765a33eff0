"""The process behind pool.py: one JSON question a line on stdin, one JSON answer a line on stdout.

Started with the kind of questions (math, regex) and the CPU seconds that one may take. The kernel ends the process when
those are used up; it ends by itself when its parent goes away, since its stdin closes then.
"""

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any

_MEMORY_LIMIT_BYTES = 4 << 30


def main() -> None:
    kind, cpu_limit_s = sys.argv[1], float(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    _limit_memory()
    compare = _comparison(kind)
    print("{}", file=answers, flush=True)  # ready: no question's time pays for the imports
    _silence()
    for line in sys.stdin:
        question = json.loads(line)
        _limit_time(cpu_limit_s)
        result = _result(compare, question)
        _limit_time(0)
        print(json.dumps({"result": result}), file=answers, flush=True)


def _comparison(kind: str) -> Callable[..., Any]:
    if kind == "regex":
        return last_match
    assert kind == "math", kind
    from evalcard.tasks.judges.equivalence import are_equal

    assert are_equal("1", "1"), "math-verify does not work"  # also builds its patterns and its parser
    return are_equal


def _result(compare: Callable[..., Any], question: dict[str, Any]) -> Any:
    """None for whatever the comparison trips over, memory and recursion included: such an answer is not right."""
    try:
        return compare(**question)
    except Exception:
        return None


def last_match(pattern: str, text: str) -> str | None:
    """The first group of the last match, the whole match where the pattern has no group; None for no match."""
    found = None
    for match in re.finditer(pattern, text):
        found = match.group(1) if match.re.groups else match.group()
    return found


def _silence() -> None:
    """What libraries print from now on goes nowhere; a pipe that nobody empties would block."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _limit_memory() -> None:
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = _MEMORY_LIMIT_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MEMORY_LIMIT_BYTES)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (ImportError, ValueError, OSError):  # no such limit on this platform: time is limited all the same
        return


def _limit_time(cpu_limit_s: float) -> None:
    """Count from now; 0 stops counting. Without a handler the signal ends the process, also inside C code."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, cpu_limit_s)


if __name__ == "__main__":
    main()
