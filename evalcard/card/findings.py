"""What the checks found, for a reader: the gravest first, one thing once, advice after what it is for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evalcard.card.paths import without_paths
from evalcard.results.compared import Finding

Severity = Literal["blocker", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("blocker", "warning", "note")


@dataclass(frozen=True, slots=True)
class FindingLine:
    """One finding, and every place it was made."""

    places: tuple[str, ...]
    everywhere: bool
    """Whether that is every row of the run, of which there are several."""
    finding: str


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one severity that ask for the same thing."""

    severity: Severity
    lines: tuple[FindingLine, ...]
    advice: str


def clean(finding: Finding) -> Finding:
    """The finding without any path of the machine in its words."""
    words = {name: without_paths(getattr(finding, name)) for name in ("finding", "where", "advice")}
    return finding.model_copy(update=words)


def finding_groups(findings: Sequence[Finding], rows: Sequence[str]) -> tuple[FindingGroup, ...]:
    """Findings of one page by severity and advice; ``rows`` are the names of all rows of the run."""
    groups: dict[tuple[Severity, str], list[Finding]] = {}
    for severity in SEVERITIES:
        for one in findings:
            if one.severity == severity:
                groups.setdefault((severity, one.advice), []).append(one)
    return tuple(FindingGroup(severity, _lines(group, rows), advice) for (severity, advice), group in groups.items())


def _lines(group: Sequence[Finding], rows: Sequence[str]) -> tuple[FindingLine, ...]:
    """Equal words about several rows are one line."""
    found: dict[str, list[Finding]] = {}
    for one in group:
        found.setdefault(one.finding, []).append(one)
    return tuple(
        FindingLine(
            places=tuple(dict.fromkeys(one.where for one in same)),
            everywhere=len(rows) > 1 and {one.row for one in same} >= set(rows),
            finding=words,
        )
        for words, same in found.items()
    )
