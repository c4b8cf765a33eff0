"""How a loopback Hub answers: whose token it is, what may be seen, and all that only reads."""

import hashlib
import json
import re
import urllib.parse
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from evalcard_tests_hub_state import FRONT, Account, Commit, Failure, Pull, Repo, Request, blob_oid, metadata_errors

JSON = "application/json"


class Pages(BaseHTTPRequestHandler):
    """Of one request. ``state`` is the FakeHub, ``routes`` what is served by (pattern, method)."""

    state: Any
    routes: list[tuple[str, str, Callable[..., None]]] = []
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing is written beside what a test prints."""

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - names that http.server asks for

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.query = dict(urllib.parse.parse_qsl(query))
        self.body = body
        self.state.requests.append(Request(self.command, path, self.query, lower(self.headers), body))
        failure = next((one for one in self.state.failures if self._fails(one, path)), None)
        if failure is not None:
            failure.times -= 1
            if failure.before is not None:
                failure.before()
            if failure.status:
                self._answer(failure.status, failure.body, failure.headers)
                return
        for pattern, method, serve in self.routes:
            match = re.fullmatch(pattern, path)
            if match and method == self.command:
                serve(self, *map(urllib.parse.unquote, match.groups()))
                return
        self._error(404, "", "no such page")

    def _fails(self, failure: Failure, path: str) -> bool:
        return failure.times > 0 and failure.method == self.command and bool(re.search(failure.pattern, path))

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        given = {"Content-Type": JSON, "Content-Length": str(len(body)), **(headers or {})}
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, data: Any, status: int = 200) -> None:
        self._answer(status, json.dumps(data).encode())

    def _error(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message} if code else {"X-Error-Message": message}
        self._answer(status, json.dumps({"error": message}).encode(), headers)

    @property
    def account(self) -> Account | None:
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        return self.state.accounts.get(token) if kind == "Bearer" else None

    def _has_bad_token(self) -> bool:
        return "Authorization" in self.headers and self.account is None

    def _repo(self, repo_id: str, write: bool = False, propose: bool = False) -> Repo | None:
        """The repository where this account may do that; else None, and the refusal is sent."""
        repo = self.state.repos.get(repo_id)
        if self._has_bad_token():
            self._error(401, "", "Invalid credentials in Authorization header")
        elif repo is None or (repo.private and not (self.account and self.account.may_write(repo.owner))):
            self._error(404 if self.account else 401, "RepoNotFound", "Repository not found")
        elif repo.gated and not (self.account and self.account.may_write(repo.owner)):
            self._error(403, "GatedRepo", "Access to this model is restricted")
        elif write and self.account is None:
            self._error(401, "", "Please log in")
        elif write and not propose and not self.account.may_write(repo.owner):  # type: ignore[union-attr]
            self._error(403, "", "You don't have the rights to push to this repository")
        else:
            return repo
        return None

    def _commit_at(self, repo: Repo, revision: str) -> Commit | None:
        found = repo.at(revision)
        if found is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return found

    def whoami(self) -> None:
        if self.account is None:
            self._error(401, "", "Invalid credentials in Authorization header")
            return
        orgs = [{"name": name, "roleInOrg": role, "type": "org"} for name, role in self.account.orgs.items()]
        self._json(
            {"type": "user", "name": self.account.name, "orgs": orgs, "auth": {"accessToken": {"role": "write"}}}
        )

    def datasets(self) -> None:
        """Only the registered benchmarks are known here."""
        ids = self.state.benchmarks if self.query.get("filter") == "benchmark:official" else []
        self._json([{"id": one, "tags": ["benchmark:official"]} for one in ids])

    def validate(self) -> None:
        """As text for card.validate, as JSON for create_commit."""
        asked = json.loads(self.body)
        errors = metadata_errors(asked["content"])
        if self.headers.get("Accept") == "text/plain":
            self._answer(400 if errors else 200, "\n".join(f"- Error: {one}" for one in errors).encode())
            return
        notes = [] if FRONT.match(asked["content"]) else [{"message": "empty or missing yaml metadata in repo card"}]
        self._json({"errors": [{"message": one} for one in errors], "warnings": notes}, 400 if errors else 200)

    def create(self) -> None:
        if self.account is None:
            self._error(401, "", "Invalid credentials in Authorization header")
            return
        asked = json.loads(self.body)
        owner = asked.get("organization") or self.account.name
        repo_id = f"{owner}/{asked['name']}"
        if repo_id in self.state.repos:
            self._error(409, "", "You already created this model repo")
        elif not self.account.may_write(owner):
            self._error(403, "", "You don't have the rights to create a model under this namespace")
        else:
            self.state.add_repo(repo_id, private=bool(asked.get("private") or asked.get("visibility") == "private"))
            self._json({"url": f"{self.state.url}/{repo_id}", "id": repo_id})

    def info(self, repo_id: str, revision: str = "main") -> None:
        repo = self._repo(repo_id)
        commit = self._commit_at(repo, revision) if repo else None
        if commit is not None:
            files = [{"rfilename": path} for path in commit.files]
            self._json({"id": repo_id, "sha": commit.oid, "siblings": files, "private": False})

    def paths_info(self, repo_id: str, revision: str) -> None:
        repo = self._repo(repo_id)
        commit = self._commit_at(repo, revision) if repo else None
        if repo is None or commit is None:
            return
        asked = urllib.parse.parse_qs(self.body.decode())["paths"]
        self._json([path_info(path, commit.files[path]) for path in asked if path in commit.files])

    def resolve(self, repo_id: str, revision: str, path: str) -> None:
        repo = self._repo(repo_id)
        commit = self._commit_at(repo, revision) if repo else None
        if commit is None:
            return
        if path not in commit.files:
            self._error(404, "EntryNotFound", "Entry not found")
            return
        content = commit.files[path]
        etag = f'"{hashlib.sha256(content).hexdigest() if path.endswith(".png") else blob_oid(content)}"'
        kind = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
        self._answer(200, content, {"ETag": etag, "X-Repo-Commit": commit.oid, **kind})

    def discussions(self, repo_id: str) -> None:
        repo = self._repo(repo_id)
        if repo is None:
            return
        author, status = self.query.get("author"), self.query.get("status", "all")
        found = [p for p in repo.pulls if author in (None, p.author) and (status == "all" or p.status == status)]
        self._json({"count": len(found), "start": 0, "discussions": [pull_info(repo_id, one) for one in found]})

    def discussion(self, repo_id: str, num: str) -> None:
        repo = self._repo(repo_id)
        pull = next((one for one in repo.pulls if one.num == int(num)), None) if repo else None
        if pull is None:
            if repo is not None:
                self._error(404, "EntryNotFound", "no such discussion")
            return
        more = {"events": [], "changes": {"base": pull.base}, "filesWithConflicts": [], "diff": ""}
        self._json({**pull_info(repo_id, pull), **more})


def lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def path_info(path: str, content: bytes) -> dict[str, Any]:
    info = {"type": "file", "path": path, "size": len(content), "oid": blob_oid(content)}
    if path.endswith(".png"):
        info["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
    return info


def pull_info(repo_id: str, pull: Pull) -> dict[str, Any]:
    return {
        "num": pull.num, "title": pull.title, "status": pull.status, "isPullRequest": True,
        "author": {"name": pull.author}, "createdAt": "2026-01-01T00:00:00.000Z",
        "repo": {"name": repo_id, "type": "model"},
    }  # fmt: skip
