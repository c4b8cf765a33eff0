"""A Hub on the loopback: the endpoints that publishing uses, with the answers that huggingface_hub expects.

Repositories have a commit chain for each ref, so that a stale parent, a pull request's branch and an unchanged file
behave as they must. Plain modules without fixtures, beside each other: tests load this one by its path.
"""

import base64
import hashlib
import importlib.util
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any


def _beside(name: str) -> ModuleType:
    """The module of that name in this folder, which is on nobody's path."""
    spec = importlib.util.spec_from_file_location(f"evalcard_tests_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


state, pages = _beside("hub_state"), _beside("hub_pages")
Account, Failure, Pull, Repo = state.Account, state.Failure, state.Pull, state.Repo


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *where: Any) -> None:
        """A client that waits no longer closes the connection, which is no fault of this one."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*where)


class FakeHub:
    """``with FakeHub() as hub``: it listens at ``hub.url``; every request is in ``hub.requests``."""

    def __init__(self) -> None:
        self.repos: dict[str, Any] = {}
        self.accounts: dict[str, Any] = {}
        self.requests: list[Any] = []
        self.lfs: dict[str, bytes] = {}
        self.verified: set[str] = set()
        self.failures: list[Any] = []
        self.benchmarks = ["openai/gsm8k", "Idavidrein/gpqa"]
        self.stale_status = 412
        """How a stale parentCommit is refused; the real Hub's answer is not known."""
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "FakeHub":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add_account(self, token: str, name: str, **orgs: str) -> Any:
        self.accounts[token] = Account(name, dict(orgs))
        return self.accounts[token]

    def add_repo(self, repo_id: str, files: Mapping[str, bytes] | None = None, **facts: Any) -> Any:
        repo = self.repos[repo_id] = Repo(repo_id.split("/")[0], **facts)
        repo.commit("main", {".gitattributes": b"*.png filter=lfs\n", **(files or {})}, None, "initial commit")
        return repo

    def fail(
        self, method: str, pattern: str, status: int, *, code: str = "", message: str = "", body: bytes = b"{}",
        times: int = 1, before: Callable[[], None] | None = None, **headers: str,
    ) -> None:  # fmt: skip
        """Answer the next request that matches with an error; ``before`` runs first."""
        given = {"X-Error-Code": code, "X-Error-Message": message, **headers}
        given = {name.replace("_", "-"): value for name, value in given.items() if value}
        self.failures.append(Failure(method, pattern, status, given, body, times, before))

    def on(self, method: str, pattern: str, happens: Callable[[], Any]) -> None:
        """Let something happen just before the next request that matches is served."""
        self.failures.append(Failure(method, pattern, 0, {}, b"", 1, happens))

    def sent(self, method: str, pattern: str) -> list[Any]:
        return [one for one in self.requests if one.method == method and re.search(pattern, one.path)]


def _handler(hub: FakeHub) -> type[Any]:
    class Handler(Writes):
        state = hub
        routes = ROUTES

    return Handler


class Writes(pages.Pages):
    """What changes a repository: the three steps of an upload, and the commit."""

    def preupload(self, repo_id: str, revision: str) -> None:
        propose = self.query.get("create_pr") == "1" or revision.startswith("refs/pr/")
        repo = self._repo(repo_id, write=True, propose=propose)
        commit = self._commit_at(repo, revision) if repo else None
        if commit is None:
            return
        answers = []
        for one in json.loads(self.body)["files"]:
            base64.b64decode(one["sample"], validate=True)
            is_lfs = one["path"].endswith(".png")
            content = commit.files.get(one["path"])
            oid = (
                None if content is None else hashlib.sha256(content).hexdigest() if is_lfs else state.blob_oid(content)
            )
            mode = "lfs" if is_lfs else "regular"
            answers.append({"path": one["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        self._json({"files": answers})

    def batch(self, repo_id: str) -> None:
        if self._repo(repo_id, write=True, propose=True) is None:
            return
        objects = []
        for one in json.loads(self.body)["objects"]:
            actions = {
                "upload": {"href": f"{self.state.url}/lfs/{one['oid']}?signature=secret"},
                "verify": {"href": f"{self.state.url}/verify/{one['oid']}"},
            }
            # Uploading is a matter between client and storage: a Hub learns of it when the client has it verified.
            known = one["oid"] in self.state.verified
            objects.append({**one, "authenticated": True, **({} if known else {"actions": actions})})
        self._json({"transfer": "basic", "objects": objects})

    def upload(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            self._error(400, "", "content does not match its sha256")
            return
        self.state.lfs[oid] = self.body
        self._answer(200, b"")

    def verify(self, oid: str) -> None:
        asked = json.loads(self.body)
        content = self.state.lfs.get(asked["oid"], b"")
        if asked["oid"] != oid or len(content) != asked["size"]:
            self._error(404, "", "object was not uploaded")
            return
        self.state.verified.add(oid)
        self._json({"message": "ok"})

    def commit(self, repo_id: str, revision: str) -> None:
        creates = self.query.get("create_pr") == "1"
        repo = self._repo(repo_id, write=True, propose=creates or revision.startswith("refs/pr/"))
        at = self._commit_at(repo, revision) if repo else None
        if repo is None or at is None:
            return
        lines = [json.loads(line) for line in self.body.splitlines()]
        header = lines[0]["value"]
        parent = header.get("parentCommit", at.oid)
        if not creates and parent != at.oid:
            self._error(self.state.stale_status, "", "The expected parent commit is not the head of the branch")
            return
        files = dict(repo.files(parent))
        try:
            files |= dict(self._operations(lines[1:]))
        except ValueError as error:
            self._error(400, "", str(error))
            return
        errors = state.metadata_errors(files.get("README.md", b"").decode("utf-8", "replace"))
        if errors:
            self._error(400, "", "; ".join(errors))
            return
        self._make(repo, repo_id, revision, files, parent, header, creates)

    def _operations(self, lines: list[dict[str, Any]]) -> Iterator[tuple[str, bytes]]:
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                content = base64.b64decode(value["content"], validate=True)
                if b"\0" in content:
                    raise ValueError("Your push was rejected because it contains binary files")
                yield value["path"], content
            elif line["key"] == "lfsFile":
                if value["oid"] not in self.state.verified:
                    raise ValueError(f"LFS pointer pointed to a file that does not exist: {value['oid']}")
                yield value["path"], self.state.lfs[value["oid"]]
            else:
                raise ValueError(f"unknown operation {line['key']}")

    def _make(
        self, repo: Any, repo_id: str, revision: str, files: dict[str, bytes], parent: str, header: dict[str, Any],
        creates: bool,
    ) -> None:  # fmt: skip
        title, text = header["summary"], header.get("description", "")
        answer = {}
        if creates:
            assert self.account is not None
            pull = Pull(len(repo.pulls) + 1, self.account.name, title, text, revision)
            repo.pulls.append(pull)
            revision = f"refs/pr/{pull.num}"
            answer["pullRequestUrl"] = f"{self.state.url}/{repo_id}/discussions/{pull.num}"
        oid = repo.commit(revision, files, parent, title, text)
        self._json({"commitUrl": f"{self.state.url}/{repo_id}/commit/{oid}", "commitOid": oid, **answer})


_ID = r"([\w.-]+/[\w.-]+)"
ROUTES: list[tuple[str, str, Callable[..., None]]] = [
    (r"/api/whoami-v2", "GET", Writes.whoami),
    (r"/api/datasets", "GET", Writes.datasets),
    (r"/api/validate-yaml", "POST", Writes.validate),
    (r"/api/repos/create", "POST", Writes.create),
    (rf"/api/models/{_ID}/revision/([^/]+)", "GET", Writes.info),
    (rf"/api/models/{_ID}/paths-info/([^/]+)", "POST", Writes.paths_info),
    (rf"/api/models/{_ID}/preupload/([^/]+)", "POST", Writes.preupload),
    (rf"/api/models/{_ID}/commit/([^/]+)", "POST", Writes.commit),
    (rf"/api/models/{_ID}/discussions", "GET", Writes.discussions),
    (rf"/api/models/{_ID}/discussions/(\d+)", "GET", Writes.discussion),
    (rf"/api/models/{_ID}", "GET", Writes.info),
    (rf"/{_ID}\.git/info/lfs/objects/batch", "POST", Writes.batch),
    (r"/lfs/([0-9a-f]{64})", "PUT", Writes.upload),
    (r"/verify/([0-9a-f]{64})", "POST", Writes.verify),
    (rf"/{_ID}/resolve/([^/]+)/(.+)", "GET", Writes.resolve),
    (rf"/{_ID}/resolve/([^/]+)/(.+)", "HEAD", Writes.resolve),
]
