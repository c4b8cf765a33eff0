"""Data files of one's own: what is asked, what is right, how it is scored, and which mistake is named where."""

import copy
import csv
import json
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalcard.errors import UserError
from evalcard.tasks.own import custom
from evalcard.tasks.own.custom import DataFile, data_task, parse_data_file

SHORT = [{"question": f"Who wrote book {i}?", "answer": name} for i, name in enumerate(["Ann Lee", "Bo", "Cy"])]
CHOICES = [
    {"question": "The sky is", "choices": ["red", "blue"], "answer": "B"},
    {"question": "Grass is", "choices": ["green", "pink", "grey"], "answer": "green"},
    {"question": "Snow is", "choices": ["black", "white"], "answer": 1},
]


def put(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(
                {key: json.dumps(value) if isinstance(value, list) else value for key, value in row.items()}
                for row in rows
            )
    return path


def config_of(path: Path, judge: str | None = None) -> dict[str, Any]:
    return data_task(DataFile(path, judge))


def docs_of(path: Path, judge: str | None = None) -> list[dict[str, Any]]:
    config = config_of(path, judge)
    return list(config["custom_dataset"](**config["metadata"])["test"])


def settings_of(path: Path, judge: str | None = None) -> dict[str, Any]:
    settings: dict[str, Any] = config_of(path, judge)["metadata"]["evalcard"]
    return settings


def task_of(path: Path, judge: str | None = None) -> Any:
    """As the rest of evalcard sees it."""
    from lm_eval.api.task import ConfigurableTask

    from evalcard.tasks.data.roots import RootedData
    from evalcard.tasks.harness import HarnessTask

    kind = type("Kind", (RootedData, ConfigurableTask), {})
    return HarnessTask(kind(config=config_of(path, judge)), "file", random.getstate())


def prompts_of(path: Path, shots: int | None = None, judge: str | None = None) -> list[str]:
    from evalcard.tasks.harness import Chat

    task = task_of(path, judge)
    task.set_fewshot(shots, 1234)
    return [str(prompt.arguments[0][0]) for prompt in task.prompts(range(len(task.docs)), Chat())]


class TestNames:
    def test_a_file_and_its_judge(self, tmp_path: Path):
        path = put(tmp_path, "a.b.jsonl", SHORT)
        assert parse_data_file(str(path)) == DataFile(path, None)
        assert parse_data_file(f"{path}:contains") == DataFile(path, "contains")
        assert parse_data_file(f"{path}:regex=Sum: (x.csv:\n?)") == DataFile(path, "regex=Sum: (x.csv:\n?)")
        assert DataFile(path).task_name == "a.b"

    def test_an_existing_path_is_taken_whole(self, tmp_path: Path):
        path = put(tmp_path, "a.json:b.jsonl", SHORT)
        assert parse_data_file(str(path)) == DataFile(path, None)

    def test_a_folder_whose_name_looks_like_a_file(self, tmp_path: Path):
        path = put(tmp_path, "x.json.d/a.jsonl", SHORT)
        assert parse_data_file(str(path)) == DataFile(path, None)

    def test_the_home_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        path = put(tmp_path, "a.CSV", SHORT)
        assert parse_data_file("~/a.CSV:exact") == DataFile(path, "exact")

    @pytest.mark.parametrize("name", ["gsm8k", "lm_eval/gsm8k", "mmlu_*", "a.yaml", "a.jsonl.gz", "", ".jsonl"])
    def test_other_names(self, name: str):
        assert parse_data_file(name) is None

    def test_a_missing_file(self, tmp_path: Path):
        with pytest.raises(UserError, match=r"there is no data file .*a.jsonl\. Give the path"):
            parse_data_file(str(tmp_path / "a.jsonl:exact"))

    @pytest.mark.parametrize("judge", ["", "contain", "regex=("])
    def test_an_unknown_judge(self, tmp_path: Path, judge: str):
        with pytest.raises(UserError):
            parse_data_file(f"{put(tmp_path, 'a.jsonl', SHORT)}:{judge}")

    def test_finding_one_is_light(self, tmp_path: Path):
        path = put(tmp_path, "a.jsonl", SHORT)
        code = (
            "import sys; from evalcard.tasks.own.custom import parse_data_file; "
            f"assert parse_data_file({str(path)!r} + ':math'); print(*sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        heavy = {"torch", "lm_eval", "transformers", "datasets", "pandas", "pyarrow", "math_verify", "sympy"}
        assert not heavy & set(done.stdout.split())


class TestFormats:
    @pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.tsv", "a.parquet"])
    def test_every_format_says_the_same(self, tmp_path: Path, name: str):
        rows = [
            {"id": f"x{i}", "question": f'"{i}",\nor\tnot?', "choices": ["a, b", "c"], "answer": "AB"[i % 2]}
            for i in range(4)
        ]
        assert docs_of(put(tmp_path, name, rows)) == [
            {
                "id": f"x{i}", "prompt": f'Question: "{i}",\nor\tnot?\nA. a, b\nB. c\nAnswer:', "letters": ["A", "B"],
                "target": i % 2, "shot": "AB"[i % 2],
            }
            for i in range(4)
        ]  # fmt: skip

    def test_what_text_editors_and_spread_sheets_do(self, tmp_path: Path):
        (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfQuestion , ANSWER\r\nWho?,Ann\r\n\r\n Why? ,Because\r\n")
        assert [(doc["prompt"], doc["target"]) for doc in docs_of(tmp_path / "a.csv")] == [
            ("Question: Who?\nAnswer:", "Ann"),
            ("Question: Why?\nAnswer:", "Because"),
        ]

    def test_line_separators_in_strings(self, tmp_path: Path):
        (tmp_path / "a.jsonl").write_text('{"prompt": "a\u2028b\x85c", "answer": "x"}\n', encoding="utf-8")
        assert docs_of(tmp_path / "a.jsonl")[0]["prompt"] == "a\u2028b\x85c"

    def test_answers_that_are_no_texts(self, tmp_path: Path):
        rows = [{"question": "q", "answer": one} for one in (5, 5.0, True, "x", 10**30)]
        found = [doc["target"] for doc in docs_of(put(tmp_path, "a.jsonl", rows))]
        assert found == ["5", "5.0", "true", "x", str(10**30)]

    def test_half_a_surrogate_pair_is_said(self, tmp_path: Path):
        (tmp_path / "a.jsonl").write_text(
            '{"question": "a\\ud800b", "answer": "x"}\n{"question": "\\ud83d\\ude00", "answer": "y"}\n'
        )
        assert [doc["prompt"][10:13] for doc in docs_of(tmp_path / "a.jsonl")] == ["a\ufffdb", "\U0001f600\nA"]
        assert settings_of(tmp_path / "a.jsonl")["note"].endswith("half of a surrogate pair became U+FFFD in line 1")

    def test_braces_are_no_template(self, tmp_path: Path):
        rows = [{"prompt": "{{ 7*7 }} {% if %} {{prompt}}", "system": "{{ system }}", "answer": "{{ answer }}"}]
        (text,) = prompts_of(put(tmp_path, "a.jsonl", rows))
        assert text == "{{ system }}\n\n{{ 7*7 }} {% if %} {{prompt}}"
        assert task_of(tmp_path / "a.jsonl").target(0) == "{{ answer }}"


class TestPrompts:
    def test_a_prompt_is_sent_as_it_is(self, tmp_path: Path):
        rows = [{"prompt": "  Say  x.\n\n", "target": "x"}]
        path = put(tmp_path, "a.jsonl", rows)
        assert prompts_of(path) == ["  Say  x.\n\n"]
        assert config_of(path)["generation_kwargs"]["until"] == []

    def test_a_question_takes_our_form_and_stops_before_the_next(self, tmp_path: Path):
        path = put(tmp_path, "a.jsonl", SHORT)
        assert prompts_of(path)[1] == "Question: Who wrote book 1?\nAnswer:"
        assert config_of(path)["generation_kwargs"] == {
            "until": ["\nQuestion:"], "do_sample": False, "temperature": 0.0, "max_gen_toks": 1024,
        }  # fmt: skip

    def test_a_system_text_belongs_to_its_own_item(self, tmp_path: Path):
        rows = [{**SHORT[0], "system": "Be brief."}, SHORT[1], {**SHORT[2], "system": ""}]
        path = put(tmp_path, "a.jsonl", rows)
        assert [text.partition("Question")[0] for text in prompts_of(path)] == ["Be brief.\n\n", "", ""]

    def test_a_system_text_is_a_turn_where_there_are_turns(self, tmp_path: Path):
        from evalcard.tasks.harness import Chat

        task = task_of(put(tmp_path, "a.jsonl", [{**SHORT[0], "system": "Be brief."}, SHORT[1]]))
        task.set_fewshot(None, 1234)
        seen: list[Any] = []

        def render(messages: Any, add_generation_prompt: bool = True) -> str:
            seen.append([(one["role"], one["content"].strip()) for one in messages])
            return "x"

        task.prompts([0, 1], Chat(render))
        assert seen[0] == [("system", "Be brief."), ("user", "Question: Who wrote book 0?\nAnswer:")]
        assert seen[1] == [("user", "Question: Who wrote book 1?\nAnswer:")]

    def test_a_system_turn_is_exactly_the_columns_text(self, tmp_path: Path):
        from evalcard.tasks.harness import Chat

        rows = [{**SHORT[0], "system": "Be brief. "}, {**SHORT[1], "system": "  "}, SHORT[2]]
        task = task_of(put(tmp_path, "a.jsonl", rows))
        task.set_fewshot(None, 1234)
        seen: list[Any] = []
        task.prompts([0, 1, 2], Chat(lambda messages, **_: seen.append([*messages]) or "x"))
        assert [[one["content"] for one in turns if one["role"] == "system"] for turns in seen] == [
            ["Be brief. "], [], []
        ]  # fmt: skip
        task.prompts([0], Chat(lambda messages, **_: seen.append([*messages]) or "x", system="Hello."))
        assert seen[-1][0]["content"] == "Hello.\n\nBe brief. "
        assert prompts_of(tmp_path / "a.jsonl")[0].startswith("Be brief.\n\nQuestion:")

    def test_shots_come_from_the_file_and_never_from_the_item(self, tmp_path: Path):
        """Case 65, with a question that stands in the file twice."""
        rows = [{"question": f"What is {i} and 1?", "answer": str(i + 1)} for i in range(5)] + [
            {"question": "What is 0 and 1?", "answer": "1"}
        ]
        for number, text in enumerate(prompts_of(put(tmp_path, "a.jsonl", rows), shots=3)):
            own = f"Question: {rows[number]['question']}\nAnswer:"
            assert text.count(own) == 1 and text.endswith(own)
            assert text.count("Answer: ") == 3

    def test_too_few_rows_for_the_shots(self, tmp_path: Path):
        """Case 65: three documents, two of them ask the same."""
        rows = [SHORT[0], SHORT[1], SHORT[1]]
        with pytest.raises(UserError, match="2 shots were asked for, but .* has 1 rows? with another question"):
            prompts_of(put(tmp_path, "a.jsonl", rows), shots=2)
        assert len(prompts_of(tmp_path / "a.jsonl", shots=1)) == 3

    def test_three_documents_serve_two_shots(self, tmp_path: Path):
        found = prompts_of(put(tmp_path, "a.jsonl", SHORT), shots=2)
        assert [sorted(text.count(f"book {i}") for i in range(3)) for text in found] == [[1, 1, 1]] * 3

    @pytest.mark.parametrize("rows", [CHOICES, [{**row, "answer": [row["answer"]]} for row in CHOICES]])
    def test_shots_of_choices_show_the_letter(self, tmp_path: Path, rows: list[dict[str, Any]]):
        text = prompts_of(put(tmp_path, "a.jsonl", rows), shots=2)[0]
        assert "B. pink\nC. grey\nAnswer: A\n\n" in text and "B. white\nAnswer: B\n\n" in text
        assert text.endswith("Question: The sky is\nA. red\nB. blue\nAnswer:")


class TestChoices:
    def test_letters_are_scored_as_in_mmlu(self, tmp_path: Path):
        task = task_of(put(tmp_path, "a.jsonl", CHOICES))
        assert task.is_multiple_choice and [metric.name for metric in task.metrics] == ["acc"]
        assert [task.choices(i) for i in range(3)] == [["A", "B"], ["A", "B", "C"], ["A", "B"]]
        assert [task.target(i) for i in range(3)] == [1, 0, 1]
        assert task.settings["chance"] == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 3)
        task.set_fewshot(None, 1)
        from evalcard.tasks.harness import Chat

        (prompt,) = task.prompts([1], Chat())
        assert [argument[1] for argument in prompt.arguments] == [" A", " B", " C"]

    def test_the_harness_grades_them(self, tmp_path: Path):
        task = task_of(put(tmp_path, "a.jsonl", CHOICES))
        likeliest_last = [(-2.0, False), (-1.0, True)]
        graded = task.grade([(0, likeliest_last), (2, likeliest_last[::-1])])
        assert [next(iter(one.values()))[1]["acc"] for one in graded] == [1.0, 0.0]

    def test_several_right_choices(self, tmp_path: Path):
        rows = [{"question": "?", "choices": ["a1", "b1", "c1"], "answer": ["A", "c1"]}, CHOICES[1]]
        task = task_of(put(tmp_path, "a.jsonl", rows))
        assert [task.target(i) for i in range(2)] == [[0, 2], [0]]
        graded = task.grade(
            [(0, [(-3.0, False), (-2.0, False), (-1.0, False)]), (1, [(-3.0, False)] * 2 + [(0, True)])]
        )
        assert [next(iter(one.values()))[1]["acc"] for one in graded] == [1.0, 0.0]
        assert task.settings["chance"] == pytest.approx((2 / 3 + 1 / 3) / 2)

    def test_as_many_choices_as_letters(self, tmp_path: Path):
        choices = [f"n{i}" for i in range(26)]
        (doc,) = docs_of(put(tmp_path, "a.jsonl", [{"question": "?", "choices": choices, "answer": "n25"}]))
        assert doc["target"] == 25 and doc["letters"][25] == "Z" and "\nZ. n25\n" in doc["prompt"]

    def test_indices_that_seem_to_count_from_1(self, tmp_path: Path):
        rows = [{"question": "?", "choices": ["x", "y", "z"], "answer": one} for one in (1, 2, "1")]
        assert "no answer is 0: indices of choices count from 0" in settings_of(put(tmp_path, "a.jsonl", rows))["note"]
        rows[0]["answer"] = 0
        assert "no answer is 0" not in settings_of(put(tmp_path, "a.jsonl", rows))["note"]

    def test_a_prompt_must_list_its_choices_itself_and_that_is_said(self, tmp_path: Path):
        rows = [{"prompt": "Pick A or B:\n", "choices": ["x", "y"], "answer": "x"}]
        path = put(tmp_path, "a.jsonl", rows)
        assert prompts_of(path) == ["Pick A or B:\n"]
        assert "must list the choices by letter themselves" in settings_of(path)["note"]
        assert config_of(path)["target_delimiter"] == ""  # the prompt ends with white space of its own

    @pytest.mark.parametrize(
        ("judge", "target"), [("choice", "B"), ("contains", "blue"), ("exact", ["B", "blue", "B. blue"])]
    )
    def test_choices_that_are_answered_in_words(self, tmp_path: Path, judge: str, target: Any):
        task = task_of(put(tmp_path, "a.jsonl", CHOICES[:1]), judge)
        assert not task.is_multiple_choice and task.target(0) == target and task.choices(0) == ["A", "B"]
        assert task.settings["judge"] == judge
        assert task.settings.get("chance") == (0.5 if judge == "choice" else None)


class TestScoring:
    def test_what_is_inferred_is_said(self, tmp_path: Path):
        settings = settings_of(put(tmp_path, "a.jsonl", SHORT))
        assert settings["judge"] == "contains" and settings["note"].startswith("scored by contains: ")
        assert "(to score otherwise: a.jsonl:exact, contains, number, math, choice, regex=PATTERN)" in settings["note"]

    def test_letters_of_options_in_the_question(self, tmp_path: Path):
        text = "Which?\nA. red\n(B) green\n C: blue\n"
        rows = [{"prompt": text, "answer": "(B)"}, {"prompt": text, "answer": "C"}]
        settings = settings_of(put(tmp_path, "a.jsonl", rows))
        assert settings["judge"] == "choice" and settings["chance"] == pytest.approx(1 / 3)
        assert [doc["target"] for doc in docs_of(tmp_path / "a.jsonl")] == ["B", "C"]
        rows[1]["answer"] = "D"  # not offered
        assert settings_of(put(tmp_path, "a.jsonl", rows))["judge"] == "contains"

    def test_letters_whose_options_stand_nowhere(self, tmp_path: Path):
        """The judge reads four letters, guessing scores a quarter, and the note says both."""
        rows = [{"question": f"Which is number {i}?", "answer": "ABD"[i]} for i in range(3)]
        task = task_of(put(tmp_path, "a.jsonl", rows))
        assert task.settings["judge"] == "choice" and task.settings["chance"] == 0.25
        assert task.choices(0) == ["A", "B", "C", "D"] and task.golds(2) == ["D"] and not task.is_multiple_choice
        assert "its choices are A to D" in task.settings["note"]
        assert prompts_of(tmp_path / "a.jsonl", shots=1)[0].count("Answer:") == 2

    def test_what_is_said_wins(self, tmp_path: Path):
        path = put(tmp_path, "a.jsonl", [{"question": "q", "answer": "5"}])
        settings = settings_of(path, "contains")
        assert settings["judge"] == "contains" and settings["note"] == "scored by contains, as asked"

    def test_an_answer_that_the_judge_can_never_meet(self, tmp_path: Path):
        rows = [{"question": "q", "answer": "5"}, {"question": "q", "answer": "none"}]
        with pytest.raises(UserError, match="a.jsonl, line 2: no answer could ever be right by number: .*none"):
            config_of(put(tmp_path, "a.jsonl", rows), "number")

    def test_several_right_answers(self, tmp_path: Path):
        rows = [{"question": "q", "answer": ["Bo", "Cy", "Bo"]}, {"question": "q", "answer": "Ann"}]
        task = task_of(put(tmp_path, "a.jsonl", rows))
        assert [task.target(i) for i in range(2)] == [["Bo", "Cy"], ["Ann"]]

    def test_lists_in_cells(self, tmp_path: Path):
        (tmp_path / "a.csv").write_text(
            'question,answer\nq,"[""Bo"", ""Cy""]"\nq,"[1, 2]"\nq,"[\'Bo\', \'C, y\']"\nq,[x]\n'
        )
        assert [doc["target"] for doc in docs_of(tmp_path / "a.csv")] == [
            ["Bo", "Cy"], ["[1, 2]"], ["Bo", "C, y"], ["[x]"]
        ]  # fmt: skip


class TestFaults:
    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("a.jsonl", '{"question": "q", "answer": "x"}\n{"question": "q" "answer"}\n', "line 2 is no JSON"),
            ("a.jsonl", '{"question": "q", "answer": "x"}\n"q"\n', "line 2 must be one JSON object"),
            ("a.jsonl", "", "it is empty"),
            ("a.csv", "question;answer\nq;x\n", "Columns of a .csv file are parted by commas"),
            ("a.csv", "question,answer\nq,x,y\n", "line 2 has 3 fields"),
            ("a.csv", "question,answer\nq,\n", "line 2: it has no 'answer'"),
        ],
    )
    def test_files(self, tmp_path: Path, name: str, text: str, message: str):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=f"{name}.*{message}"):
            config_of(tmp_path / name)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["A", "b", "0", "1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
_NAMES = st.sampled_from(["question", "prompt", "answer", "target", "choices", "id", "system", "other"])
_GOOD = st.fixed_dictionaries(
    {"question": st.text(min_size=1, max_size=9), "answer": st.sampled_from(["A", "x", 0, ["A"], "7", "x^2"])},
    optional={"choices": st.just(["x", "y", "z"]), "id": st.integers() | st.text(max_size=4), "system": st.text()},
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(_NAMES, _VALUES, max_size=5) | _GOOD, min_size=1, max_size=4))
def test_whatever_stands_in_a_file_it_is_a_task_or_a_named_fault(tmp_path: Path, rows: list[dict[str, Any]]):
    path = put(tmp_path, "a.jsonl", rows)
    try:
        found = docs_of(path)
    except UserError as error:
        assert "a.jsonl" in str(error)
        return
    assert len(found) == len(rows)
    for doc in found:
        assert isinstance(doc["prompt"], str) and isinstance(doc["shot"], str)
        targets = doc["target"] if isinstance(doc["target"], list) else [doc["target"]]
        assert targets and all(isinstance(one, str) or 0 <= one < len(doc["letters"]) for one in targets)


class TestIdentity:
    def test_the_version_follows_the_bytes(self, tmp_path: Path):
        path = put(tmp_path, "a.jsonl", SHORT)
        first = config_of(path)["metadata"]["version"]
        assert len(first) == 8 and config_of(put(tmp_path, "b.jsonl", SHORT))["metadata"]["version"] == first
        path.write_text(path.read_text() + "\n")
        assert config_of(path)["metadata"]["version"] != first

    def test_ids_of_the_file_name_its_items(self, tmp_path: Path):
        task = task_of(put(tmp_path, "a.jsonl", [{**row, "id": f"r{i}"} for i, row in enumerate(SHORT)]))
        assert task.item_ids == ["r0", "r1", "r2"] and task.position("r2") == 2

    @pytest.mark.parametrize(("ids", "found"), [([7, 3, 5], [7, 3, 5]), ([7, "x", 1.5], ["7", "x", "1.5"])])
    def test_ids_are_numbers_or_texts(self, tmp_path: Path, ids: list[Any], found: list[Any]):
        task = task_of(put(tmp_path, "a.jsonl", [{**row, "id": one} for row, one in zip(SHORT, ids, strict=True)]))
        assert task.item_ids == found

    def test_without_ids_places_name_them(self, tmp_path: Path):
        assert task_of(put(tmp_path, "a.jsonl", SHORT)).item_ids == [0, 1, 2]

    def test_unused_columns_are_said(self, tmp_path: Path):
        rows = [{**SHORT[0], "source": "web", "Date": 5}, SHORT[1]]
        assert settings_of(put(tmp_path, "a.jsonl", rows))["note"].endswith("columns not used: source, Date")

    def test_documents_travel_into_worker_processes_and_tell_files_apart(self, tmp_path: Path):
        documents = config_of(put(tmp_path, "a.jsonl", SHORT))["custom_dataset"]
        assert list(pickle.loads(pickle.dumps(documents))()["test"]) == list(documents()["test"])
        assert copy.deepcopy(documents) is documents
        other = config_of(put(tmp_path, "x/a.jsonl", SHORT))["custom_dataset"]
        said = config_of(tmp_path / "a.jsonl", "exact")["custom_dataset"]
        assert len({repr(documents), repr(other), repr(said)}) == 3

    def test_the_whole_file_is_read_once_for_all_questions(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        reads: list[Path] = []
        real = custom.read_rows
        monkeypatch.setattr(custom, "read_rows", lambda path: reads.append(path) or real(path))
        task_of(put(tmp_path, "a.jsonl", SHORT))
        assert len(reads) == 1

    def test_it_is_built_by_its_path(self, tmp_path: Path):
        from evalcard.tasks.build import build
        from evalcard.tasks.files.select import select

        path = put(tmp_path, "invoices.jsonl", SHORT)
        built = build(select([f"{path}:exact"]), ())
        (task,) = built.tasks
        assert (task.name, task.source, task.judge.name if task.judge else None) == ("invoices", "file", "exact")
        assert [(row.name, row.tasks) for row in built.rows] == [("invoices", ["invoices"])]
        assert any("scored by exact" in note for note in built.notes)

    def test_one_file_scored_in_two_ways_is_refused(self, tmp_path: Path):
        from evalcard.tasks.build import build
        from evalcard.tasks.files.select import select

        path = put(tmp_path, "invoices.jsonl", SHORT)
        with pytest.raises(UserError, match="invoices was asked for twice"):
            build(select([f"{path}:exact", f"{path}:contains"]), ())


def test_a_packed_file_is_said_to_be_one(tmp_path: Path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(b"\x1f\x8b")
    with pytest.raises(UserError, match=r"a\.jsonl\.gz is packed, .* Unpack it and give a\.jsonl"):
        parse_data_file(str(path))
