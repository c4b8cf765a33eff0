"""What CI reads of the gate's word: JUnit XML, the job summary, workflow commands; whatever names and reasons hold."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest

from evalcard.card.annotations import MOST_OF_A_LEVEL, annotations
from evalcard.card.gate_outputs import job_summary, junit_xml, plain_markdown
from evalcard.gate.judge import judge
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.gate.verdict import EXIT_CODES, GateVerdict, LimitVerdict, ModelVerdict
from evalcard.results.compared import Comparison, Finding
from evalcard.results.records import ProgressRecord, RunRecord

Case = tuple[RunRecord, Comparison]
MakeCase = Callable[..., Case]
HOSTILE = (
    "a|b`c`<img src=x onerror=y>&\"'*_[l](http://x) $z$ ::error::no\r\n## h\x00\x1b[31m\ud800 100% ]]> , : {{ 7*7 }}"
)


def limit(name: str, outcome: str, **facts: Any) -> LimitVerdict:
    said = {"scope": "task", "name": name, "kind": "min_recovery", "limit": 97.0, "outcome": outcome, "value": 98.5,
            "low": 96.25, "high": 99.9, "reason": f"why {name} is {outcome}"}  # fmt: skip
    return LimitVerdict.model_validate(said | facts)


def verdict(outcome: str, *models: ModelVerdict, **facts: Any) -> GateVerdict:
    said = {"outcome": outcome, "exit_code": EXIT_CODES[outcome], "decide": "interval", "confidence": 0.95,
            "models": list(models), "reasons": []}  # fmt: skip
    return GateVerdict.model_validate(said | facts)


def model(slug: str, outcome: str, *limits: LimitVerdict, reasons: list[str] | None = None) -> ModelVerdict:
    return ModelVerdict(model=slug, outcome=outcome, limits=list(limits), reasons=reasons or [])  # type: ignore[arg-type]


@pytest.fixture
def mixed() -> GateVerdict:
    """Every outcome once, and a model whose passes are forbidden by a finding."""
    limits = [limit("arc", "PASS"), limit("facts", "FAIL"), limit("sums", "INCONCLUSIVE"),
              limit("riddles", "CANNOT_JUDGE", value=None, low=None, high=None)]  # fmt: skip
    doubtful = model("toy-1b-w4a16", "INCONCLUSIVE", limit("arc", "PASS"), reasons=["arc: many answers were cut off."])
    return verdict("CANNOT_JUDGE", model("toy-1b-w8a8", "CANNOT_JUDGE", *limits), doubtful, notes=["arc: a note."])


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text.encode("utf-8"))


def counts(element: ET.Element) -> dict[str, int]:
    return {name: int(element.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}


def check_junit(root: ET.Element) -> None:
    """The common layout: names and attributes, in the order of the schemas, and counts that are true."""
    assert root.tag == "testsuites" and set(root.attrib) == {"name", "tests", "failures", "errors", "skipped", "time"}
    tags = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    for suite in root:
        assert suite.tag == "testsuite"
        assert set(suite.attrib) == {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}
        assert float(suite.attrib["time"]) >= 0 and re.fullmatch(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"]
        )
        assert [child.tag for child in suite] == ["properties"] + ["testcase"] * int(suite.attrib["tests"])
        assert counts(suite) == {"tests": len(suite.findall("testcase"))} | {
            name: len(suite.findall(f"testcase/{tag}")) for name, tag in tags.items()
        }
        for case in suite.findall("testcase"):
            assert set(case.attrib) == {"classname", "name", "time"}
            assert [child.tag for child in case] in [
                [*first, *last] for first in ([], ["properties"]) for last in ([], *([tag] for tag in tags.values()))
            ]
        assert all(set(one.attrib) == {"name", "value"} for one in suite.iter("property"))
    for name, total in counts(root).items():
        assert total == sum(counts(suite)[name] for suite in root)


def test_junit_has_a_suite_for_each_model_and_a_case_for_each_limit(make_case: MakeCase, mixed: GateVerdict):
    step = ProgressRecord(model="toy-1b-w8a8", task="arc", expected=200, done=200, reused=0, seconds=12.5)
    run, comparison = make_case(2, progress=[step], finished="2026-11-30T10:01:02+00:00")
    root = parsed(junit_xml(mixed, run, comparison))
    check_junit(root)
    assert counts(root) == {"tests": 6, "failures": 1, "errors": 1, "skipped": 2}
    first, second = root
    assert (first.attrib["name"], first.attrib["time"]) == ("toy-1b-w8a8", "12.500")
    assert first.attrib["timestamp"] == "2026-11-30T10:01:02"
    facts = {one.attrib["name"]: one.attrib["value"] for one in first.findall("properties/property")}
    assert facts == {"run": "arc-0a1b2c3d", "baseline": "acme/toy-1b", "compressed": "acme/toy-1b:w8a8",
                     "decide": "interval", "confidence": "0.95", "evalcard": "0.1.0"}  # fmt: skip
    cases = {case.attrib["name"]: case for case in first.findall("testcase")}
    assert list(cases) == [f"{row} min_recovery >= 97" for row in ("arc", "facts", "sums", "riddles")]
    assert {case.attrib["classname"] for case in cases.values()} == {"evalcard.arc-0a1b2c3d.toy-1b-w8a8"}
    found = {name: [child.tag for child in case if child.tag != "properties"] for name, case in cases.items()}
    assert list(found.values()) == [[], ["failure"], ["skipped"], ["error"]]
    figures = {one.attrib["name"]: one.attrib["value"] for one in cases["arc min_recovery >= 97"].iter("property")}
    assert figures == {"value": "98.5", "low": "96.25", "high": "99.9", "confidence": "0.95", "items": "200"}
    assert "value" not in {one.attrib["name"] for one in cases["riddles min_recovery >= 97"].iter("property")}
    failure = cases["facts min_recovery >= 97"].find("failure")
    assert failure is not None and failure.attrib["message"] == "why facts is FAIL"
    # The second model's limits passed; what forbids its PASS must be a test of its own.
    last = second.findall("testcase")[-1]
    assert last.attrib["name"] == "the comparison as a whole"
    skipped = last.find("skipped")
    assert skipped is not None and "many answers were cut off" in skipped.attrib["message"]


def test_junit_fails_what_is_undecided_where_that_is_wanted(make_case: MakeCase, mixed: GateVerdict):
    root = parsed(junit_xml(mixed, *make_case(2), fails_inconclusive=True))
    check_junit(root)
    assert counts(root) == {"tests": 6, "failures": 3, "errors": 1, "skipped": 0}


def test_junit_of_nothing_to_judge_is_an_error(make_case: MakeCase):
    nothing = verdict("CANNOT_JUDGE", reasons=["There is no compressed model with a score to judge."])
    root = parsed(junit_xml(nothing, *make_case(0)))
    check_junit(root)
    assert counts(root) == {"tests": 1, "failures": 0, "errors": 1, "skipped": 0}
    error = root.find("testsuite/testcase/error")
    assert error is not None and "no compressed model" in error.attrib["message"]


def test_junit_agrees_with_what_the_gate_says_of_a_comparison(make_case: MakeCase):
    run, comparison = make_case(2)
    spec = GateSpec(every=Bounds(min_recovery=60, max_drop=30), averages={"knowledge": Bounds(min_recovery=90)})
    said = judge(comparison, spec, run)
    root = parsed(junit_xml(said, run, comparison))
    check_junit(root)
    names = [case.attrib["name"] for case in root.findall("testsuite[1]/testcase")]
    assert names[:2] == ["arc min_recovery >= 60", "arc max_drop <= 30"]
    assert "average of knowledge min_recovery >= 90" in names
    limits = [one.outcome for judged in said.models for one in judged.limits]
    assert len(limits) == 2 * 9
    assert counts(root)["failures"] == limits.count("FAIL")
    assert len(root.findall("testsuite/testcase/error")) >= 1, "the guessing baseline cannot be judged"


@pytest.mark.parametrize("outcome", list(EXIT_CODES))
def test_whatever_names_and_reasons_hold_the_files_are_whole(make_case: MakeCase, outcome: str):
    run, comparison = make_case(1, name=HOSTILE.replace("\ud800", ""))
    finding = Finding(finding=HOSTILE, severity="warning", where=HOSTILE, advice=HOSTILE)
    comparison = comparison.model_copy(update={"health": [finding]})
    one = limit(HOSTILE, outcome, reason=HOSTILE)
    said = verdict(outcome, model(HOSTILE, outcome, one, reasons=[HOSTILE]), reasons=[HOSTILE], notes=[HOSTILE])
    root = parsed(junit_xml(said, run, comparison))
    check_junit(root)
    name = root.find("testsuite/testcase").attrib["name"]  # type: ignore[union-attr]
    assert name.startswith(
        "a|b`c`<img src=x onerror=y>&\"'*_[l](http://x) $z$ ::error::no ## h\ufffd\ufffd[31m\ufffd 100%"
    )
    summary = job_summary(said, run, comparison)
    summary.encode("utf-8")
    assert "<img" not in summary and "\x1b" not in summary and "::error" not in summary
    assert [line for line in summary.splitlines() if line.lstrip().startswith(("::", "## h"))] == []
    for line in summary.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 7, line
    for line in annotations(said, run):
        assert re.fullmatch(r"::(error|warning|notice) title=[^:,\r\n]*::[^\r\n]*", line), line
        line.encode("utf-8")


def test_markdown_is_escaped_so_that_it_reads_as_it_was():
    text = r"a_b *c* `d` [e](f) <g> & $h$ ::i ~j~ | k \ #l"
    shown = plain_markdown(text)
    assert unescape(re.sub(r"\\([\\`*_\[\]|~#])", r"\1", shown)) == text
    assert re.search(r"(?<![\\&])[`*\[\]|~#]|[<>$]|::", shown) is None


def test_summary_tells_outcome_limits_findings_and_how_to_go_on(make_case: MakeCase, mixed: GateVerdict):
    run, comparison = make_case(2)
    text = job_summary(mixed, run, comparison)
    lines = text.splitlines()
    assert lines[0] == "## evalcard: CANNOT JUDGE" and "95 % interval" in lines[2]
    assert "### toy-1b-w8a8: CANNOT JUDGE" in lines and "### toy-1b-w4a16: INCONCLUSIVE" in lines
    assert "| arc | 200 | recovery &gt;= 97 % | 98.50 % | [96.25, 99.90] | PASS |" in lines
    assert "| facts | 120 | recovery &gt;= 97 % | 98.50 % | [96.25, 99.90] | **FAIL** |" in lines
    assert "| riddles | 50 | recovery &gt;= 97 % | – |  | **CANNOT JUDGE** |" in lines
    assert "- sums, toy-1b-w8a8: why sums is INCONCLUSIVE." in lines
    assert "- arc: many answers were cut off." in lines and "- arc: a note." in lines
    assert "- facts, toy-1b-w8a8: why facts is FAIL." in lines, "a table gives no reason"
    assert text.count(f"evalcard compare {run.name} --flips 5") == 1 and f"{run.name}/README.md" in text
    passed = job_summary(verdict("PASS", model("toy-1b-w8a8", "PASS", limit("arc", "PASS"))), run, comparison)
    assert "--flips" not in passed and "Next:" not in passed
    assert "evalcard run" in text and "/mnt/secret" not in text and "/home/someone" not in text
    # A heading or table that follows a paragraph without a blank line is part of it.
    for before, line in zip(lines, lines[1:], strict=False):
        if line.startswith(("#", "<details", "```bash")):
            assert before == "", (before, line)
        if line.startswith("| Row"):
            assert before == ""
    assert "\n\n\n" not in text and text.endswith("</details>\n")


def test_summary_says_so_where_measured_values_decide(make_case: MakeCase, mixed: GateVerdict):
    text = job_summary(mixed.model_copy(update={"decide": "point"}), *make_case(2))
    assert "however sure they are" in text and "whole 95 % interval" not in text


def test_summary_of_nothing_to_judge(make_case: MakeCase):
    text = job_summary(verdict("CANNOT_JUDGE", reasons=["There is no compressed model."]), *make_case(0))
    assert text.startswith("## evalcard: CANNOT JUDGE\n") and "- There is no compressed model.\n" in text


def test_annotations_name_what_did_not_pass(make_case: MakeCase, mixed: GateVerdict):
    run, _ = make_case(2)
    lines = annotations(mixed, run)
    heads = [line.partition(" title=")[0] for line in lines]
    assert heads == ["::error", "::error", "::warning", "::warning", "::notice"], "errors first"
    assert lines[0] == (
        "::error title=evalcard FAIL%3A arc-0a1b2c3d::facts, toy-1b-w8a8, asked: recovery >= 97 %25. why facts is FAIL."
    )
    assert "why riddles is CANNOT_JUDGE" in lines[1] and "why sums is INCONCLUSIVE" in lines[2]
    assert lines[3].endswith("::toy-1b-w4a16: arc: many answers were cut off.")
    assert lines[4].endswith("::arc: a note.")
    strict = annotations(mixed, run, fails_inconclusive=True)
    assert [line.partition(" title=")[0] for line in strict] == ["::error"] * 4 + ["::notice"]


def test_annotation_of_a_pass_is_one_notice(make_case: MakeCase):
    passed = verdict("PASS", model("a", "PASS", limit("arc", "PASS"), limit("sums", "PASS")))
    (line,) = annotations(passed, make_case(1)[0])
    assert line == "::notice title=evalcard PASS%3A arc-0a1b2c3d::a: every limit is met, 2 in all."


def test_no_more_annotations_than_are_shown(make_case: MakeCase):
    rows = [limit(f"row{number}", "FAIL") for number in range(25)]
    lines = annotations(verdict("FAIL", model("a", "FAIL", *rows)), make_case(1)[0])
    assert len(lines) == MOST_OF_A_LEVEL == 10
    assert lines[8].count("row8,") == 1 and "and 16 more" in lines[9]
