"""What is said of a run as a whole."""

from evalcard.compare.comparison import compare_run
from evalcard.results.records import RescoreRecord, SequentialRecord


def test_worked_examples_that_were_left_out(case, flips, told):
    case.add("gsm8k", *flips(50, 30, 0, 0), num_fewshot=5)
    for slug in case.slugs:
        samples = case.samples[slug]["gsm8k"]
        for item, shots in ((3, 4), (7, 2), (8, 4)):
            samples[item] = samples[item].model_copy(update={"shots": shots})
    assert told(case.compare()) == {"note: gsm8k": "6.0 % (3 of 50) of prompts hold 2 to 4 of 5 worked examples."}


def test_a_subset_is_named(case, flips, told):
    case.add("gsm8k", *flips(200, 128, 0, 0), items_total=1319, selection="first 200")
    assert told(case.compare()) == {"note: gsm8k": "A subset of 200 of 1319 items was evaluated (first 200)."}


def test_a_subset_is_one_of_the_whole_row(case, flips, told):
    """Tasks of which no item was drawn have left it."""
    case.add("mmlu", *flips(200, 128, 0, 0), selection="seeded, 200 of the row's 14042")
    case.rows[0] = case.rows[0].model_copy(update={"items_total": 14042})
    (text,) = told(case.compare()).values()
    assert text == "A subset of 200 of 14042 items was evaluated (seeded, 200 of the row's 14042)."


def test_a_model_beside_itself_is_noted(case, flips, told):
    case.digests = {"base": "same", "small": "same"}
    run = case.add("arc", *flips(10, 8, 0, 0)).run()
    assert told(case.compare()) == {}  # the same weights under a scheme are another model
    models = [model.model_copy(update={"scheme": None}) for model in run.models]
    comparison = compare_run(run.model_copy(update={"models": models}), case.verdicts, case.samples)
    assert list(told(comparison)) == ["note: small"]


def test_documents_that_changed_since_they_were_answered(case, flips, told):
    case.add("arc", *flips(100, 70, 3, 2))
    how = RescoreRecord(command=["evalcard", "rescore", "r"], judges={}, changed_items={"arc": [3, 7]})
    comparison = compare_run(case.run().model_copy(update={"rescored": how}), case.verdicts, case.samples)
    said = "The documents of 2 of 100 items changed after they were answered; what they say now is what counts."
    assert told(comparison) == {"note: arc": said}


def sequential(used: int, items: int = 1319) -> SequentialRecord:
    return SequentialRecord(
        row="gsm8k", limit=95.0, confidence=0.95, items=items, used=used, decision="PASS", low=96.0, high=104.0
    )


def test_a_run_that_stopped_early_says_so_instead_of_a_subset(case, flips):
    case.add("gsm8k", *flips(224, 200, 0, 0), items_total=1319, selection="seeded")
    case.add("arc", *flips(100, 70, 0, 0), items_total=200, selection="first 100")
    run = case.run().model_copy(update={"sequential": [sequential(224)]})
    found = {one.row: one for one in compare_run(run, case.verdicts, case.samples).health}
    assert found["gsm8k"].finding == (
        "Stopped early: 224 of 1319 items were used, in a seeded order; the interval is of this full set and stays "
        "valid whenever one looks."
    )
    assert (found["gsm8k"].severity, found["gsm8k"].model) == ("note", None)
    assert found["arc"].finding.startswith("A subset of 100 of 200 items") and len(found) == 2


def test_a_sequential_run_to_the_end_is_exact(case, flips, told):
    case.add("gsm8k", *flips(1319, 1000, 0, 0))
    run = case.run().model_copy(update={"sequential": [sequential(1319)]})
    (text,) = told(compare_run(run, case.verdicts, case.samples)).values()
    assert "1319 of 1319" in text and text.endswith("the recovery of this full set is exact.")
