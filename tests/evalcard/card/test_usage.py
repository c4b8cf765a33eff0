"""Which of a run's tasks the command of a card names, and when a card says nothing of how its model is used."""

import pytest

from evalcard.card.environment import card_environment
from evalcard.card.options import CardOptions
from evalcard.card.usage import usage_of
from evalcard.card.view import card_view
from evalcard.results.records import RowRecord, SourceRecord


def checkpoint(case, config=None):
    """The case with a compressed model that is files on the Hub."""
    run, comparison = case
    facts = {"scheme": None, "hub_id": "acme/toy-w8a8", "name": "acme/toy-w8a8", "config": config}
    return run.model_copy(update={"models": [run.models[0], run.models[1].model_copy(update=facts)]}), comparison


def stored(case, tasks, program="lm_eval", run=None, **resolved):
    """The case as a comparison of stored results, with tasks of these (name, source)."""
    sources = {model.slug: SourceRecord(program=program, run=run) for model in case[0].models}
    own = [one.model_copy(update={"source": source, "name": name})
           for one, (name, source) in zip(case[0].tasks, tasks, strict=False)]  # fmt: skip
    rows = [RowRecord(name=name, tasks=[name], rule="task") for name, _ in tasks]
    return case[0].model_copy(update={"sources": sources, "tasks": own, "rows": rows, "resolved": resolved})


@pytest.mark.parametrize(
    ("run", "tasks", "named"),
    [
        (None, [("sciq", "lm_eval")], None),
        (None, [("mine", "file"), ("arc", "evalcard")], "arc"),
        ("arc-1", [("mine", "file"), ("sciq", "lm_eval")], "lm_eval/sciq"),
        ("arc-1", [("mine", "file")], None),
    ],
)
def test_the_command_names_only_a_measured_task_that_evalcard_has(make_case, run, tasks, named):
    case = checkpoint(make_case())
    own = stored(case, tasks, run=run)
    command = usage_of(own, own.models[1], CardOptions()).command
    assert command == (f"evalcard run --baseline acme/toy-w8a8@0123abc --tasks {named} --limit 100" if named else None)


def test_a_task_file_of_the_users_is_not_named_by_its_bare_name(make_case):
    run, _ = checkpoint(make_case())
    tasks = [run.tasks[0].model_copy(update={"source": "file"}), *run.tasks[1:]]
    run = run.model_copy(update={"tasks": tasks, "resolved": {"tasks": ["arc", "facts"]}})
    assert "--tasks facts " in (usage_of(run, run.models[1], CardOptions()).command or "")


def test_of_a_model_that_is_opened_in_no_known_way_there_is_no_use(make_case):
    case = checkpoint(make_case())
    run = stored(case, [("sciq", "lm_eval")])
    view = card_view(run, case[1].model_copy(update={"tasks": []}), "toy-1b-w8a8", CardOptions(repo="me/x"))
    usage = card_environment().get_template("usage.md.j2").module.usage
    assert usage(view).strip() == ""
    own = stored(case, [("arc", "evalcard")])
    view = card_view(own, case[1].model_copy(update={"tasks": []}), "toy-1b-w8a8", CardOptions(repo="me/x"))
    assert "--baseline me/x --tasks arc " in usage(view) and "transformers" not in usage(view)
