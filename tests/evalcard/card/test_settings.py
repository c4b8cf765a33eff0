"""How a run was made, as its card says it."""

import pytest

from evalcard.card.options import CardOptions
from evalcard.card.render import write_cards
from evalcard.card.settings import row_settings, settings_of
from evalcard.results.records import RescoreRecord, RowRecord
from evalcard.results.store import RunFolder


def test_the_judge_and_the_subset_are_said(reasoning_case):
    run, comparison = reasoning_case
    judged, own = (row_settings(run, row) for row in comparison.tasks)
    assert (judged.judge, judged.selection) == ("math", "all 30")
    assert (own.judge, own.selection) == ("task's own", "200 of 1319 (seeded)")


def test_a_seeded_subset_is_not_said_to_be_of_each_task(make_case):
    run, comparison = make_case(rows=[RowRecord(name="both", tasks=["arc", "facts"], rule="size")])
    for how, said in (("seeded", "(seeded)"), ("first 50", "(first 50 of each task)")):
        tasks = [t.model_copy(update={"items_total": 900, "selection": how}) for t in run.tasks]
        told = row_settings(run.model_copy(update={"tasks": tasks}), comparison.tasks[0]).selection
        assert told == f"320 of 1800 {said}"


def test_a_chat_template_that_prints_a_date_says_which(reasoning_case):
    run, comparison = reasoning_case
    tasks = [run.tasks[0].model_copy(update={"template_date": "2024-07-26"}), run.tasks[1]]
    told = [row_settings(run.model_copy(update={"tasks": tasks}), row).chat_template for row in comparison.tasks]
    assert told == ["yes, dated 2024-07-26", "no"]


def test_what_was_set_away_from_the_default(make_case):
    given = {
        "dtype": "float32",
        "device": "auto",
        "chat_template_args": {"enable_thinking": "false"},
        "drop_shots": True,
        "fewshot_as_multiturn": None,
        "system": "Be brief. See /mnt/secret/rules.",
    }
    run, _ = make_case(resolved=given)
    assert settings_of(run, run.models).facts == (
        ("dtype", "float32"),
        ("system prompt", "Be brief. See rules."),
        ("chat template arguments", "enable_thinking=false"),
        ("examples left out where a prompt would not fit", "yes"),
    )
    plain, _ = make_case(resolved={"chat_template_args": {}, "drop_shots": False, "fewshot_as_multiturn": None})
    assert settings_of(plain, plain.models).facts == ()


def test_a_rescoring_is_a_second_command(make_case):
    judge = r"regex=the answer is /a/b/(\d+)"
    command = ["evalcard", "rescore", "arc-0a1b2c3d", "--judge", f"sums={judge}", "--data-root", "/mnt/secret/data"]
    how = RescoreRecord(command=command, judges={"sums": judge}, changed_items={"arc": [1, 2]})
    run, _ = make_case(rescored=how)
    told = settings_of(run, run.models).rescored
    assert told.command.splitlines() == [
        "evalcard rescore arc-0a1b2c3d \\",
        f"    --judge 'sums={judge}' \\",
        "    --data-root data",
    ]
    assert (told.judges, told.changed) == ((("sums", judge),), (("arc", 2),))
    plain, _ = make_case()
    assert settings_of(plain, plain.models).rescored is None


def test_a_row_that_stopped_early_does_not_say_that_all_items_were_asked(sequential_case):
    run, comparison = sequential_case
    assert [row_settings(run, row).selection for row in comparison.tasks] == [
        f"{items} (in random order, until the gate was decided)" for items in ("200 of 1172", "120 of 120", "40 of 500")
    ]
    untold = run.model_copy(update={"sequential": []})
    assert row_settings(untold, comparison.tasks[0]).selection == "all 1172"
    part = [task.model_copy(update={"items_total": 3000, "selection": "seeded"}) for task in run.tasks]
    assert row_settings(run.model_copy(update={"tasks": part}), comparison.tasks[0]).selection == (
        "200 of 1172 (in random order, until the gate was decided); the set: 1172 of 3000 (seeded)"
    )


def test_a_stopped_runs_items_are_those_of_the_set_and_told_once(sequential_case):
    """A run that stopped counts as selected what it used."""
    run, comparison = sequential_case
    used = {one.row: one for one in run.sequential}
    rows = {name: row.name for row in run.rows for name in row.tasks}
    tasks = [
        task.model_copy(
            update={"items_total": used[rows[task.name]].items, "items_selected": used[rows[task.name]].used,
                    "selection": f"seeded order, stopped after {used[rows[task.name]].used} of some"}
        )
        for task in run.tasks
        if rows[task.name] in used
    ]  # fmt: skip
    stopped = run.model_copy(update={"tasks": tasks})
    told = row_settings(stopped, comparison.tasks[0]).selection
    assert told == "200 of 1172 (in random order, until the gate was decided)"


def test_flags_that_measure_nothing_are_not_part_of_the_command(make_case):
    command = ["evalcard", "run", "--limit", "40", "-q", "--json", "--seed", "7", "--quiet"]
    run, _ = make_case(command=command)
    assert settings_of(run, run.models).command == "evalcard run \\\n    --limit 40 \\\n    --seed 7"


def test_equal_numerics_are_said_of_so_many_models_as_there_are(make_case):
    run, _ = make_case()
    models = [run.models[0].model_copy(update={"numerics": "fp32"})] * 3
    said = [settings_of(run, models[:count]).numerics for count in (1, 2, 3)]
    assert said == [(("baseline", "fp32"),), (("both models", "fp32"),), (("all models", "fp32"),)]


def test_numerics_of_several_models_are_told_apart(make_case):
    run, _ = make_case(2)
    given = [*run.models, run.models[2].model_copy(update={"slug": "third", "scheme": None})]
    numerics = ["fp32", "int8", "int8", "fp8"]
    models = [one.model_copy(update={"numerics": told}) for one, told in zip(given, numerics, strict=True)]
    (baseline, ours), *others = settings_of(run, models).numerics
    assert (baseline, ours) == ("baseline", "fp32") and [told for _, told in others] == ["int8", "fp8"]
    assert len({who for who, _ in others}) == 2 and " and " in others[0][0]
    assert not settings_of(run, models).is_exact
    pair = settings_of(run, models[:2]).numerics
    assert [who for who, _ in pair] == ["baseline", "compressed"]


@pytest.mark.parametrize(
    ("backend", "told", "is_exact"),
    [
        ("evalcard", ["rows exact", "rows exact; w8a8 as int8 product"], True),
        ("evalcard", ["rows exact", "rows inexact"], False),
        ("evalcard", ["rows exact", None], False),
        ("vllm", ["rows exact", "rows exact"], False),
    ],
)
def test_the_same_answers_are_promised_where_the_engine_promises_them(make_case, tmp_path, backend, told, is_exact):
    run, comparison = make_case(resolved={"backend": backend})
    models = [one.model_copy(update={"numerics": f"float32; {line}" if line else None})
              for one, line in zip(run.models, told, strict=True)]  # fmt: skip
    run = run.model_copy(update={"models": models})
    assert settings_of(run, models).is_exact == is_exact
    with RunFolder.open(tmp_path, "run") as folder:
        text = write_cards(folder, run, comparison, CardOptions())[0].read_text(encoding="utf-8")
    method, _, reproduce = text.partition("## Reproduce")
    assert ("**Exactness:**" in method) == is_exact
    # The lines themselves are for who measures again.
    assert "float32; rows" not in method and "float32; rows exact" in reproduce
