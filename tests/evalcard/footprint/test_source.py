"""Where configs come from; the Hub is a server of this test's own."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.footprint.source import read_source

CONFIG = {"model_type": "llama", "hidden_size": 8}
TOKEN = "hf_ThisIsNoRealToken12345"


def folder(path: Path, content: str = json.dumps(CONFIG)) -> Path:
    path.mkdir()
    (path / "config.json").write_text(content)
    return path


def test_a_folder_a_file_and_the_demo(tmp_path: Path):
    here = folder(tmp_path / "toy-1b")
    for text in (str(here), str(here / "config.json")):
        found = read_source(text)
        assert (found.name, found.config, found.measured, found.scheme) == ("toy-1b", CONFIG, None, None)
    other = tmp_path / "another.json"
    other.write_text("{}")
    assert read_source(str(other)).name == "another"
    demo = read_source("@demo:w4a16")
    assert (demo.name, demo.scheme) == ("evalcard-demo", "w4a16") and demo.measured is not None


@pytest.mark.parametrize(
    "content, message", [("{", "is no JSON"), ("[1]", "no JSON object"), ("[" * 10**5, "is no JSON")]
)
def test_files_that_hold_no_config(tmp_path: Path, content: str, message: str):
    with pytest.raises(UserError, match=message):
        read_source(str(folder(tmp_path / "m", content)))


def test_what_is_not_there(tmp_path: Path):
    with pytest.raises(UserError, match="folder without config.json"):
        read_source(str(tmp_path))
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with pytest.raises(UserError, match="is a GGUF file"):
        read_source(str(tmp_path / "m.gguf"))
    for text in (str(tmp_path / "none"), "./none", "none", "https://x.invalid/m"):
        with pytest.raises(UserError, match=r"there is no such file or folder: .*a Hub id such as org/name"):
            read_source(text)


@pytest.mark.parametrize(
    "name",
    ["nope/config.json", "nope/other.JSON", "nope/model.safetensors", "nope/m.gguf", "nope/m/", "nope/m/config.json"],
)
def test_a_name_that_ends_like_a_file_is_never_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setattr("evalcard.footprint.source._fetched", lambda model: pytest.fail(f"{model} was asked for"))
    for text in (name, f"{name}:w4a16") if ".gguf" not in name else (name,):
        with pytest.raises(UserError, match=f"there is no such file or folder: {name}\\. Give"):
            read_source(text)


def test_the_config_is_named_as_it_was_given(tmp_path: Path):
    here = folder(tmp_path / "toy-1b")
    assert read_source(f"{here}:w4a16").origin == read_source(str(here / "config.json")).origin == f"{here}/config.json"
    (here / "config.json").write_text("[")
    with pytest.raises(UserError, match=f"^{here}/config.json is no JSON"):
        read_source(str(here))


class Hub(BaseHTTPRequestHandler):
    """org/open answers, org/gated and org/none refuse, org/empty has no config."""

    asked: list[tuple[str, str, str | None]] = []

    def _answer(self) -> None:
        if self.path in ("", "/"):  # only whether anybody is there
            return self.send_error(404)
        Hub.asked.append((self.command, self.path, self.headers.get("authorization")))
        repo = "/".join(self.path.split("/")[1:3])
        status, code = {"org/gated": (403, "GatedRepo"), "org/none": (404, "RepoNotFound"),
                        "org/empty": (404, "EntryNotFound")}.get(repo, (200, ""))  # fmt: skip
        body = json.dumps(CONFIG).encode() if status == 200 else b""
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", '"0123456789abcdef0123456789abcdef01234567"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_GET = do_HEAD = _answer

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


READ = """
import json, sys
from evalcard.errors import UserError
from evalcard.footprint.source import read_source
said = []
for name in sys.argv[1:]:
    try:
        said.append(read_source(name).config)
    except UserError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def read_from(home: Path, endpoint: str, *names: str, **env: str) -> list[Any]:
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith("HF_") and "proxy" not in key.lower()
    }
    clean |= {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_TELEMETRY": "1", **env}
    done = subprocess.run([sys.executable, "-c", READ, *names], capture_output=True, text=True, env=clean, timeout=60)
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_hub(tmp_path: Path, hub: str):
    """config.json alone is asked for, with the user's token; refusals say what to do."""
    names = ("org/open", "org/open@v2:w8a8", "org/gated", "org/none", "org/empty")
    config, other, gated, none, empty = read_from(tmp_path, hub, *names)
    assert config == other == CONFIG
    assert gated.startswith(f"org/gated is gated. Accept its terms at {hub}/org/gated and set HF_TOKEN")
    assert none.startswith("org/none: the Hub knows no such model, or it is private")
    assert empty.startswith("org/empty: the Hub gave no config.json: ")
    assert {path.rsplit("/", 1)[-1] for _, path, _ in Hub.asked} == {"config.json"}
    assert {path.split("/")[4] for _, path, _ in Hub.asked if "open" in path} == {"main", "v2"}
    assert {token for _, _, token in Hub.asked} == {f"Bearer {TOKEN}"}


def test_offline_takes_the_cache_and_asks_nobody(tmp_path: Path, hub: str):
    read_from(tmp_path, hub, "org/open")
    Hub.asked.clear()
    config, none = read_from(tmp_path, hub, "org/open", "org/none", HF_HUB_OFFLINE="1")
    assert config == CONFIG and Hub.asked == []
    assert none == (
        "org/none: its config.json is not in the Hub's cache on this machine. The Hub was not asked (HF_HUB_OFFLINE is "
        "set). Unset that, or give a model's folder or a config.json."
    )


def test_a_hub_that_is_away_is_said(tmp_path: Path):
    (said,) = read_from(tmp_path, "http://127.0.0.1:9", "org/open")
    assert said.startswith(
        "org/open: its config.json is not in the Hub's cache on this machine. The Hub cannot be reached ("
    )
    assert said.endswith("). Try again when it can, or give a model's folder or a config.json.")
