"""What a person reads at the end of a run."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from evalcard.cli.tables import print_comparison, print_outcome
from evalcard.results.compared import (
    OVERALL,
    ComparedRow,
    Comparison,
    CompressedScore,
    Finding,
    RecoveryRecord,
    ScoreRecord,
)
from evalcard.results.records import ModelRecord, RunRecord, SequentialRecord, TaskRecord
from evalcard.run import Outcome


def model(slug: str, role: str, scheme: str | None) -> ModelRecord:
    empty = dict.fromkeys(("hub_id", "revision", "weights_digest", "template_digest", "numerics"))
    return ModelRecord(slug=slug, role=role, name="m", scheme=scheme, tokenizer_digest="t", **empty)


def run_record() -> RunRecord:
    empty = {"asked": {}, "resolved": {}, "versions": {}, "hardware": {}, "tasks": [], "rows": [], "progress": []}
    models = [model("m", "baseline", None), model("m-w8a8", "compressed", "w8a8")]
    times = {"created": "2026-01-01", "finished": None}
    return RunRecord(schema=1, name="r", models=models, seed=1, command=[], git=None, **times, **empty)


def row(task: str, recovery: float | None, reason: str | None = None) -> ComparedRow:
    compressed = CompressedScore(
        model="m-w8a8", scheme="w8a8", score=0.5, stderr=0.01, reason=reason, lost=3, gained=1, mcnemar_p=0.6,
        recovery=None if recovery is None else RecoveryRecord(value=recovery),
    )  # fmt: skip
    return ComparedRow(task=task, metric="acc", n=100, baseline=ScoreRecord(score=1.0, stderr=0.0),
                       compressed=[compressed], chance=0.25, category="Knowledge", tasks=[task])  # fmt: skip


def printed(comparison: Comparison) -> str:
    out = io.StringIO()
    print_outcome(Outcome(run_record(), comparison, Path("results/r/README.md")), Console(file=out, width=80))
    return out.getvalue()


@pytest.fixture
def shown() -> str:
    rows = [row("mmlu_a_rather_long_subject_name_indeed", 99.96), row("[odd]", None, "the baseline scores 0")]
    health = [
        Finding(
            finding="No recovery: the baseline scores 0.", severity="blocker", where="[odd]", advice="Use more items."
        ),
        Finding(finding="No recovery at all.", severity="blocker", where="other", advice="Use more items."),
    ]
    return printed(Comparison(schema=1, run="r", tasks=rows, averages=[], health=health, verdict=None))


def test_fits_80_columns(shown: str):
    assert max(map(len, shown.splitlines())) <= 80


def test_says_scores_recovery_and_flips(shown: str):
    assert "100.00\n" in shown.replace(" \n", "\n") and "50.00 ± 1.00" in shown and "99.96" in shown
    assert "[odd]" in shown, "names are no mark-up"


def test_answers_that_are_neither_right_nor_wrong_are_counted_beside_the_score():
    counts = {"correct": 50, "wrong": 7, "no_answer": 3, "truncated": 40, "error": 0}
    long = row("a_task_with_a_rather_long_name_indeed_and_more", 99.5)
    cut = long.compressed[0].model_copy(update={"outcomes": counts})
    sound = long.baseline.model_copy(update={"outcomes": {**dict.fromkeys(counts, 0), "correct": 100}})
    long = long.model_copy(update={"baseline": sound, "compressed": [cut]})
    text = printed(Comparison(schema=1, run="r", tasks=[long], averages=[], health=[], verdict=None))
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()
    model = next(i for i, line in enumerate(lines) if "w8a8" in line)
    end = lines[model].index("50.00 ± 1.00") + len("50.00 ± 1.00")
    score_column = [line[:end].split("  ")[-1].strip() for line in lines[model : model + 3]]
    assert score_column == ["50.00 ± 1.00", "3 no answer", "40 truncated"]
    assert "error" not in text and text.count("no answer") == 1


def test_a_reason_is_said_once_and_advice_once(shown: str):
    assert shown.count("the baseline scores 0") == 1
    assert shown.count("Use more items.") == 1


def test_a_finding_comes_before_its_advice_and_no_line_ends_in_blanks(shown: str):
    lines = shown.splitlines()
    first = lines.index("blocker: [odd]: No recovery: the baseline scores 0.")
    assert lines[first + 1 : first + 3] == ["blocker: other: No recovery at all.", "  Use more items."]
    assert [line for line in lines if line != line.rstrip()] == []


def test_wrapped_lines_are_indented():
    long = "No recovery: " + "the baseline is not shown to be above chance " * 3
    finding = Finding(finding=long, severity="warning", where="task", advice="Use an easier task. " * 6)
    text = printed(Comparison(schema=1, run="r", tasks=[], averages=[], health=[finding], verdict=None))
    told = text.splitlines()[text.splitlines().index(next(s for s in text.splitlines() if s.startswith("warning"))) :]
    assert len(told) > 4 and all(line.startswith("  ") for line in told[1:-1]) and told[-1].startswith("Card:")
    assert max(map(len, told)) <= 80 and [line for line in told if line != line.rstrip()] == []


def test_items_that_were_answered_several_times_show_their_repeats_and_pass_at_k():
    facts = {"name": "a_task_with_a_rather_long_name_indeed", "source": "file", "version": "1", "metric": "acc",
             "filter": "none", "category": "c", "chance": 0.0, "higher_is_better": True, "num_fewshot": 0,
             "repeats": 64, "decoding": "sampled", "chat_template": False, "items_total": 1319,
             "items_selected": 1319, "selection": "all"}  # fmt: skip
    task = TaskRecord.model_validate(facts)
    long = row(task.name, 99.5).model_copy(update={"n": 1319})
    passes = [0.5 + k / 200 for k in range(64)]
    baseline = long.baseline.model_copy(update={"pass_at": passes})
    compressed = long.compressed[0].model_copy(update={"pass_at": passes[:-1]})
    long = long.model_copy(update={"baseline": baseline, "compressed": [compressed]})
    run = run_record().model_copy(update={"tasks": [task]})
    out = io.StringIO()
    shown = Comparison(schema=1, run="r", tasks=[long], averages=[], health=[], verdict=None)
    print_outcome(Outcome(run, shown, Path("README.md")), Console(file=out, width=80))
    text = out.getvalue()
    assert "1319 x 64" in text and "pass@64 81.50" in text and "pass@63 81.00" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_comparison_has_all_but_the_card(shown: str):
    rows = [row("gsm8k", 99.96)]
    health = [Finding(finding="A subset.", severity="note", where="gsm8k", advice="Run them all.")]
    comparison = Comparison(schema=1, run="r", tasks=rows, averages=[], health=health, verdict=None)
    out = io.StringIO()
    print_comparison(run_record(), comparison, Console(file=out, width=80))
    assert printed(comparison) == f"{out.getvalue()}Card: results/r/README.md\n"
    assert "note: gsm8k: A subset.\n  Run them all.\n" in out.getvalue()


def test_a_row_that_stopped_early_shows_how_many_items_it_used():
    ended = SequentialRecord(row="gsm8k", limit=95.0, confidence=0.95, items=1319, used=224, decision="PASS",
                             low=95.2, high=101.75)  # fmt: skip
    early = row("gsm8k_a_rather_long_name_indeed", 98.5)
    one = early.compressed[0].model_copy(
        update={"sequential": ended, "recovery": RecoveryRecord(value=98.5, low=95.2, high=101.75), "mcnemar_p": None}
    )
    text = printed(
        Comparison(schema=1, run="r", tasks=[early.model_copy(update={"compressed": [one], "n": 224})], averages=[],
                   health=[], verdict=None)
    )  # fmt: skip
    line = next(line for line in text.splitlines() if "w8a8" in line)
    assert "224/1319" in line and "98.50" in line and "[95.20, 101.75]" in text
    assert max(map(len, text.splitlines())) <= 80


def test_averages_come_after_their_rows_and_the_overall_average_last():
    average = {"metric": "average", "n": 2}
    rows = [row("b", 99.0), row("a", 98.0).model_copy(update={"category": "Maths"}), row("c", 97.0)]
    knowledge = row("Knowledge", 98.1).model_copy(update=average)
    overall = row(OVERALL, 98.2).model_copy(update={**average, "category": OVERALL})
    text = printed(
        Comparison(schema=1, run="r", tasks=rows, averages=[knowledge], overall=overall, health=[], verdict=None)
    )
    names = [line.split("  ")[0].strip() for line in text.splitlines() if "baseline" in line]
    assert [name.split()[0] for name in names] == ["b", "c", "average", "a", "overall"]
    for name in ("average of", "Knowledge", "overall", "average"):
        assert name in text


def widths(title: str, slug: str, width: int) -> list[str]:
    """Lines of the table of one task and one compressed model, both with an interval."""
    made = row(title, 99.96)
    found = RecoveryRecord(value=98.38, low=95.63, high=100.52)
    made = made.model_copy(update={"compressed": [made.compressed[0].model_copy(update={"recovery": found})]})
    run = run_record()
    run = run.model_copy(update={"models": [model(slug, "baseline", None), run.models[1]]})
    out = io.StringIO()
    shown = Comparison(schema=1, run="r", tasks=[made], averages=[], health=[], verdict=None)
    print_comparison(run, shown, Console(file=out, width=width))
    return out.getvalue().splitlines()


def test_a_name_is_broken_only_where_the_figures_leave_no_room_for_it():
    """The baseline's own name stands in no line, so it takes no room, as figures take only theirs."""
    whole = widths("demo_knowledge", "a-baseline-with-a-long-name", 80)
    needed = max(map(len, whole))
    assert any(line.startswith("demo_knowledge ") for line in whole) and needed < 80
    assert widths("demo_knowledge", "m", needed) == whole
    assert not any("demo_knowledge" in line for line in widths("demo_knowledge", "m", needed - 1))


def test_a_task_as_long_as_the_room_is_whole_at_80_columns():
    longest = 80 - max(map(len, widths("m", "m", 80))) + len("Task")
    for title in ("t" * longest, "demo_" + "t" * (longest - 5)):
        lines = widths(title, "m", 80)
        assert any(line.startswith(f"{title} ") for line in lines) and max(map(len, lines)) == 80
