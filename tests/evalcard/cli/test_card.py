"""The flags of ``evalcard card``: what is rendered, kept and refused, and the exit codes."""

import json
import re
from pathlib import Path

import pytest

from evalcard.cli.main import invoke
from evalcard.plan import plan_run
from evalcard.progress import Silent
from evalcard.results.store import RunFolder
from evalcard.run import run_plan
from evalcard.spec import make_spec


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the demo, four items a task."""
    out = tmp_path_factory.mktemp("results")
    asked = {
        "baseline": "@demo",
        "compressed": ["@demo:w4a16"],
        "tasks": "demo",
        "limit_per_subtask": 4,
        "out": str(out),
    }
    outcome = run_plan(plan_run(make_spec(asked), Silent()), Silent(), command=["evalcard", "run"])
    return out / outcome.run.name


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    import shutil

    return Path(shutil.copytree(measured, tmp_path / measured.name))


def front(run: Path) -> dict:
    import yaml

    return yaml.safe_load((run / "README.md").read_text(encoding="utf-8").split("\n---\n")[0].removeprefix("---\n"))


def test_what_is_said_of_the_model_is_from_its_files(run: Path):
    text = (run / "README.md").read_text(encoding="utf-8")
    for said in (
        "- **Architecture:** `LlamaForCausalLM`, 5 layers of width 256",
        "- **In full precision:** `embed_tokens` in bf16; `lm_head` in bf16, which is",
        "- **Licence:** `apache-2.0`, as the `README.md` beside the baseline's weights states",
        "evalcard run --baseline @demo --compressed @demo:w4a16 --tasks demo --limit 100",
        "## Deployment", "## Fidelity", "## Reproduce",
    ):  # fmt: skip
        assert said in text, said
    assert front(run)["license"] == "apache-2.0" and front(run)["language"] == "en"


def test_flags_are_kept_with_the_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    notes = tmp_path / "words.md"
    notes.write_text("Ask me.\n", encoding="utf-8")
    flags = [
        "--license",
        "mit",
        "--language",
        "en",
        "--language",
        "no",
        "--base-model",
        "acme/demo",
        "--notes",
        str(notes),
    ]
    assert invoke(["card", str(run), *flags]) == 0
    assert str(run / "README.md") in capsys.readouterr().out.splitlines()[0]
    notes.unlink()
    for command in (["card"], ["gate", "--min-recovery", "10", "--decide", "point"]):
        invoke([command[0], str(run), *command[1:]])
        assert front(run)["license"] == "mit" and front(run)["language"] == ["en", "no"]
        assert front(run)["base_model"] == "acme/demo"
        assert "\nAsk me.\n" in (run / "README.md").read_text(encoding="utf-8")
    assert str(tmp_path) not in (run / "card.json").read_text(encoding="utf-8")
    assert invoke(["card", str(run), "--license", "", "--notes", ""]) == 0
    assert front(run)["license"] == "apache-2.0" and "Ask me" not in (run / "README.md").read_text(encoding="utf-8")


def test_a_template_is_kept_where_it_can_be_rendered(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    template = tmp_path / "card.md.j2"
    template.write_text('{% extends "card.md.j2" %}\n{% block limits %}mine{% endblock %}\n', encoding="utf-8")
    assert invoke(["card", str(run), "--template", str(template)]) == 0
    text = (run / "README.md").read_text(encoding="utf-8")
    assert "mine" in text and "How far these numbers go" not in text
    template.write_text("one\n{{ card.nothing_of_the_kind }}\n", encoding="utf-8")
    capsys.readouterr()
    assert invoke(["card", str(run), "--template", str(template)]) == 2
    assert "card.md.j2, line 2" in capsys.readouterr().err
    assert (run / "README.md").read_text(encoding="utf-8") == text and invoke(["card", str(run)]) == 0
    assert (run / "README.md").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--license", "apache"], "--license"),
        (["--language", "jp"], "Did you mean ja?"),
        (["--base-model", "/data/llama"], "local path"),
        (["--template", "no-such.j2"], "cannot read no-such.j2"),
    ],
)
def test_what_is_refused_changes_nothing(run: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str):
    before = (run / "README.md").read_bytes()
    assert invoke(["card", str(run), *flags]) == 2
    assert said in capsys.readouterr().err
    assert (run / "README.md").read_bytes() == before and not (run / "card.json").exists()


def test_check_of_a_run_and_of_a_card(run: Path, capsys: pytest.CaptureFixture[str]):
    assert invoke(["card", str(run), "--check"]) == 0
    assert "no errors" in capsys.readouterr().out
    card = run / "models" / "evalcard-demo-w4a16" / "README.md"
    broken = card.read_text(encoding="utf-8").replace("license: apache-2.0", "license: apache")
    card.write_text(broken, encoding="utf-8")
    assert invoke(["card", str(card), "--check"]) == 1
    assert "license" in capsys.readouterr().out and card.read_text(encoding="utf-8") == broken
    assert invoke(["card", str(card), "--check", "--license", "mit"]) == 2


def test_check_looks_at_what_is_on_disk_and_writes_nothing(run: Path, capsys: pytest.CaptureFixture[str]):
    pages = [run / "README.md", run / "models" / "evalcard-demo-w4a16" / "README.md"]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("license: apache-2.0", "license: apache"), encoding="utf-8")
    before = [(page.read_bytes(), page.stat().st_mtime_ns) for page in pages]
    assert invoke(["card", str(run), "--check"]) == 1
    *found, last = capsys.readouterr().out.splitlines()
    assert all(": error: " in line or ": warning: " in line for line in found) and last.startswith("2 errors")
    assert [(page.read_bytes(), page.stat().st_mtime_ns) for page in pages] == before


def test_check_with_other_flags_renders_first_and_says_so(run: Path, capsys: pytest.CaptureFixture[str]):
    card = run / "README.md"
    card.write_text(card.read_text(encoding="utf-8").replace("# ", "## "), encoding="utf-8")
    assert invoke(["card", str(run), "--check", "--license", "mit"]) == 0
    *found, last = capsys.readouterr().out.splitlines()
    assert all(": warning: " in line for line in found)
    assert re.match(r"\d+ files of the run's cards were rendered anew, then checked: no errors", last)
    assert front(run)["license"] == "mit" and "\n### " not in card.read_text(encoding="utf-8").split("## Accuracy")[0]


def test_check_of_a_url_is_refused(capsys: pytest.CaptureFixture[str]):
    for flags in ([], ["--license", "mit"]):
        assert invoke(["card", "https://hub.example/acme/toy", "--check", *flags]) == 2
        assert "is a URL, and a check asks no network. Give a file" in " ".join(capsys.readouterr().err.split())


def test_a_card_that_is_to_be_rendered_is_told_how_it_is_checked(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    (run.parent / "my card.md").write_text("# A\n", encoding="utf-8")
    monkeypatch.chdir(run.parent)
    for given, quoted in (("my card.md", "'my card.md'"), (f"{run.name}/models/evalcard-demo-w4a16", None)):
        assert invoke(["card", given]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"`evalcard card {quoted or given} --check`" in said and "is a card" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("### Hello\n\n<script>alert(1)</script>\n", "line 3 of the notes: raw HTML with 'script'"),
        ("See /home/someone/models/toy.\n", "line 1 of the notes: '/home/someone/models/toy"),
        ("It costs $$ a lot.\n", "line 1 of the notes: `$$` begins a formula"),
        (
            "| Task | Baseline | Compressed | Recovery |\n|---|---|---|---|\n| A | 50.0 | 49.0 | 99.0 |\n",
            "line 3 of the notes: prints a recovery of 99.0",
        ),
    ],
)
def test_notes_that_a_check_refuses_are_not_kept(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
):
    before = (run / "README.md").read_bytes()
    for path, flags in ((tmp_path / "words.md", ["--notes", str(tmp_path / "words.md")]), (run / "notes.md", [])):
        path.write_text(words, encoding="utf-8")
        assert invoke(["card", str(run), *flags]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
        assert (run / "README.md").read_bytes() == before and not (run / "card.json").exists()


def test_a_run_that_did_not_end(run: Path):
    """As it is left when it is stopped after the baseline: no comparison of its own, and none of an earlier attempt."""
    facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
    for kept in (1, 0):
        facts |= {"finished": None, "models": facts["models"][:kept]}
        facts["progress"] = [one for one in facts["progress"] if kept and one["model"] == "evalcard-demo"]
        (run / "run.json").write_text(json.dumps(facts), encoding="utf-8")
        assert invoke(["card", str(run)]) == 0
        text = (run / "README.md").read_text(encoding="utf-8")
        assert "did not come to its end" in text and "`evalcard-demo w4a16`" in text
        assert "model-index" not in text and ("## Scores" in text) == bool(kept)


def test_a_run_that_did_not_end_with_complete_models(run: Path):
    folder = RunFolder(run)
    folder.write_run(folder.read_run().model_copy(update={"finished": None}))
    (run / "comparison.json").unlink()
    assert invoke(["card", str(run)]) == 0
    text = (run / "README.md").read_text(encoding="utf-8")
    assert "did not come to its end" in text and "model-index" not in text and "## Accuracy" in text
