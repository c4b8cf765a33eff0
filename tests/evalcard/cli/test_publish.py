"""``evalcard publish`` as a person runs it, against a Hub on the loopback: one process a command, no network."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evalcard.card.render import write_cards
from evalcard.card.section import BEGIN, END
from evalcard.cli.main import invoke
from evalcard.compare.comparison import compare_answers
from evalcard.compare.pairing import Answered
from evalcard.results.records import ModelRecord, RowRecord, RunRecord, TaskRecord
from evalcard.results.store import RunFolder

_SERVER = Path(__file__).parents[2] / "hub_server.py"
TOKEN, BOBS = "hf_alicesecret0123456789", "hf_bobsecret0123456789"
REPO = "acme/toy-1b-w8a8"
FOREIGN = b"---\r\n# theirs\r\nlicense: mit\r\nx-foo: 1  # unknown to all\r\n---\r\n# Toy\r\n\r\nWords of theirs.\r\n"


def write_run(
    root: Path, *, scheme: str | None = None, hub_id: str | None = "acme/toy-1b", finished: bool = True
) -> Path:
    """A run of 100 items with a baseline from the Hub and a compressed checkpoint beside it."""
    task = TaskRecord.model_validate(
        {"name": "gsm8k", "source": "lm_eval", "version": "3.0", "metric": "exact_match", "filter": "strict-match",
         "category": "Maths", "chance": 0.0, "higher_is_better": True, "num_fewshot": 5, "repeats": 1,
         "decoding": "greedy", "chat_template": False, "items_total": 100, "items_selected": 100, "selection": "all",
         "dataset": "openai/gsm8k", "dataset_config": "main", "dataset_split": "test"}
    )  # fmt: skip
    facts = {"revision": None, "tokenizer_digest": "t", "template_digest": None, "numerics": "n"}
    models = [
        ModelRecord(slug="toy-1b", role="baseline", name="toy-1b", hub_id=hub_id, scheme=None, weights_digest="a",
                    **facts),
        ModelRecord(slug="toy-1b-w8a8", role="compressed", name="toy-1b-w8a8", hub_id=None, scheme=scheme,
                    weights_digest="b", **facts),
    ]  # fmt: skip
    created = "2026-11-30T10:00:00+00:00"
    run = RunRecord(
        schema=1, name="gsm8k-0a1b2c3d", created=created, finished=created if finished else None, asked={},
        resolved={"backend": "evalcard", "dtype": "float32", "device": "auto", "base_model": None}, models=models,
        tasks=[task], rows=[RowRecord(name="gsm8k", tasks=["gsm8k"], rule="task")], progress=[],
        versions={"evalcard": "0.1.0"}, hardware={"cpu": "Toy CPU"}, seed=1, command=["evalcard", "run"], git=None,
    )  # fmt: skip
    answers = {
        slug: {"gsm8k": {(i, 0): Answered(int(i < right), "correct" if i < right else "wrong", "stop", f"i{i}", f"p{i}")
                         for i in range(100)}}
        for slug, right in (("toy-1b", 80), ("toy-1b-w8a8", 79))
    }  # fmt: skip
    folder = RunFolder(root / run.name)
    shutil.rmtree(folder.path, ignore_errors=True)
    folder.write_run(run)
    folder.write_comparison(compare_answers(run, answers))
    return folder.path


@pytest.fixture
def hub() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("evalcard_tests_cli_hub_server", _SERVER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    with module.FakeHub() as made:
        made.add_account(TOKEN, "alice", acme="write")
        made.add_account(BOBS, "bob")
        yield made


@pytest.fixture
def publish(hub: Any, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command in a process of its own, as the Hub's client reads its environment when it is imported."""

    def call(*args: str, token: str | None = TOKEN, repo: str = REPO, **env: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        given = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1",
                 "NO_PROXY": "127.0.0.1", "MPLCONFIGDIR": str(tmp_path / "mpl")}  # fmt: skip
        given |= {"HF_TOKEN": token} if token else {}
        command = [sys.executable, "-m", "evalcard", "publish", "gsm8k-0a1b2c3d", "--repo", repo,
                   "--out", str(tmp_path / "results"), *args]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, env=kept | given | env, timeout=120)
        for secret in (TOKEN, BOBS):
            assert secret not in done.stdout + done.stderr
        return done

    return call


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run with its card, drawn once for all tests."""
    path = write_run(tmp_path_factory.mktemp("rendered"))
    folder = RunFolder(path)
    write_cards(folder, folder.read_run(), folder.read_comparison())
    return path


@pytest.fixture
def run(rendered: Path, tmp_path: Path) -> Path:
    return shutil.copytree(rendered, tmp_path / "results" / rendered.name)


def test_a_readme_of_others_keeps_every_byte_and_the_second_publish_makes_no_commit(hub: Any, publish: Any, run: Path):
    repo = hub.add_repo(REPO, {"README.md": FOREIGN, "model.safetensors": b"weights"})
    head = repo.refs["main"]
    done = publish()
    assert done.returncode == 0, done.stderr
    (sent,) = hub.sent("POST", "/commit/main")
    lines = [json.loads(line) for line in sent.body.splitlines()]
    assert lines[0]["value"]["parentCommit"] == head and sent.headers["authorization"] == f"Bearer {TOKEN}"
    assert repo.num_commits() == 2 and not repo.pulls
    readme = repo.files()["README.md"]
    front, body = FOREIGN.split(b"---\r\n# Toy")
    assert readme.startswith(front) and b"---\r\n# Toy" + body in readme
    assert b"\n" not in readme.replace(b"\r\n", b"") and readme.count(BEGIN.encode()) == 1
    assert b"base_model: acme/toy-1b\r\nbase_model_relation: quantized\r\n" in readme
    assert repo.files()["model.safetensors"] == b"weights"
    figures = [path for path in repo.files() if path.endswith(".png")]
    assert figures and all(path in readme.decode() for path in figures if "-dark" not in path)
    assert {line["value"]["path"] for line in lines[1:]} == {"README.md", *figures, *_results(repo)}
    again = publish()
    assert again.returncode == 0 and "Nothing to publish" in again.stdout
    assert repo.num_commits() == 2 and len(hub.sent("POST", "/commit/")) == 1


def _results(repo: Any) -> list[str]:
    return [path for path in repo.files() if path.startswith(".eval_results/")]


def test_a_repository_without_a_card_gets_all_of_ours_which_is_rendered_where_it_is_missing(
    hub: Any, publish: Any, run: Path
):
    repo = hub.add_repo(REPO)
    shutil.rmtree(run / "models")
    assert publish().returncode == 0
    assert repo.files()["README.md"] == (run / "models/toy-1b-w8a8/README.md").read_bytes()


def test_the_diff_is_shown_and_a_dry_run_stops_there(hub: Any, publish: Any, run: Path):
    repo = hub.add_repo(REPO, {"README.md": FOREIGN})
    done = publish("--dry-run")
    assert done.returncode == 0 and repo.num_commits() == 1
    assert "--- a/README.md" in done.stdout and f"+{BEGIN}" in done.stdout and "+base_model: acme/toy-1b" in done.stdout
    assert not re.search(r"^[+-](license|x-foo|Words)", done.stdout, re.MULTILINE) and "\x1b" not in done.stdout
    assert not hub.sent("POST", "/(commit|preupload|repos)")
    assert publish("--dry-run", token=None).returncode == 0  # a public repository may be read by anyone


def test_somebody_elses_repository_gets_a_pull_request_that_is_updated_and_never_doubled(
    hub: Any, publish: Any, run: Path
):
    repo = hub.add_repo(REPO, {"README.md": FOREIGN})
    first = publish(token=BOBS)
    assert first.returncode == 0 and f"{hub.url}/{REPO}/discussions/1" in first.stdout, first.stderr
    assert repo.files()["README.md"] == FOREIGN and END.encode() in repo.files("refs/pr/1")["README.md"]
    same = publish(token=BOBS)
    assert same.returncode == 0 and "pull request #1" in same.stdout and len(repo.pulls) == 1
    (run / "notes.md").write_text("Ask me.\n")
    assert invoke(["card", str(run)]) == 0
    updated = publish(token=BOBS)
    assert updated.returncode == 0 and "Updated pull request" in updated.stdout, updated.stderr
    assert len(repo.pulls) == 1 and repo.num_commits("refs/pr/1") == 3 and repo.num_commits() == 1
    repo.pulls[0].status = "closed"
    assert publish(token=BOBS).returncode == 0 and len(repo.pulls) == 2


def test_two_that_publish_at_the_same_moment_open_one_pull_request(hub: Any, publish: Any, run: Path):
    repo = hub.add_repo(REPO, {"README.md": FOREIGN})
    both = threading.Barrier(2)

    def wait() -> None:  # where both get here, both have seen that there is no request yet
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(6)

    for _ in range(2):
        hub.on("POST", "/commit/", wait)
    with ThreadPoolExecutor(2) as pool:
        done = [one.result() for one in [pool.submit(publish, token=BOBS) for _ in range(2)]]
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    assert len(repo.pulls) == 1 and sorted("Nothing to publish" in one.stdout for one in done) == [False, True]


def test_pull_requests_of_others_are_left_alone(hub: Any, hub_pull: Callable[..., None], publish: Any, run: Path):
    repo = hub.add_repo(REPO, {"README.md": FOREIGN})
    hub_pull(repo, "carol", "Accuracy against the baseline, measured with evalcard")
    hub_pull(repo, "bob", "Fix a typo")
    assert publish(token=BOBS).returncode == 0
    assert len(repo.pulls) == 3 and repo.num_commits("refs/pr/1") == 1


@pytest.fixture
def hub_pull(hub: Any) -> Callable[..., None]:
    def add(repo: Any, author: str, title: str) -> None:
        pull = sys.modules["evalcard_tests_cli_hub_server"].Pull(len(repo.pulls) + 1, author, title, "", "main")
        repo.pulls.append(pull)
        repo.refs[f"refs/pr/{pull.num}"] = repo.refs["main"]

    return add


def test_one_may_propose_to_ones_own_and_is_told_where_one_may_not_write(hub: Any, publish: Any, run: Path):
    repo = hub.add_repo(REPO, {"README.md": FOREIGN})
    assert publish("--create-pr").returncode == 0 and len(repo.pulls) == 1 and repo.num_commits() == 1
    refused = publish("--no-create-pr", token=BOBS)
    assert refused.returncode == 5 and "403" in refused.stderr and "--create-pr" in refused.stderr


def test_a_missing_repository_is_made_only_when_asked(hub: Any, publish: Any, run: Path):
    missing = publish()
    assert missing.returncode == 5 and "there is no model repository" in missing.stderr and "--create" in missing.stderr
    assert publish("--create", "--dry-run").returncode == 0 and not hub.repos
    made = publish("--create", "--private")
    assert made.returncode == 0, made.stderr
    assert BEGIN.encode() in hub.repos[REPO].files()["README.md"] and hub.repos[REPO].private


def test_a_repository_that_changed_meanwhile_is_told_and_nothing_is_pushed(hub: Any, publish: Any, run: Path):
    repo = hub.add_repo(REPO, {"README.md": FOREIGN})
    changed = FOREIGN + b"One more line.\r\n"
    hub.on("POST", "/commit/", lambda: repo.commit("main", {"README.md": changed}, repo.refs["main"]))
    done = publish()
    assert done.returncode == 5 and "changed meanwhile" in done.stderr and "Nothing was pushed" in done.stderr
    assert repo.files() == {"README.md": changed}
    assert publish().returncode == 0 and b"One more line.\r\n" in repo.files()["README.md"]


def test_metadata_that_the_hub_refuses_stops_before_anything_is_sent(hub: Any, publish: Any, run: Path):
    repo = hub.add_repo(REPO)
    body = b'{"errors": [{"message": "\\"license\\" must be one of [mit]"}]}'
    hub.fail("POST", "/validate-yaml", 400, body=body)
    done = publish()
    assert done.returncode == 5 and '"license" must be one of [mit]' in done.stderr
    assert not hub.sent("POST", "/commit/") and repo.num_commits() == 1


@pytest.mark.parametrize(
    ("facts", "repo", "said"),
    [
        ({"scheme": "w8a8"}, REPO, "evalcard quantize toy-1b-w8a8 --scheme w8a8"),
        ({"finished": False}, REPO, "the run gsm8k-0a1b2c3d is incomplete, and a card of a part of it must not be"),
        ({"hub_id": None}, REPO, "--base-model"),
        ({}, "no-slash", "ORG/NAME"),
    ],
)
def test_what_forbids_publishing_is_told_before_the_hub_is_thought_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], facts: dict[str, Any], repo: str, said: str
):
    path = write_run(tmp_path, **facts)
    assert invoke(["publish", path.name, "--out", str(tmp_path), "--repo", repo]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("left", [0, 1])
def test_a_run_that_was_killed_is_incomplete_whatever_is_asked_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left: int
):
    """With nothing finished, or with the baseline alone: one state, one wording."""
    folder = RunFolder(write_run(tmp_path, finished=False))
    run = folder.read_run()
    folder.write_run(run.model_copy(update={"models": run.models[:left], "resolved": {"compressed": ["toy-1b-w8a8"]}}))
    (folder.path / "comparison.json").unlink()
    asked = {"publish": 2, "report": 2, "compare": 2, "gate": 4}
    for command, code in asked.items():
        more = ["--repo", REPO] if command == "publish" else []
        assert invoke([command, run.name, "--out", str(tmp_path), *more]) == code, command
        said = capsys.readouterr().err
        assert f"the run {run.name} is incomplete" in said and "Give its `evalcard run` command again" in said, said
        assert "comparison.json" not in said


def test_offline_is_respected(hub: Any, publish: Any, run: Path):
    done = publish("--dry-run", HF_HUB_OFFLINE="1")
    assert done.returncode == 2 and "HF_HUB_OFFLINE" in done.stderr and not hub.requests


def test_a_card_with_errors_is_not_published(hub: Any, publish: Any, run: Path):
    hub.add_repo(REPO)
    assert publish("--dry-run").returncode == 0
    card = run / "models/toy-1b-w8a8/README.md"
    card.write_text(card.read_text().replace("library_name", "license: apache2\nlibrary_name", 1))
    before = len(hub.requests)
    done = publish()
    assert done.returncode == 2 and "apache-2.0" in done.stderr and len(hub.requests) == before


def test_the_token_is_kept_nowhere(hub: Any, publish: Any, run: Path, tmp_path: Path):
    hub.add_repo(REPO, {"README.md": FOREIGN})
    hub.fail("POST", "/commit/", 403, message=f"token {TOKEN} may not write")
    assert publish().returncode == 5 and publish().returncode == 0
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path
