"""What a loopback Hub knows: repositories with a chain of commits for each ref, pull requests, accounts."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import yaml

FRONT = re.compile(r"^\ufeff?\s*---(?:\r\n|\r|\n)([\S\s]*?)(?:\r\n|\r|\n)---[ \t]*(?:\r\n|\n|$)")
LICENSES = {"apache-2.0", "mit", "llama3.1", "gemma", "other", "unknown"}


def blob_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def metadata_errors(text: str) -> list[str]:
    """What the Hub refuses of the front matter, as far as it is known."""
    match = FRONT.match(text)
    if match is None:
        return []
    try:
        data = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError):  # a date that no calendar has
        return ["YAML in the metadata cannot be parsed"]
    if not isinstance(data, dict):
        return ["metadata must be an object"]
    errors = []
    if "license" in data and data["license"] not in LICENSES:
        errors.append(f'"license" must be one of [{", ".join(sorted(LICENSES))}]')
    if "base_model" in data and not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", str(data["base_model"])):
        errors.append('"base_model" with value is not valid. Use a model id from https://hf.co/models.')
    for number, entry in enumerate(data.get("model-index") or ()):
        if not isinstance(entry, dict) or not entry.get("name"):
            errors.append(f'"model-index[{number}].name" is required')
            continue
        for index, result in enumerate(entry.get("results", ())):
            place = f"model-index[{number}].results[{index}]"
            errors += [f'"{place}.{key}" is required' for key in ("task", "dataset", "metrics") if key not in result]
            if not isinstance(result.get("metrics", []), list):
                errors.append(f'"{place}.metrics" must be an array')
    return errors


@dataclass(frozen=True)
class Commit:
    oid: str
    parent: str | None
    files: Mapping[str, bytes]
    title: str = ""
    description: str = ""


@dataclass
class Pull:
    num: int
    author: str
    title: str
    description: str
    base: str
    status: str = "open"


@dataclass
class Repo:
    """refs by name, such as main and refs/pr/1; every commit by its id."""

    owner: str
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    pulls: list[Pull] = field(default_factory=list)
    gated: bool = False
    private: bool = False

    def commit(self, ref: str, files: Mapping[str, bytes], parent: str | None, title: str = "", text: str = "") -> str:
        seed = json.dumps([len(self.commits), ref, parent, sorted(blob_oid(content) for content in files.values())])
        oid = hashlib.sha1(seed.encode()).hexdigest()
        self.commits[oid] = Commit(oid, parent, dict(files), title, text)
        self.refs[ref] = oid
        return oid

    def at(self, revision: str) -> Commit | None:
        return self.commits.get(self.refs.get(revision, revision))

    def files(self, revision: str = "main") -> Mapping[str, bytes]:
        found = self.at(revision)
        assert found is not None, revision
        return found.files

    def num_commits(self, revision: str = "main") -> int:
        count, at = 0, self.at(revision)
        while at is not None:
            count, at = count + 1, self.commits.get(at.parent or "")
        return count


@dataclass
class Account:
    name: str
    orgs: dict[str, str] = field(default_factory=dict)
    """Organisation -> role in it."""

    def may_write(self, owner: str) -> bool:
        return owner == self.name or self.orgs.get(owner) in ("admin", "write")


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Failure:
    """One answer that is given in the place of the right one, or before it where the status is 0."""

    method: str
    pattern: str
    status: int
    headers: dict[str, str]
    body: bytes
    times: int
    before: Callable[[], None] | None
