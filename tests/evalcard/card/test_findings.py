"""Findings as a reader takes them in."""

from evalcard.card.findings import finding_groups
from evalcard.card.view import card_view
from evalcard.results.compared import Finding

ROWS = ["arc", "sums"]


def find(severity: str, where: str, finding: str, advice: str = "Do something.", **facts: str) -> Finding:
    return Finding.model_validate(
        {"severity": severity, "where": where, "finding": finding, "advice": advice, "row": where, **facts}
    )


def test_the_gravest_come_first_and_share_their_advice():
    findings = [
        find("note", "arc", "a subset", "Run all."),
        find("warning", "arc", "3 truncated", "Raise the limit."),
        find("blocker", "sums", "at chance", "Take another task."),
        find("warning", "sums", "9 truncated", "Raise the limit."),
        find("warning", "sums", "loops", "Look at the answers."),
    ]
    told = [
        (group.severity, [(line.places, line.finding) for line in group.lines], group.advice)
        for group in finding_groups(findings, ROWS)
    ]
    assert told == [
        ("blocker", [(("sums",), "at chance")], "Take another task."),
        ("warning", [(("arc",), "3 truncated"), (("sums",), "9 truncated")], "Raise the limit."),
        ("warning", [(("sums",), "loops")], "Look at the answers."),
        ("note", [(("arc",), "a subset")], "Run all."),
    ]


def test_what_concerns_all_rows_is_said_once():
    everywhere = [find("warning", row, "no stop string") for row in ROWS]
    (group,) = finding_groups(everywhere, ROWS)
    (line,) = group.lines
    assert line.everywhere and line.places == ("arc", "sums")
    (group,) = finding_groups(everywhere, [*ROWS, "facts"])
    assert not group.lines[0].everywhere and group.lines[0].places == ("arc", "sums")
    (group,) = finding_groups(everywhere[:1], ["arc"])
    assert not group.lines[0].everywhere, "a single row has a name"


def test_equal_words_of_other_severity_or_advice_stay_apart():
    findings = [find("warning", "arc", "x"), find("blocker", "arc", "x"), find("warning", "sums", "x", "Else.")]
    assert [len(group.lines) for group in finding_groups(findings, ROWS)] == [1, 1, 1]


def test_a_card_has_the_findings_of_its_model_only(make_case):
    run, comparison = make_case(2)
    health = [
        find("warning", "arc", "both"),
        find("warning", "arc", "mine", model="toy-1b-w8a8"),
        find("warning", "arc", "theirs", model="toy-1b-w4a16"),
    ]
    view = card_view(run, comparison.model_copy(update={"health": health}), "toy-1b-w8a8")
    assert [line.finding for group in view.groups for line in group.lines] == ["both", "mine"]
