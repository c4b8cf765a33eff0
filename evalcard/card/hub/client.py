"""The Hub as publishing needs it: a handful of questions and one commit, every failure in words."""

import contextlib
import hashlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evalcard.card.hub.faults import failure, refused_metadata
from evalcard.errors import UserError

MAIN = "main"
SECONDS = 60.0
"""Without a word of the Hub; its client's own would wait for ever."""
_ASIDE = 5.0
"""Seconds for a question that publishing can do without."""
_MAY_WRITE = ("admin", "write")
_UNDECIDED = ("open", "draft")


@dataclass(frozen=True, slots=True)
class Account:
    """Whose token it is."""

    name: str
    writable: frozenset[str]
    """Namespaces whose repositories it may write: the account's own and organisations that say so."""


@dataclass(frozen=True, slots=True)
class Request:
    """A pull request."""

    num: int
    url: str

    @property
    def revision(self) -> str:
        return f"refs/pr/{self.num}"


@dataclass(frozen=True, slots=True)
class Pushed:
    """A commit that was made."""

    oid: str
    url: str
    request_url: str | None
    """Of the pull request that it opened; None where it opened none."""
    request_num: int | None
    warnings: tuple[str, ...]
    """What the Hub says of the metadata without refusing it."""


class Hub:
    """One model repository. Every method raises PublishFailed (exit code 5) where the Hub does not do it.

    Made without asking anything; the token is the one of HF_TOKEN or `hf auth login`, and is kept nowhere else.
    """

    def __init__(self, repo: str, *, endpoint: str | None = None, seconds: float = SECONDS) -> None:
        # HF_ENDPOINT is read when this is imported, so no module of ours imports it before its command runs.
        from huggingface_hub import HfApi, constants, get_token
        from huggingface_hub.utils import disable_progress_bars

        if constants.HF_HUB_OFFLINE:
            raise UserError(
                "publishing needs the Hub, and HF_HUB_OFFLINE forbids connections. Unset it, then publish again; "
                "`evalcard card RUN --check` checks the card without the Hub."
            )
        disable_progress_bars()
        self.repo = repo
        self._token = get_token()
        self._seconds = seconds
        # Where there is no token none must be sent: the client would take an expired one of its own.
        self._api: Any = HfApi(endpoint=endpoint, token=self._token or False)

    @property
    def endpoint(self) -> str:
        return str(self._api.endpoint)

    @property
    def has_token(self) -> bool:
        return self._token is not None

    def account(self) -> Account:
        """Whose token it is; there must be one."""
        assert self._token is not None
        with self._asking("asking whose token it is"):
            data = self._api.whoami()
            orgs = [one for one in data.get("orgs") or () if one.get("roleInOrg") in _MAY_WRITE]
            return Account(data["name"], frozenset([data["name"], *(one["name"] for one in orgs)]))

    def create(self, private: bool) -> None:
        """Make the repository; one that exists already stays as it is."""
        with self._asking("making the repository"):
            self._api.create_repo(self.repo, private=private or None, exist_ok=True)

    def exists(self) -> bool:
        with self._asking("reading the repository"):
            return bool(self._api.repo_exists(self.repo))

    def head(self, revision: str = MAIN) -> str:
        """The commit that a branch or pull request is at."""
        with self._asking("reading the repository"):
            return str(self._api.model_info(self.repo, revision=revision).sha)

    def read(self, wanted: Mapping[str, bytes | None], head: str) -> dict[str, bytes]:
        """What the repository holds at these paths, by path; nothing where it has none. What is, by its hash, the
        content given is not fetched."""
        with self._asking("reading the repository"):
            found = [one for one in self._api.get_paths_info(self.repo, list(wanted), revision=head) if _is_blob(one)]
            with TemporaryDirectory(prefix="evalcard-") as folder:
                return {one.path: self._content(one, wanted[one.path], head, folder) for one in found}

    def _content(self, info: Any, ours: bytes | None, head: str, folder: str) -> bytes:
        if ours is not None and _has_content(info, ours):
            return ours
        # Into a folder of its own, as a cache may be read-only or full.
        path = self._api.hf_hub_download(self.repo, info.path, revision=head, cache_dir=folder)
        return Path(path).read_bytes()

    def requests(self, author: str, title: str) -> list[Request]:
        """Pull requests of this account with this title that are still open, the newest first."""
        with self._asking("reading the pull requests"):
            found = self._api.get_repo_discussions(
                self.repo, author=author, discussion_type="pull_request", discussion_status="open"
            )
            mine = [
                Request(one.num, one.url)
                for one in found
                if one.is_pull_request and one.status in _UNDECIDED and one.title == title and one.author == author
            ]
        return sorted(mine, key=lambda one: -one.num)

    def benchmarks(self) -> frozenset[str] | None:
        """Data sets that the Hub has a leaderboard for; None where it does not say, which is no reason to stop."""
        from huggingface_hub.utils import build_hf_headers, get_session

        try:
            answer = get_session().get(
                f"{self.endpoint}/api/datasets",
                params={"filter": "benchmark:official", "limit": 1000},
                headers=build_hf_headers(token=self._token or False),
                timeout=_ASIDE,
            )
            answer.raise_for_status()
            return frozenset(str(one["id"]) for one in answer.json()) or None
        except Exception:  # noqa: BLE001 - a question aside: the Hub decides by itself what it shows
            return None

    def commit(
        self, files: Mapping[str, bytes], *, title: str, description: str, parent: str, revision: str, create_pr: bool
    ) -> Pushed:
        """All files in one commit on ``parent``, which the branch must still be at. A list of what the Hub finds wrong
        with the metadata is a PublishFailed as well."""
        from huggingface_hub import CommitOperationAdd

        operations = [CommitOperationAdd(path_in_repo=path, path_or_fileobj=data) for path, data in files.items()]
        with self._asking("the push"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                done = self._api.create_commit(
                    self.repo, operations, commit_message=title, commit_description=description, parent_commit=parent,
                    revision=revision, create_pr=create_pr,
                )  # fmt: skip
            except ValueError as error:
                if "Invalid metadata" in str(error):
                    raise refused_metadata(error, self._token) from None
                raise
        said = [str(one.message) for one in caught if "metadata" in str(one.message)]
        return Pushed(done.oid, done.commit_url, done.pr_url, done.pr_num, tuple(said))

    @contextlib.contextmanager
    def _asking(self, doing: str) -> Iterator[None]:
        """Within it the Hub is asked, with a bound on its silence; whatever goes wrong is told in words."""
        from huggingface_hub.utils import get_session

        get_session().timeout = self._seconds
        try:
            yield
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001 - the client and what lies below it fail in many types
            raise failure(error, self.repo, self._token, doing=doing) from None


def _is_blob(info: Any) -> bool:
    return hasattr(info, "blob_id")


def _has_content(info: Any, ours: bytes) -> bool:
    """By the hash that git, or LFS, names it with."""
    if info.lfs is not None:
        return bool(info.lfs.sha256 == hashlib.sha256(ours).hexdigest())
    return bool(info.blob_id == hashlib.sha1(b"blob %d\0" % len(ours) + ours).hexdigest())
