"""The list of our own tasks says what building them says."""

import subprocess
import sys
from pathlib import Path

from evalcard.tasks.data.roots import data_roots
from evalcard.tasks.describe import describe
from evalcard.tasks.files.catalog import our_catalog
from evalcard.tasks.overview import list_ours


def test_every_name_of_ours_has_a_line():
    listed = list_ours(data_roots(None))
    assert [one.name for one in listed] == sorted([*our_catalog(), "gsm8k"])
    assert all(one.num_tasks >= 1 and one.scored for one in listed)


def test_the_best_known_of_the_harness_is_listed_too():
    gsm8k = {one.name: one for one in list_ours([])}["gsm8k"]
    assert (gsm8k.num_tasks, gsm8k.shots) == (1, "5")
    assert gsm8k.scored == "exact_match (strict-match, flexible-extract)"


def test_lines_agree_with_what_is_built():
    lines = {one.name: one for one in list_ours(data_roots(None))}
    for name in ("demo", "demo_words", "demo_maths"):
        tasks = describe([name]).tasks
        assert lines[name].num_tasks == len(tasks)
        assert lines[name].items == sum(task.documents for task in tasks)
        assert lines[name].shots == "-".join(str(shots) for shots in dict.fromkeys(task.num_fewshot for task in tasks))


def test_what_groups_state_holds_for_their_tasks():
    """Shots and judges that stand in our group's file, over tasks of the harness's."""
    lines = {one.name: one for one in list_ours(data_roots(None))}
    assert (lines["mmlu"].num_tasks, lines["mmlu"].shots, lines["mmlu"].scored) == (57, "5", "likeliest choice")
    assert (lines["mmlu_generative"].num_tasks, lines["mmlu_generative"].scored) == (57, "judge choice")
    assert lines["math500"].scored == "judge math"


def test_items_are_counted_where_the_data_lies_here(tmp_path: Path):
    assert {one.name: one.items for one in list_ours([])}["math500"] is None
    folder = tmp_path / "HuggingFaceH4" / "MATH-500"
    folder.mkdir(parents=True)
    (folder / "test.jsonl").write_text('{"problem": "p"}\n\n{"problem": "q"}\n')
    assert {one.name: one.items for one in list_ours([tmp_path])}["math500"] == 2


def test_it_is_light():
    code = "import sys; from evalcard.tasks.overview import list_ours; list_ours([]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "lm_eval", "transformers", "datasets", "pandas"} & set(done.stdout.split())
