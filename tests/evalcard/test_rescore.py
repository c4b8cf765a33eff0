"""New verdicts on stored answers: the same where nothing changed, told where something did, answers never touched."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.backends.backend import ChoiceAnswer, GenerateRequest, Identity, ItemAnswer
from evalcard.card.hub.local import read_card
from evalcard.cli.main import invoke
from evalcard.compare.changes import Changes
from evalcard.errors import ComparisonRefused, UserError
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.plan import plan_run
from evalcard.progress import Silent
from evalcard.rescore import Rescored, rescore
from evalcard.results.agreement import read_agreeing
from evalcard.results.store import RunFolder
from evalcard.run import gate_run, run_plan
from evalcard.spec import RunSpec, make_spec


class Answering:
    """Knows the sums, but the compressed one says some of them without the form that the strict filter wants."""

    def __init__(self, label: str) -> None:
        self.label = label

    def identity(self) -> Identity:
        return Identity(self.label, "fake")

    def answer(self, items: Any, on_answer: Callable[[Any, ItemAnswer], None]) -> None:
        for item in reversed(items):
            on_answer(item, self.say(item))

    def say(self, item: Any) -> ItemAnswer:
        if not isinstance(item.requests[0], GenerateRequest):
            return ItemAnswer("stop", choices=tuple(ChoiceAnswer(-1.0 - i, 1, i == 0) for i in range(4)))
        position = item.item_id if isinstance(item.item_id, int) else int(item.item_id.rpartition("-")[2])
        right = 83 + 2 * position
        if position == 11:
            return ItemAnswer("length", text=" let me see", token_ids=(5,), output_tokens=24)
        form = "it is {}" if "w8a8" in self.label and position % 3 == 0 else "so\n#### {}"
        text = form.format(right + (item.repeat % 2 if position % 2 else 0))
        return ItemAnswer("stop", text=text, token_ids=(5, 6), output_tokens=2)

    def facts(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture(scope="module")
def make_run(toys: Any, tokenizer_folder: Path) -> Callable[..., Path]:
    """Evaluates toy tasks with made-up answers; returns the run's folder."""

    def make(out: Path, *tasks: str, **changes: Any) -> Path:
        source = str(tokenizer_folder)
        given = {"baseline": source, "compressed": [f"{source}:w8a8"], "tasks": list(tasks), "out": str(out),
                 "data_root": str(toys.data_root), **changes}  # fmt: skip
        return evaluated(make_spec(given))

    return make


def evaluated(spec: RunSpec) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalcard.plan.make_backends", lambda spec, _: [Answering(one.label) for one in spec.models])
        run_plan(plan_run(spec, Silent()), Silent(), command=["evalcard", "run"])
    return Path(spec.out) / spec.run_name


@pytest.fixture(scope="module")
def original(make_run: Callable[..., Path], toys: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("results"), toys.path("toy_mc"), toys.path("toy_sums"))


@pytest.fixture
def stored(original: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(original, tmp_path / "results" / original.name))


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the lock, which belongs to whoever works on the run."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".lock")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def again(folder: Path, *judges: tuple[str, str], **options: Any) -> Any:
    return rescore(folder.parent, folder.name, dict(judges), **options)


class TestSameJudge:
    def test_every_verdict_is_the_same_to_the_byte(self, stored: Path):
        before = contents(stored)
        done = again(stored)
        assert sum(one.answers for one in done.changes) == 2 * (5 + 9 + 12)
        assert sum(one.num_changed + one.first_graded for one in done.changes) == 0
        assert contents(stored) == before
        assert done.lines() == [f"{stored.name}: 52 answers graded again, 0 verdicts and 0 outcomes changed"]

    def test_on_the_demo(self, tmp_path: Path):
        spec = make_spec({"baseline": "@demo", "compressed": ["@demo:w4a16"], "tasks": "demo", "limit_per_subtask": 6,
                          "out": str(tmp_path)})  # fmt: skip
        run_plan(plan_run(spec, Silent()), Silent(), command=["evalcard", "run"])
        folder = tmp_path / spec.run_name
        before = contents(folder)
        done = again(folder)
        assert [one.num_changed for one in done.changes] == [0] * 6
        assert [one.answers for one in done.changes] == [6] * 6 and contents(folder) == before

    def test_repeats(self, make_run: Callable[..., Path], toys: Any, tmp_path: Path):
        folder = make_run(tmp_path, toys.path("toy_sums"), repeats=4, temperature=0.7)
        before = contents(folder)
        done = again(folder)
        assert [(one.answers, one.num_changed) for one in done.changes] == [(48, 0), (48, 0)]
        assert contents(folder) == before
        assert done.comparison.tasks[0].baseline.pass_at[0] == done.comparison.tasks[0].baseline.score

    def test_items_with_names_of_their_own(self, make_run: Callable[..., Path], tmp_path: Path):
        path = tmp_path / "sums.jsonl"
        rows = [
            {"id": f"sum-{i}", "question": f"What is {40 + i} plus {43 + i}?", "answer": 83 + 2 * i} for i in range(8)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        folder = make_run(tmp_path / "results", f"{path}:number")
        with RunFolder.open(folder.parent, folder.name) as run:
            assert run.read_verdicts(run.read_run().models[0].slug, "sums")[2].item_id == "sum-2"
        before = contents(folder)
        assert [one.num_changed for one in again(folder).changes] == [0, 0] and contents(folder) == before
        path.write_text("".join(json.dumps(row | {"id": f"no-{i}"}) + "\n" for i, row in enumerate(rows)))
        with pytest.raises(UserError, match="8 of the 8 items .* sum-0, sum-1, sum-2, sum-3, sum-4 and 3 more"):
            again(folder)

    def test_the_gates_word_stands(self, stored: Path):
        gate_run(stored.parent, stored.name, GateSpec(every=Bounds(min_recovery=10)))
        before = contents(stored)
        done = again(stored)
        assert done.comparison.verdict is not None and not done.lost_gate and contents(stored) == before


class TestAnotherJudge:
    def test_changes_are_told_and_written(self, stored: Path):
        before = contents(stored)
        done = again(stored, ("toy_sums", "number"))
        slugs = [model.slug for model in done.run.models]
        ours, theirs = (
            next(one for one in done.changes if (one.task, one.model) == ("toy_sums", slug)) for slug in slugs
        )
        # What the strict filter did not find, the last number is; every verdict names another filter now.
        assert theirs.changed[("no_answer", "correct")] == 4 and theirs.num_changed == ours.num_changed == 12
        assert ours.changed == {("correct", "correct"): 11, ("truncated", "truncated"): 1}
        assert "no answer -> correct 4" in "\n".join(done.lines())
        row = next(row for row in done.comparison.tasks if row.task == "toy_sums")
        assert (row.baseline.score, row.compressed[0].score) == (11 / 12, 11 / 12)
        assert row.compressed[0].outcomes == {"correct": 11, "wrong": 0, "no_answer": 0, "truncated": 1, "error": 0}
        with RunFolder.open(stored.parent, stored.name) as folder:
            record = next(task for task in folder.read_run().tasks if task.name == "toy_sums")
            assert (record.judge, record.metric, record.filter) == ("number", "exact_match", "number")
            assert folder.read_comparison() == done.comparison
            (score,) = folder.read_verdicts(slugs[1], "toy_sums")[0].scores
            assert (score.filter, score.value) == ("number", 1.0)
        assert "| number |" in (stored / "README.md").read_text(encoding="utf-8")
        changed = {name for name, content in contents(stored).items() if content != before[name]}
        assert not [name for name in changed if name.startswith("samples/") or "toy_shapes" in name]

    def test_and_back(self, stored: Path):
        before = contents(stored)
        again(stored, ("toy_sums", "contains"))
        assert contents(stored) != before
        again(stored)
        assert contents(stored) == before

    def test_is_recorded_until_the_tasks_own_grading_is_back(self, stored: Path):
        done = again(stored, ("toy_sums", "number"))
        assert done.run.rescored.judges == {"toy_sums": "number"} and done.run.rescored.changed_items == {}
        assert json.loads((stored / "run.json").read_text())["rescored"]["command"] == [
            "evalcard", "rescore", stored.name, "--judge", "toy_sums=number"
        ]  # fmt: skip
        card = (stored / "README.md").read_text(encoding="utf-8")
        assert f"evalcard rescore {stored.name} \\\n    --judge toy_sums=number\n```" in card
        assert "graded the stored answers again, without a model: `toy_sums` by the judge `number`." in card
        assert again(stored).run.rescored is None
        assert "evalcard rescore" not in (stored / "README.md").read_text(encoding="utf-8")

    def test_the_same_run_again_goes_back_to_the_tasks_own_grading(
        self, make_run: Callable[..., Path], toys: Any, tmp_path: Path
    ):
        folder = make_run(tmp_path, toys.path("toy_sums"))
        before = contents(folder)["comparison.json"]
        again(folder, ("toy_sums", "number"))
        assert make_run(tmp_path, toys.path("toy_sums")) == folder
        assert json.loads((folder / "run.json").read_text())["rescored"] is None
        assert contents(folder)["comparison.json"] == before
        assert "evalcard rescore" not in (folder / "README.md").read_text(encoding="utf-8")

    def test_that_says_the_same_alarms_nobody(self, make_run: Callable[..., Path], tmp_path: Path):
        path = tmp_path / "sums.jsonl"
        rows = [{"question": f"What is {40 + i} plus {43 + i}?", "answer": 83 + 2 * i} for i in range(8)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        folder = make_run(tmp_path / "results", f"{path}:number")
        done = again(folder, ("sums", r"regex=(\d+)"))
        assert done.lines()[0] == f"{folder.name}: 16 answers graded again, same outcomes under another judge"

    def test_the_gates_word_is_dropped(self, stored: Path):
        gate_run(stored.parent, stored.name, GateSpec(every=Bounds(min_recovery=10)))
        done = again(stored, ("toy_sums", "number"))
        assert done.lost_gate and done.comparison.verdict is None and "evalcard gate" in done.lines()[-1]
        assert "Release gate" not in (stored / "README.md").read_text(encoding="utf-8")

    def test_scored_answers_have_no_text_to_judge(self, stored: Path):
        with pytest.raises(UserError, match="toy_.* is scored by log-probabilities"):
            again(stored, ("toy_mc", "choice"))

    def test_an_end_in_between_is_completed_by_the_same_command(
        self, stored: Path, original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        whole = Path(shutil.copytree(original, tmp_path / "whole" / original.name))
        again(whole, ("toy_sums", "number"))
        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "write_comparison", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                again(stored, ("toy_sums", "number"))
        again(stored, ("toy_sums", "number"))
        assert contents(stored) == contents(whole)


def test_damaged_and_tampered_verdicts_are_replaced(stored: Path):
    paths = sorted((stored / "verdicts").glob("*/toy_*.jsonl"))
    before = contents(stored)
    lines = paths[0].read_text().splitlines()
    flipped = [line.replace('"outcome":"wrong"', '"outcome":"correct"') for line in lines]
    paths[0].write_text("\n".join(flipped) + "\n")
    paths[-1].write_text("no JSON\n")
    done = again(stored)
    assert contents(stored) == before
    moves = [one.changed for one in done.changes if one.num_changed]
    assert moves == [{("correct", "wrong"): sum(line != new for line, new in zip(lines, flipped, strict=True))}]
    assert sum(one.first_graded for one in done.changes) == 12


class TestFilesThatTheComparisonWasMadeFrom:
    """What is judged and shown is that of the stored answers, or it is refused."""

    def said_by(self, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
        assert invoke([*words, folder.name, "--out", str(folder.parent)]) == 2, words
        return capsys.readouterr().err

    @pytest.mark.parametrize("kind", ["verdicts", "samples"])
    @pytest.mark.parametrize("what", ["edited", "halved", "gone"])
    def test_gate_card_report_and_publish_refuse_another_file(
        self, stored: Path, kind: str, what: str, capsys: pytest.CaptureFixture[str]
    ):
        path = sorted((stored / kind).glob("*/toy_sums.jsonl"))[-1]
        content = path.read_bytes()
        if what == "gone":
            path.unlink()
        else:
            edited = content.replace(b"correct", b"wrong").replace(b"####", b"###")
            path.write_bytes(edited if what == "edited" else content[: len(content) // 2])
        for words in (["gate", "--min-recovery", "10"], ["card"], ["report"]):
            said = " ".join(self.said_by(stored, capsys, *words).split())
            assert path.name in said and ("is gone" if what == "gone" else "has changed") in said
            assert ("evalcard rescore" if kind == "verdicts" else "evalcard run") in said
        run = RunFolder(stored).read_run()
        unapplied = [run.models[0], run.models[1].model_copy(update={"scheme": None})]
        with pytest.raises(UserError, match="has changed|is gone"):
            read_card(RunFolder(stored), run.model_copy(update={"models": unapplied}), None)

    def test_rescore_makes_them_agree_again(self, stored: Path):
        path = next((stored / "verdicts").glob("*/toy_sums.jsonl"))
        path.write_bytes(path.read_bytes().replace(b'"correct"', b'"wrong"'))
        again(stored)
        assert read_agreeing(RunFolder(stored), RunFolder(stored).read_run()).made_from

    def test_the_gate_keeps_what_it_was_made_from(self, stored: Path):
        before = RunFolder(stored).read_comparison().made_from
        gate_run(stored.parent, stored.name, GateSpec(every=Bounds(min_recovery=10)))
        assert before and RunFolder(stored).read_comparison().made_from == before

    def test_an_older_comparison_is_read_as_before(self, stored: Path):
        folder = RunFolder(stored)
        folder.write_comparison(folder.read_comparison().model_copy(update={"made_from": {}}))
        next((stored / "verdicts").glob("*/toy_sums.jsonl")).unlink()
        assert read_agreeing(folder, folder.read_run()).made_from == {}


class TestChangedDocuments:
    @pytest.fixture
    def data(self, toys: Any, tmp_path: Path) -> Path:
        return Path(shutil.copytree(toys.data_root, tmp_path / "data"))

    def edit(self, data: Path, position: int) -> None:
        path = data / "toy" / "sums" / "test.jsonl"
        lines = path.read_text().splitlines()
        lines[position] = lines[position].replace("plus", "and")
        path.write_text("\n".join(lines) + "\n")

    def test_are_refused_by_name_and_nothing_is_written(self, stored: Path, data: Path):
        self.edit(data, 4)
        self.edit(data, 7)
        before = contents(stored)
        with pytest.raises(UserError, match=r"toy_sums: 2 of the 12 items .*: 4, 7\. .*--data-root"):
            again(stored, data_root=str(data))
        assert contents(stored) == before

    def test_are_no_matter_where_they_were_not_answered(
        self, make_run: Callable[..., Path], toys: Any, data: Path, tmp_path: Path
    ):
        folder = make_run(tmp_path / "results", toys.path("toy_sums"), limit_per_subtask=3)
        self.edit(data, 4)
        assert [one.num_changed for one in again(folder, data_root=str(data)).changes] == [0, 0]
        self.edit(data, 2)
        with pytest.raises(UserError, match="1 of the 3 items"):
            again(folder, data_root=str(data))

    def test_are_refused_where_they_are_gone(self, stored: Path, data: Path):
        path = data / "toy" / "sums" / "test.jsonl"
        path.write_text("\n".join(path.read_text().splitlines()[:-2]) + "\n")
        with pytest.raises(UserError, match="2 of the 12 items .*: 10, 11"):
            again(stored, data_root=str(data))

    def test_are_graded_by_what_they_say_now_where_that_is_accepted(self, stored: Path, data: Path):
        path = data / "toy" / "sums" / "test.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for position in (4, 7):
            rows[position]["answer"] = rows[position]["answer"].replace(str(83 + 2 * position), "1")
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        before = contents(stored)
        with pytest.raises(UserError, match="2 of the 12 items .*: 4, 7.* --accept-changed-items grades by"):
            again(stored, data_root=str(data))
        assert contents(stored) == before
        done = again(stored, data_root=str(data), accept_changed_items=True)
        assert done.run.rescored.changed_items == done.summary()["changed_items"] == {"toy_sums": [4, 7]}
        assert done.run.rescored.command[-1] == "--accept-changed-items"
        moved = [one.changed for one in done.changes if one.num_changed]
        assert moved == [{("correct", "wrong"): 2}, {("correct", "wrong"): 2}]
        card = (stored / "README.md").read_text(encoding="utf-8")
        assert "toy_sums: The documents of 2 of 12 items changed after they were answered;" in card
        assert "2 items of `toy_sums` were graded by documents that had changed since they were answered." in card
        assert again(stored).run.rescored is None and contents(stored) == before

    def test_accepting_changes_nothing_where_nothing_changed(self, stored: Path):
        before = contents(stored)
        assert again(stored, accept_changed_items=True).run.rescored is None and contents(stored) == before

    def test_are_never_accepted_where_others_stand_in_their_place(self, stored: Path, data: Path):
        """A row taken out in front moves every question to another place."""
        path = data / "toy" / "sums" / "test.jsonl"
        lines = path.read_text().splitlines()
        for kept in (lines[1:], lines[:-2], [*lines[1:], lines[0]]):
            path.write_text("\n".join(kept) + "\n")
            with pytest.raises(UserError, match="not those that were moved or removed, such as"):
                again(stored, data_root=str(data), accept_changed_items=True)


def test_a_data_file_that_was_moved_is_said_with_the_place_it_was_looked_for(
    make_run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "made").mkdir()
    monkeypatch.chdir(tmp_path / "made")
    Path("sums.jsonl").write_text(
        "".join(json.dumps({"question": f"What is {40 + i} plus {43 + i}?", "answer": 83 + 2 * i}) + "\n"
                for i in range(8))
    )  # fmt: skip
    folder = make_run(tmp_path / "results", "sums.jsonl:number")
    assert [one.num_changed for one in again(folder).changes] == [0, 0]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        again(folder)
    said = str(error.value)
    assert f"looked for at {tmp_path / 'sums.jsonl'}. " in said and "the folder where the run was made" in said


class TestIncompleteRuns:
    def change(self, folder: Path, **changes: Any) -> None:
        with RunFolder.open(folder.parent, folder.name) as run:
            run.write_run(run.read_run().model_copy(update=changes))

    def test_what_is_there_is_graded(self, stored: Path):
        self.change(stored, finished=None)
        before = contents(stored)
        done = again(stored, ("toy_sums", "number"))
        assert done.comparison is None and done.card is None and "incomplete" in done.lines()[-1]
        now = contents(stored)
        changed = {name for name in now if now[name] != before[name]}
        assert changed == {"run.json", *(name for name in now if name.startswith("verdicts") and "toy_sums" in name)}
        assert json.loads(now["run.json"])["finished"] is None

    def test_without_any_model_there_is_nothing_to_grade(self, stored: Path):
        self.change(stored, finished=None, models=[])
        with pytest.raises(UserError, match="no model whose answers are complete"):
            again(stored)

    def test_a_run_that_is_worked_on_is_left_alone(self, stored: Path):
        with (
            RunFolder.open(stored.parent, stored.name),
            pytest.raises(UserError, match="is being worked on by process"),
        ):
            again(stored)


@pytest.mark.parametrize(
    ("judge", "says"),
    [
        (("toy_sum", "number"), "no task toy_sum. Its tasks are: toy_mc, toy_sums"),
        (("toy_sums", "nmuber"), "number"),
        (
            ("toy_sums", "choice"),
            "by the judge choice no answer could be right on 12 of 12 items: 0, 1, 2, 3, 4 and 7 more",
        ),
    ],
)
def test_judges_that_cannot_judge(stored: Path, judge: tuple[str, str], says: str):
    before = contents(stored)
    with pytest.raises(UserError) as error:
        again(stored, judge)
    assert says in str(error.value) and contents(stored) == before


def test_prompts_that_differ_are_refused_before_anything_is_written(stored: Path):
    """A comparison that cannot be made must not leave half a rescoring behind."""
    (path,) = (stored / "samples").glob("*w8a8/toy_sums.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line | {"prompt_hash": "another"}) + "\n" for line in lines))
    before = contents(stored)
    with pytest.raises(ComparisonRefused, match="prompt hash"):
        again(stored, ("toy_sums", "number"))
    assert contents(stored) == before


def test_no_torch_and_no_transformers(stored: Path):
    code = (
        "import sys; from evalcard.cli.main import invoke;"
        f"code = invoke(['rescore', {stored.name!r}, '--out', {str(stored.parent)!r}, '--judge', 'toy_sums=number']);"
        "print(code, {name.partition('.')[0] for name in sys.modules} & {'torch', 'transformers', 'triton'},"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1] == "0 set()", done.stderr
    assert "no answer -> correct 4" in done.stdout


def test_the_command(stored: Path, capsys: pytest.CaptureFixture[str]):
    where = [stored.name, "--out", str(stored.parent), "--quiet"]
    assert invoke(["rescore", *where]) == 0
    assert "52 answers graded again, 0 verdicts and 0 outcomes changed" in capsys.readouterr().out
    assert invoke(["rescore", *where, "--json", "--judge", r"toy_sums=regex=(\d+)(?!.*\d)"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["complete"] and sum(one["changed"] for one in told["changes"]) == 24
    assert invoke(["rescore", *where, "--judge", "toy_sums"]) == 2
    assert "TASK=JUDGE" in capsys.readouterr().err
    assert invoke(["rescore", "no-such-run", "--out", str(stored.parent)]) == 2


class TestEditedJournals:
    """Verdicts are only made of answers that are the run's own and all there."""

    def journal(self, folder: Path) -> Path:
        return sorted((folder / "samples").glob("*/toy_sums.jsonl"))[0]

    def edit(self, folder: Path, place: int, **changes: Any) -> Path:
        path = self.journal(folder)
        lines = path.read_text().splitlines()
        lines[place] = json.dumps(json.loads(lines[place]) | changes)
        path.write_text("\n".join(lines) + "\n")
        return path

    @pytest.mark.parametrize(
        ("changes", "says"),
        [({"text": None}, "must have a text and no choices; got text null"),
         ({"repeat": 7}, "repeat 7: the run has the repeats 0 to 0"),
         ({"task": "other"}, "is one to the task other, not toy_sums")],
    )  # fmt: skip
    def test_a_line_that_is_no_answer_of_the_run(self, stored: Path, changes: dict[str, Any], says: str):
        path = self.edit(stored, 3, **changes)
        before = contents(stored)
        with pytest.raises(UserError) as error:
            again(stored)
        assert f"{path}, line 4: " in str(error.value) and says in str(error.value)
        assert contents(stored) == before

    def test_an_item_that_was_not_selected(self, make_run: Callable[..., Path], toys: Any, tmp_path: Path):
        folder = make_run(tmp_path, toys.path("toy_sums"), limit_per_subtask=3)
        whole = make_run(tmp_path / "whole", toys.path("toy_sums"))
        line = next(one for one in self.journal(whole).read_text().splitlines() if json.loads(one)["item_id"] == 9)
        with self.journal(folder).open("a") as file:
            file.write(line + "\n")
        with pytest.raises(UserError, match="line 4: the answer to item 9, repeat 0: that item is not part of the run"):
            again(folder)

    def test_lost_lines_of_a_finished_run(self, stored: Path):
        path = self.journal(stored)
        path.write_text("\n".join(path.read_text().splitlines()[:-2]) + "\n")
        before = contents(stored)
        with pytest.raises(UserError, match=r"holds 10 of the 12 answers of the finished run .*: evalcard run"):
            again(stored)
        assert contents(stored) == before


def test_one_is_no_plural(original: Path):
    run = RunFolder(original).read_run()
    one = Changes("t", "m", 1, {("wrong", "correct"): 1}, 0)
    said = Rescored(run, None, None, (one,), lost_gate=False).lines()[0]
    assert said == f"{run.name}: 1 answer graded again, 1 verdict and 1 outcome changed"
