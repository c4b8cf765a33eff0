"""Templates against golden files, and the files that a run's cards are.

EVALCARD_UPDATE_GOLDEN=1 writes the golden files anew; read the difference before it is kept.
"""

import os
import re
from pathlib import Path

import pytest
import yaml
from jinja2 import UndefinedError

from evalcard.card.options import CardOptions
from evalcard.card.render import escape_cell, join_words, make_environment, write_cards
from evalcard.card.section import BEGIN, END, marked_lines, section_of
from evalcard.errors import UserError
from evalcard.gate.judge import judge, with_verdict
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.resources import card_templates
from evalcard.results.compared import Finding
from evalcard.results.files import encode_record
from evalcard.results.records import RescoreRecord, RowRecord
from evalcard.results.store import RunFolder

GOLDEN = Path(__file__).parent / "golden"


def written(folder: Path, case) -> tuple[list[str], str]:
    """Paths of all files of the cards, below the run, and the text of its README.md."""
    with RunFolder.open(folder, "run") as run_folder:
        paths = write_cards(run_folder, *case)
        return [path.relative_to(run_folder.path).as_posix() for path in paths], paths[0].read_text(encoding="utf-8")


def check_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("EVALCARD_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_one_compressed_model(make_case, tmp_path):
    paths, text = written(tmp_path, make_case())
    drawn = [
        f"models/toy-1b-w8a8/figures/{name}{how}.png"
        for name in ("recovery", "scores", "flips")
        for how in ("", "-dark")
    ]
    assert paths == ["README.md", "models/toy-1b-w8a8/README.md", *drawn]
    card = (tmp_path / "run" / paths[1]).read_text(encoding="utf-8")
    assert text == card.replace("](figures/", "](models/toy-1b-w8a8/figures/") != card
    check_golden("card.md", card)


def test_a_sound_run_with_a_gate(make_case, tmp_path):
    run, _ = make_case()
    run, comparison = make_case(rows=run.rows[:3])
    spec = GateSpec(
        every=Bounds(min_recovery=80),
        tasks={"facts": Bounds(min_recovery=96)},
        averages={"knowledge": Bounds(max_drop=5)},
        overall=Bounds(min_score=90),
    )
    judged = with_verdict(comparison, judge(comparison, spec, run))
    check_golden("card-gate.md", written(tmp_path, (run, judged))[1])


def test_repeated_and_judged_answers(reasoning_case, tmp_path):
    check_golden("card-reasoning.md", written(tmp_path, reasoning_case)[1])


def test_a_run_that_stopped_early(sequential_case, tmp_path):
    paths, text = written(tmp_path, sequential_case)
    assert paths == ["README.md", "models/toy-1b-w8a8/README.md"], "no figure"
    assert "model-index" not in text and "![" not in text
    check_golden("card-sequential.md", text)


def test_several_compressed_models(make_case, tmp_path):
    run, comparison = make_case(2)
    judged = with_verdict(comparison, judge(comparison, GateSpec()))
    paths, text = written(tmp_path, (run, judged))
    assert len(paths) == 3 + 2 * 6 + 2 and {"figures/frontier.png", "figures/frontier-dark.png"} <= {*paths}
    for link in re.findall(r"\]\((models/[^)]+)\)", text):
        assert (tmp_path / "run" / link).is_file()
    check_golden("index.md", text)


def test_a_baseline_alone(make_case, tmp_path):
    paths, text = written(tmp_path, make_case(0))
    assert paths == ["README.md"]
    check_golden("index-baseline.md", text)


def test_an_index_without_sizes_has_no_figure(make_case, tmp_path):
    run, comparison = make_case(2)
    models = [model.model_copy(update={"weight_bytes": None}) for model in run.models]
    paths, text = written(tmp_path, (run.model_copy(update={"models": models}), comparison))
    assert "figures/frontier.png" not in paths and "![" not in text


def test_a_run_without_results(make_case, tmp_path):
    paths, text = written(tmp_path, make_case(1, rows=[], tasks=[]))
    assert paths == ["README.md", "models/toy-1b-w8a8/README.md"]
    assert "No task has results." in text and "![" not in text and "model-index" not in text


def test_local_models_and_unknown_sizes(make_case, tmp_path):
    run, comparison = make_case()
    bare = {"hub_id": None, "revision": None, "name": "toy", "bits_per_weight": None, "weight_bytes": None,
            "num_parameters": None, "numerics": None}  # fmt: skip
    models = [model.model_copy(update=bare) for model in run.models]
    run = run.model_copy(update={"models": models, "git": None, "versions": {}, "hardware": {}, "command": []})
    _, text = written(tmp_path, (run, comparison))
    assert "`toy` (a local folder)" in text
    assert "None" not in text and "huggingface.co" not in text and "base_model" not in text


def test_every_printed_recovery_follows_from_the_printed_scores(make_case, tmp_path):
    _, text = written(tmp_path, make_case())
    lines = [line.replace("\u00a0", " ") for line in text.splitlines() if "±" in line and "|" in line]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines if "overall" not in line]
    checked = 0
    for _, name, *columns in cells:
        baseline, compressed, recovery = columns[0 if "all 4 tasks" in name else 1 :][:3]
        base, comp = (float(score.split(" ±")[0]) for score in (baseline, compressed))
        if "%" in recovery:
            half = 0.005
            slack = half + 100 * half * (1 / base + comp / base**2)
            value, _, interval = recovery.partition(" % ")
            assert abs(float(value) - 100 * comp / base) <= slack * 1.001
            low, high = map(float, interval.strip("[]").split(", "))
            assert low < float(value) < high
            checked += 1
    assert checked == 4


def test_no_path_of_this_machine(make_case, tmp_path):
    _, text = written(tmp_path, make_case())
    assert not re.search(r"secret|someone|/mnt|/home", text) and "--data-root data" in text


def test_tables_are_tables(make_case, reasoning_case, tmp_path):
    """Every block of table lines has a header, a rule and equally many cells; no line is left empty in between."""
    _, reasoning = written(tmp_path / "reasoning", reasoning_case)
    for count in (0, 1, 2):
        _, text = written(tmp_path / str(count), make_case(count))
        blocks = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
        assert blocks
        for block in blocks + re.findall(r"(?:^\|.*\n)+", reasoning, flags=re.MULTILINE):
            lines = block.splitlines()
            assert len(lines) >= 3 and re.fullmatch(r"(\|-+:?|\|-+)+\|", lines[1]), block
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, block


def test_the_whole_card_is_read_by_the_hub_client(make_case, tmp_path):
    from huggingface_hub import ModelCard

    run, _ = make_case()
    _, text = written(tmp_path, make_case(rows=run.rows[:3]))
    card = ModelCard(text)
    assert len(card.data.eval_results) == 3 and card.text.lstrip().startswith("# toy-1b w8a8")


def test_an_undefined_name_stops_the_rendering():
    environment = make_environment(card_templates())
    with pytest.raises(UndefinedError):
        environment.get_template("card.md.j2").render(front="")


def test_cells_keep_to_themselves():
    assert escape_cell("a|b\nc <x> *y* \\") == "a\\|b c &lt;x> \\*y\\* \\\\"


def test_lists_of_words():
    assert [join_words(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


@pytest.mark.parametrize("kept", [0, 1])
def test_an_incomplete_run_with_an_older_comparison_is_refused(make_case, tmp_path, kept):
    run, comparison = make_case()
    with pytest.raises(UserError, match="incomplete.*toy-1b-w8a8"):
        written(tmp_path, (run.model_copy(update={"models": run.models[:kept]}), comparison))


@pytest.mark.parametrize("num_compressed", [1, 2])
def test_a_rescored_run_says_both_commands(make_case, tmp_path, num_compressed):
    command = ["evalcard", "rescore", "arc-0a1b2c3d", "--judge", "sums=number", "--accept-changed-items"]
    how = RescoreRecord(command=command, judges={"sums": "number", "arc": "choice"}, changed_items={"sums": [4]})
    _, text = written(tmp_path, make_case(num_compressed, rescored=how))
    _, block, after = text.partition("## Reproduce")[2].split("```")
    assert block.splitlines()[-3:] == [
        "evalcard rescore arc-0a1b2c3d \\",
        "    --judge sums=number \\",
        "    --accept-changed-items",
    ]
    assert "data\nevalcard rescore" in block
    said = (
        "The second command graded the stored answers again, without a model: `sums` by the judge `number` and `arc` "
        "by the judge `choice`. 1 item of `sums` was graded by a document that had changed since it was answered."
    )
    assert said in after.strip().splitlines()[0]


def test_figures_that_belong_together_stay_on_one_line(make_case, tmp_path):
    """Nothing between a recovery and the end of its interval lets a renderer break the line."""
    _, text = written(tmp_path, make_case())
    rows = [line for line in text.splitlines() if line.startswith("|") and "[" in line]
    assert len(rows) >= 8
    for line in rows:
        assert not re.search(r"(%|[+-]?\d\.\d\d) \[|\d, \d| ± ", line), line


def test_a_p_that_is_a_dash_is_explained_only_where_it_occurs(make_case, reasoning_case, tmp_path):
    assert "dash where items were answered several times" in written(tmp_path / "a", reasoning_case)[1]
    assert "answered several times" not in written(tmp_path / "b", make_case())[1]


HOSTILE = [
    "{{7*7}}", "</script><img src=x onerror=alert(1)>", "a|b", "$$x$$", "nul\x00l", "\u202ertl", "---", "`tick",
    "- x\n---\n# y", "<!-- evalcard:end -->",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("num_compressed", [1, 2])
def test_names_of_any_kind_stay_names(make_case, tmp_path, monkeypatch, name, num_compressed):
    """In title, tables, findings, settings and front matter of the card and of the index."""
    from markdown_it import MarkdownIt

    # What they draw has tests of its own, and takes seconds.
    monkeypatch.setattr("evalcard.card.render.figures_of", lambda *_: [])
    monkeypatch.setattr("evalcard.card.render.frontier_figure", lambda *_: None)
    run, plain_comparison = make_case(num_compressed)
    words = {"name": name, "scheme_title": name, "numerics": name, "hub_id": None, "revision": name}
    models = [model.model_copy(update=words) for model in run.models]
    tasks = [
        run.tasks[0].model_copy(update={"name": name, "version": name, "decoding": name, "category": name}),
        run.tasks[2],
    ]
    rows = [RowRecord(name=task.name, tasks=[task.name], rule="task") for task in tasks]
    run = run.model_copy(
        update={"models": models, "tasks": tasks, "rows": rows, "hardware": {"cpu": name}, "name": name}
    )
    finding = Finding(finding=f"See {name} and `{name}`.", severity="warning", where=name, advice=name)
    named = [
        row.model_copy(update={"task": name, "tasks": [name], "category": name}) if row.task == "arc" else row
        for row in plain_comparison.tasks
        if row.task in ("arc", "sums")
    ]
    changes = {"tasks": named, "averages": [], "overall": None, "health": [finding]}
    _, text = written(tmp_path, (run, plain_comparison.model_copy(update=changes)))
    for page in (tmp_path / "run").rglob("README.md"):
        text = page.read_text(encoding="utf-8")
        front = yaml.safe_load(text.split("\n---\n")[0].removeprefix("---\n"))
        assert front["library_name"] == "transformers" and front["tags"][0] == "evalcard"
        assert "$$" not in text.split("\n---\n", 1)[1] and "\x00" not in text and "\u202e" not in text
        assert marked_lines(text) == ([], []) or section_of(text)
        body = text.split("\n---\n", 1)[1]
        html = MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
        assert html.count("<h1>") == 1 and "<hr" not in html and "<script" not in html
        assert not re.search(r"<img(?! src=\"(models/[^\"]+/)?figures/)", html)
        for block in re.findall(r"(?:^\|.*\n)+", body, flags=re.MULTILINE):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block


def test_a_run_without_an_end_says_so(make_case, tmp_path):
    run, _ = make_case()
    resolved = run.resolved | {
        "baseline": {"source": "acme/toy-1b", "scheme": None},
        "compressed": [{"source": "acme/toy-1b", "scheme": "w8a8"}, {"source": "/home/me/toy-gptq", "scheme": None}],
    }
    paths, text = written(tmp_path, make_case(rows=run.rows[:3], resolved=resolved, finished=None))
    assert (
        "**This run did not come to its end.** All answers are there of `toy-1b` and `toy-1b w8a8`; "
        "answers are missing of `toy-gptq`." in text
    )
    assert "model-index" not in text and "/home/me" not in text and "## Accuracy" in text


@pytest.mark.parametrize("num_models", [0, 1])
def test_a_run_without_a_compressed_model_yet(make_case, tmp_path, num_models):
    run, comparison = make_case(0, finished=None)
    run = run.model_copy(update={"models": run.models[:num_models]})
    if not num_models:
        comparison = comparison.model_copy(update={"tasks": [], "averages": [], "overall": None, "health": []})
    paths, text = written(tmp_path, (run, comparison))
    assert paths == ["README.md"] and "did not come to its end" in text and "model-index" not in text
    assert ("No model has all of its answers" in text) == (num_models == 0)


def test_the_users_notes_are_in_the_section_as_they_are(make_case, tmp_path):
    notes = "### Mine\n\n| a | b |\n|---|---|\n| *x* | {{ y }} |\n"
    with RunFolder.open(tmp_path, "run") as folder:
        (folder.path / "notes.md").write_text(notes, encoding="utf-8")
        top, *_ = write_cards(folder, *make_case())
    _, section, _ = re.split(r"<!-- evalcard:(?:begin|end) -->", top.read_text(encoding="utf-8"))
    assert notes in section and section.count("## Notes\n") == 1


def test_the_marks_are_those_that_are_published(make_case, tmp_path):
    _, text = written(tmp_path, make_case())
    assert section_of(text) == text[text.index(BEGIN) : text.index(END) + len(END)]
    assert text.index("# toy-1b") < text.index(BEGIN)


def test_what_is_kept_with_the_run_is_rendered_again(make_case, tmp_path):
    """By whoever renders it: the run itself, the gate, a new grading."""
    with RunFolder.open(tmp_path, "run") as folder:
        folder.write_bytes(
            "card.json",
            encode_record(CardOptions(license="mit", template="{{ card.terms.license }}", template_name="t")),
        )
        top, *_ = write_cards(folder, *make_case())
    assert top.read_text(encoding="utf-8") == "mit\n"


def test_own_cards_are_sound(make_case, tmp_path):
    """Nothing that would be refused, and every printed recovery follows."""
    from evalcard.card.check.check import check_card

    run, _ = make_case()
    options = CardOptions(license="apache-2.0", language=["en"])
    with RunFolder.open(tmp_path, "run") as folder:
        paths = write_cards(folder, *make_case(rows=run.rows[:3]), options)
        card = next(path for path in paths if path.parent.name == "toy-1b-w8a8")
        files = {
            path.relative_to(card.parent).as_posix(): path.read_bytes() for path in paths if card.parent in path.parents
        }
    assert [str(one) for one in check_card(card.read_text(encoding="utf-8"), files=files, own=True)] == []
