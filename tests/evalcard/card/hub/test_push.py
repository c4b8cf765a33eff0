"""Where a card goes, what is asked for it, and what is said where the Hub does not take it."""

import hashlib
import json
import re
import threading
from typing import Any

import pytest

from evalcard.card.hub.push import Look, Wish, look, push
from evalcard.errors import UserError

REPO, TITLE = "acme/toy-1b-w8a8", "Ours"
TOKEN = "hf_alicesecret0123456789"


def send(client: Any, card: Any, wish: Wish | None = None) -> tuple[Look, Any]:
    wish = wish or Wish()
    seen = look(client, card, wish, TITLE)
    return seen, push(client, seen, wish, TITLE, "Said.\n") if seen.plan.changes else None


def test_one_commit_with_its_parent_and_figures_through_lfs(hub: Any, make_client: Any, card: Any):
    repo = hub.add_repo(REPO, {"README.md": b"# Theirs\n"})
    head = repo.refs["main"]
    _, done = send(make_client(), card)
    (sent,) = hub.sent("POST", "/commit/")
    header, *files = [json.loads(line) for line in sent.body.splitlines()]
    assert header["value"] == {"summary": TITLE, "description": "Said.\n", "parentCommit": head}
    figure = card.files["figures/recovery.png"]
    assert {(one["key"], one["value"]["path"]) for one in files} == {
        ("file", "README.md"), ("file", ".eval_results/gsm8k.yaml"), ("lfsFile", "figures/recovery.png"),
    }  # fmt: skip
    assert hub.verified == {hashlib.sha256(figure).hexdigest()}
    assert repo.refs["main"] == done.oid and repo.files()["figures/recovery.png"] == figure
    assert done.request_url is None and done.url == f"{hub.url}/{REPO}/commit/{done.oid}"


def test_a_second_time_only_what_is_there_is_read(hub: Any, make_client: Any, card: Any):
    repo = hub.add_repo(REPO)
    send(make_client(), card)
    before = len(hub.requests)
    seen, done = send(make_client(), card)
    assert done is None and seen.plan.changes == () and len(seen.plan.same) == 3
    asked = [(one.method, one.path.split("/")[-1]) for one in hub.requests[before:]]
    assert ("GET", "README.md") in asked and ("GET", "recovery.png") not in asked  # its hash tells
    assert repo.num_commits() == 2 and not any(method == "POST" and "preupload" in path for method, path in asked)


def test_a_figure_drawn_by_another_version_is_not_sent_again(hub: Any, make_client: Any, card: Any, png: Any):
    repo = hub.add_repo(REPO)
    send(make_client(), card)
    first = repo.files()["figures/recovery.png"]
    redrawn = {**card.files, "figures/recovery.png": png("0" * 64, software="two")}
    assert redrawn["figures/recovery.png"] != first
    other = type(card)(card.run, card.slug, card.base_model, card.text, redrawn)
    assert send(make_client(), other)[1] is None and repo.files()["figures/recovery.png"] == first
    redrawn["figures/recovery.png"] = png("1" * 64)
    seen, _ = send(make_client(), other)
    assert [change.path for change in seen.plan.changes] == ["figures/recovery.png"]


@pytest.mark.parametrize(
    ("repo_id", "wish", "expected"),
    [
        ("alice/own", Wish(), ("main", False)),
        (REPO, Wish(), ("main", False)),
        (REPO, Wish(create_pr=True), ("main", True)),
        ("visitors/theirs", Wish(), ("main", True)),
        ("stranger/theirs", Wish(), ("main", True)),
        ("stranger/theirs", Wish(create_pr=False), ("main", False)),
        ("stranger/theirs", Wish(revision="refs/pr/7"), ("refs/pr/7", False)),
        (REPO, Wish(revision="draft"), ("draft", False)),
    ],
)
def test_who_owns_it_decides_between_commit_and_pull_request(
    hub: Any, make_client: Any, card: Any, repo_id: str, wish: Wish, expected: tuple[str, bool]
):
    repo = hub.add_repo(repo_id)
    repo.refs |= {"draft": repo.refs["main"], "refs/pr/7": repo.refs["main"]}
    target = look(make_client(repo_id), card, wish, TITLE).target
    assert (target.revision, target.opens_request) == expected and target.head == repo.refs["main"]


def test_of_several_open_requests_of_ours_the_newest_is_updated_and_the_others_are_named(
    hub: Any, hub_server: Any, make_client: Any, card: Any
):
    repo = hub.add_repo("stranger/theirs")
    for num, (author, status) in enumerate(
        [("alice", "open"), ("alice", "open"), ("bob", "open"), ("alice", "merged")]
    ):
        repo.pulls.append(hub_server.Pull(num + 1, author, TITLE, "", "main", status))
        repo.refs[f"refs/pr/{num + 1}"] = repo.refs["main"]
    seen, done = send(make_client("stranger/theirs"), card)
    assert seen.target.request.num == 2 and [one.num for one in seen.target.others] == [1]
    assert repo.refs["refs/pr/2"] == done.oid and len(repo.pulls) == 4
    (sent,) = hub.sent("POST", "/commit/")
    assert sent.path.endswith("/commit/refs%2Fpr%2F2") and "create_pr" not in sent.query


def test_contradicting_wishes_and_no_token_are_refused_before_any_request(
    hub: Any, make_client: Any, card: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    with pytest.raises(UserError, match="--revision draft"):
        look(make_client(), card, Wish(create_pr=True, revision="draft"), TITLE)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(UserError, match="no token") as caught:
        look(make_client(), card, Wish(), TITLE)
    assert caught.value.exit_code == 2 and not hub.requests


FAULTS: list[tuple[str, str, int, dict[str, str], list[str]]] = [
    ("GET", "/whoami", 401, {}, ["does not know this token", "hf auth login"]),
    ("GET", "/whoami", 429, {}, ["takes no more requests", "Wait"]),
    ("GET", "/revision/", 401, {"message": "Repository not found"}, ["no model repository", "--create"]),
    ("GET", "/revision/", 404, {"code": "RepoNotFound"}, ["no model repository"]),
    ("GET", "/revision/", 404, {"code": "RevisionNotFound"}, ["no such branch", "--revision"]),
    ("GET", "/revision/", 403, {"code": "GatedRepo"}, ["gated", "Accept its terms at https://"]),
    ("GET", "/revision/", 403, {"message": "Access to this resource is disabled."}, ["disabled"]),
    ("POST", "/paths-info/", 404, {}, ["no such page", "HF_ENDPOINT"]),
    ("POST", "/paths-info/", 500, {}, ["problem of its own (500"]),
    ("HEAD", "/resolve/", 403, {"code": "GatedRepo"}, ["gated"]),
    ("POST", "/validate-yaml", 502, {}, ["problem of its own (502"]),
    ("POST", "/commit/", 401, {"message": "Invalid credentials in Authorization header"}, ["(401)"]),
    ("POST", "/commit/", 402, {}, ["paid plan"]),
    ("POST", "/commit/", 403, {"message": "no rights"}, ["may not do that", "no rights", "--create-pr"]),
    ("POST", "/commit/", 409, {"message": "head moved"}, ["changed meanwhile", "head moved"]),
    ("POST", "/commit/", 413, {}, ["too large"]),
    ("POST", "/commit/", 429, {}, ["takes no more requests"]),
    ("POST", "/commit/", 503, {}, ["503", "Whether the commit was made is not known"]),
    ("POST", "/commit/", 418, {"message": "teapot"}, ["answered 418: teapot"]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "pattern", "status", "facts", "said"), FAULTS)
def test_every_refusal_has_words_of_its_own_and_loses_nothing(
    hub: Any, make_client: Any, card: Any, method: str, pattern: str, status: int, facts: dict[str, str],
    said: list[str],
):  # fmt: skip
    repo = hub.add_repo(REPO, {"README.md": b"# Theirs\n"})
    hub.fail(method, pattern, status, times=9, **facts)
    with pytest.raises(UserError) as caught:
        send(make_client(), card)
    text = str(caught.value)
    assert caught.value.exit_code == 5 and all(one in text for one in said), text
    assert ("Nothing was pushed" in text) == ("is not known" not in text) and "unchanged on this machine" in text
    assert repo.num_commits() == 1 and TOKEN not in text
    hub.failures.clear()
    assert send(make_client(), card)[1] is not None and repo.num_commits() == 2


@pytest.mark.parametrize("status", [400, 409, 412])
def test_a_stale_parent_is_told_however_it_is_refused(hub: Any, make_client: Any, card: Any, status: int):
    repo = hub.add_repo(REPO, {"README.md": b"# Theirs\n"})
    hub.stale_status = status
    seen = look(make_client(), card, Wish(), TITLE)
    repo.commit("main", {"README.md": b"# Changed\n"}, repo.refs["main"])
    with pytest.raises(UserError, match="changed meanwhile.*Nothing was pushed") as caught:
        push(make_client(), seen, Wish(), TITLE, "")
    assert caught.value.exit_code == 5 and repo.files() == {"README.md": b"# Changed\n"}


def test_a_token_in_what_the_hub_says_is_left_out(hub: Any, make_client: Any, card: Any):
    hub.add_repo(REPO)
    hub.fail("POST", "/commit/", 403, message=f"bad {TOKEN} and hf_anotherone123456")
    with pytest.raises(UserError) as caught:
        send(make_client(), card)
    assert TOKEN not in str(caught.value) and "hf_another" not in str(caught.value)


def test_metadata_that_the_hub_refuses_is_listed(hub: Any, make_client: Any, card: Any):
    repo = hub.add_repo(REPO)
    hub.fail(
        "POST", "/validate-yaml", 400, body=json.dumps({"errors": [{"message": "one"}, {"message": "two"}]}).encode()
    )
    with pytest.raises(UserError, match="refuses the metadata of README.md: one; two") as caught:
        send(make_client(), card)
    assert caught.value.exit_code == 5 and caught.value.faults == ("one", "two") and repo.num_commits() == 1


def test_a_hub_that_says_nothing_is_left_after_a_while(hub: Any, make_client: Any, card: Any):
    repo = hub.add_repo(REPO)
    release = threading.Event()
    hub.on("POST", "/commit/", lambda: release.wait(20))
    with pytest.raises(UserError, match="did not answer in time") as caught:
        send(make_client(seconds=0.5), card)
    release.set()
    assert caught.value.exit_code == 5 and "Whether the commit was made is not known" in str(caught.value)
    assert repo is hub.repos[REPO]


def test_a_hub_that_is_not_there_is_told(hub: Any, make_client: Any, card: Any):
    client = make_client()
    hub.__exit__()
    with pytest.raises(UserError, match="cannot be reached") as caught:
        look(client, card, Wish(), TITLE)
    assert caught.value.exit_code == 5


def test_what_is_no_hub_is_told(hub: Any, make_client: Any, card: Any):
    hub.fail("GET", "/whoami", 200, body=b"<html>a login page</html>")
    with pytest.raises(UserError, match="cannot be read") as caught:
        look(make_client(), card, Wish(), TITLE)
    assert caught.value.exit_code == 5


def test_a_new_repository_is_made_with_the_push_and_not_before(hub: Any, make_client: Any, card: Any):
    wish = Wish(create=True, private=True)
    seen = look(make_client(), card, wish, TITLE)
    assert not hub.repos and {change.kind for change in seen.plan.changes} == {"new"}
    push(make_client(), seen, wish, TITLE, "")
    assert hub.repos[REPO].private and hub.repos[REPO].files()["README.md"] == card.text.encode()


def test_a_card_without_front_matter_on_the_hub_is_noted_not_refused(hub: Any, make_client: Any, card: Any):
    hub.add_repo(REPO, {"README.md": b"# Only words\n"})
    hub.fail("POST", "/validate-yaml", 200, body=b'{"errors": [], "warnings": [{"message": "empty metadata"}]}')
    _, done = send(make_client(), card)
    assert any("empty metadata" in one for one in done.warnings)


def test_a_request_that_another_machine_opened_at_the_same_time_is_named(
    hub: Any, hub_server: Any, make_client: Any, card: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_bobsecret0123456789")
    repo = hub.add_repo(REPO)
    hub.on("POST", "/commit/", lambda: repo.pulls.append(hub_server.Pull(1, "bob", TITLE, "", "main")))
    _, done = send(make_client(), card)
    assert done.request_num == 2 and len(repo.pulls) == 2
    (said,) = done.warnings
    assert "pull request #1 of yours was opened at the same time" in said and f"{hub.url}/{REPO}/discussions/1" in said
    repo.pulls.clear()
    assert not send(make_client(), card)[1].warnings
    repo.pulls.clear()
    hub.on("POST", "/commit/", lambda: hub.fail("GET", "/discussions", 403))
    (said,) = send(make_client(), card)[1].warnings
    assert "did not say" in said and len(repo.pulls) == 1


def test_figures_that_were_uploaded_and_not_verified_are_sent_again(hub: Any, make_client: Any, card: Any):
    repo = hub.add_repo(REPO)
    hub.fail("POST", "/verify/", 403)
    with pytest.raises(UserError):
        send(make_client(), card)
    assert hub.lfs and not hub.verified and repo.num_commits() == 1
    send(make_client(), card)
    assert repo.files()["figures/recovery.png"] == card.files["figures/recovery.png"]


def test_results_of_a_benchmark_that_the_hub_lists_no_more_are_named(hub: Any, make_client: Any, card: Any):
    hub.add_repo(REPO)
    assert look(make_client(), card, Wish(), TITLE).unregistered == ()
    hub.benchmarks = ["other/data"]
    assert look(make_client(), card, Wish(), TITLE).unregistered == (".eval_results/gsm8k.yaml",)
    hub.fail("GET", "/api/datasets", 500, times=1)
    assert look(make_client(), card, Wish(), TITLE).unregistered == ()
    send(make_client(), card)
    before = len(hub.sent("GET", "/api/datasets"))
    assert send(make_client(), card)[1] is None and len(hub.sent("GET", "/api/datasets")) == before


def test_no_weights_are_sent_whatever_lies_in_the_folder(hub: Any, make_client: Any, card: Any):
    hub.add_repo(REPO)
    send(make_client(), card)
    sent = [json.loads(line) for one in hub.sent("POST", "/commit/") for line in one.body.splitlines()][1:]
    assert all(
        re.fullmatch(r"README\.md|figures/.*\.png|\.eval_results/.*\.yaml", one["value"]["path"]) for one in sent
    )
