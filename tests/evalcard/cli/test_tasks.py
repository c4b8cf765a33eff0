"""``evalcard tasks``: plain text within 80 columns, JSON, exit codes, and no torch."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke

ODD = "[bold]x[/bold] \x1b[31m {{ a }} \ud83d\ude00 " + "long " * 40


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"{ODD}{i}", "answer": f"Ann {i}"}) + "\n" for i in range(5)))
    return path


def lines_of(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    assert invoke(["tasks", *args]) == 0
    return capsys.readouterr().out.splitlines()


def test_without_a_name_ours_are_listed(capsys: Any):
    lines = lines_of(capsys)
    assert lines[0].split() == ["Name", "Tasks", "Shots", "Items", "Scored", "by"]
    assert any(line.split()[:4] == ["demo", "3", "0", "750"] for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_facts(capsys: Any, toys: Any):
    lines = lines_of(capsys, toys.path("toy_sums"), "--data-root", str(toys.data_root))
    text = "\n".join(lines)
    assert "toy_sums (file, version 3.0)" in lines[0] and "12 of toy/sums, test" in text
    assert 'stop at    "Question:"' in text and "exact_match, filter strict" in text
    assert all(len(line) <= 80 for line in lines if str(toys.data_root) not in line)


def test_prompts_are_shown_as_they_are(capsys: Any, own: Path):
    lines = lines_of(capsys, str(own), "--check")
    text = "\n".join(lines)
    assert "[bold]x[/bold] \\x1b[31m {{ a }} \U0001f600" in text and "\x1b" not in text
    counts = zip((0, 2, 4), _tokens(capsys, own), strict=True)
    heads = [f"--- own, item {i}: {tokens} prompt tokens ---" for i, tokens in counts]
    assert [line for line in lines if line.startswith("---")] == heads
    assert 'gold       "Ann 2"' in text and "demo model" in text and "at most 1024 tokens" in text
    assert all(len(line) <= 80 for line in lines if str(own.parent) not in line)
    pieces = [line[4:] for line in lines if line.startswith(("  | ", "  : "))]
    assert "".join(pieces[: len(pieces) // 3]) == ODD.replace("\x1b", "\\x1b").encode("utf-16", "surrogatepass").decode(
        "utf-16"
    ) + "0"  # fmt: skip


def _tokens(capsys: Any, own: Path) -> list[int]:
    assert invoke(["tasks", str(own), "--check", "--json"]) == 0
    return [item["prompt_tokens"] for item in json.loads(capsys.readouterr().out)["items"]]


def test_json(capsys: Any, toys: Any):
    assert invoke(["tasks", toys.path("toy_mc"), "--check", "--json", "--data-root", str(toys.data_root)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == [{"name": "toy_mc", "tasks": ["toy_colours", "toy_shapes"], "rule": "size"}]
    assert [task["documents"] for task in found["tasks"]] == [5, 9] and len(found["items"]) == 3
    assert invoke(["tasks", "--json"]) == 0
    assert {"name": "demo_words", "num_tasks": 1, "shots": "0", "items": 250}.items() <= {
        one["name"]: one for one in json.loads(capsys.readouterr().out)
    }["demo_words"].items()


def test_without_documents_the_definition_is_shown(capsys: Any, toys: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names = f"{toys.path('toy_mc')},gsm8k,demo_words"
    text = "\n".join(lines_of(capsys, names))
    assert "documents  not here: toy/choice, test" in text and "toy_mc: 2 tasks, pooled by size" in text
    assert "documents  not here: openai/gsm8k, test" in text and "documents  250 of evalcard/demo" in text
    assert "exact_match, filter strict-match (also graded: flexible-extract)" in text
    said = " ".join(text.split())
    assert "Documents that are not here: 2 tasks from toy_colours on" in said and "evalcard tasks --prefetch" in said
    assert invoke(["tasks", "gsm8k", "--check"]) == 2
    assert "--prefetch gsm8k" in capsys.readouterr().err


def test_the_definition_says_what_the_built_task_says(toys: Any, monkeypatch: pytest.MonkeyPatch):
    """Everything but the documents, their place and what only they tell."""
    from evalcard.tasks.describe import describe

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names = [toys.path("toy_all")]
    built, outlined = describe(names, data_root=str(toys.data_root)), describe(names)
    unknown = {"documents": None, "place": None, "chance": None, "source": "file"}
    assert [replace(task, **unknown) for task in outlined.tasks] == [replace(task, **unknown) for task in built.tasks]
    assert outlined.missing and not built.missing


def test_a_system_text(capsys: Any, own: Path):
    assert any("Be brief." in line for line in lines_of(capsys, str(own), "--check", "--system", "Be brief."))


def test_one_token_is_one(capsys: Any, toys: Any):
    text = "\n".join(lines_of(capsys, toys.path("toy_mc"), "--check", "--data-root", str(toys.data_root)))
    assert "(1 token)" in text and "(1 tokens)" not in text


def test_another_tokenizer(capsys: Any, own: Path, tokenizer_folder: Path):
    lines = lines_of(capsys, str(own), "--check", "--tokenizer", str(tokenizer_folder), "--apply-chat-template")
    assert any(tokenizer_folder.name in line for line in lines) and any("<|user|>" in line for line in lines)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--check"], "--check needs the name of a task"),
        (["no_such_task"], "unknown task 'no_such_task'"),
        (["--prefetch", ","], "--prefetch needs names"),
        (["missing.jsonl", "--check"], "there is no data file missing.jsonl"),
        (["demo", "--apply-chat-template"], "--tokenizer DIR"),
        (["demo", "--data-root", "nowhere"], "is no folder"),
    ],
)
def test_mistakes(capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], says: str):
    monkeypatch.chdir(tmp_path)
    assert invoke(["tasks", *args]) == 2
    assert says in capsys.readouterr().err


def test_prefetch(capsys: Any, toys: Any, own: Path, monkeypatch: pytest.MonkeyPatch):
    names = f"{toys.path('toy_mc')},{own}"
    text = "\n".join(lines_of(capsys, "--prefetch", names, "--data-root", str(toys.data_root)))
    assert "14 documents" in text and str(toys.data_root / "toy" / "choice") in text.replace("\n", "").replace(" ", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert invoke(["tasks", "--prefetch", names]) == 2
    out = " ".join(capsys.readouterr().out.split())
    assert "toy/choice (subset colours, shapes) is missing; the Hub was not asked (HF_HUB_OFFLINE is set)" in out
    assert "5 documents" in out, "the other one is there"


def test_no_torch(own: Path):
    """Only --check needs the tokenizers' library, which loads torch where that is installed."""
    code = (
        "import sys; from evalcard.cli.main import invoke\n"
        f"given = [['demo'], [{str(own)!r}], ['--prefetch', 'demo']]\n"
        "codes = [invoke(['tasks', *args]) for args in given]\n"
        "sys.exit(str(codes) if any(codes) or {'torch', 'transformers'} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
