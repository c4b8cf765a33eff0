"""What is asked of the network: nothing when offline, one short question when the Hub may be away (cases 142-146)."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from evalcard.tasks.data import hub as hub_module

REAL_DATA = os.environ.get("EVALCARD_TEST_DATA")
SUBSETS = [f"sub{i}" for i in range(12)]
TOKEN = "hf_ThisIsNoRealToken12345"

RECORDER = """
import json, socket, sys, time
attempts = []
def refused(*args, **kwargs):
    attempts.append([str(part) for part in args])
    time.sleep({wait})
    raise OSError("no route to anywhere")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.gethostbyname = refused
"""
BUILD = """
from pathlib import Path
from evalcard.errors import UserError
from evalcard.tasks.build import build
from evalcard.tasks.files.select import select
results = []
for names, roots in JOBS:
    attempts.clear()
    started, result = time.monotonic(), {}
    try:
        built = build(select(names), tuple(map(Path, roots)))
        result["docs"] = {task.name: len(task.docs) for task in built.tasks}
    except UserError as error:
        result |= {"error": str(error), "kind": type(error).__name__, "code": error.exit_code}
    results.append(result | {"attempts": attempts[:], "seconds": time.monotonic() - started})
print(json.dumps(results))
"""
Job = tuple[Sequence[str], Sequence[Path]]


def run(*jobs: Job, wait: float = 0, **env: str) -> tuple[list[dict[str, Any]], str]:
    """(what each build said, stderr) of one process without a network; a job is (task names, data roots)."""
    return _python(RECORDER.format(wait=wait) + _jobs(jobs) + BUILD, env)


def run_connected(*jobs: Job, **env: str) -> tuple[list[dict[str, Any]], str]:
    return _python("import json, time\nattempts = []\n" + _jobs(jobs) + BUILD, env)


def _jobs(jobs: Sequence[Job]) -> str:
    return f"JOBS = {[(list(names), [str(root) for root in roots]) for names, roots in jobs]!r}\n"


def _python(code: str, env: dict[str, str]) -> tuple[list[dict[str, Any]], str]:
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith("HF_") and "proxy" not in key.lower()
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean | env, timeout=120)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found, done.stderr


def task_file(folder: Path, name: str, dataset: str, subset: str | None = None, **more: str) -> str:
    lines = [f"task: {name}", f"dataset_path: {dataset}", "test_split: test", "output_type: generate_until",
             "doc_to_text: '{{question}}'", "doc_to_target: '{{answer}}'"]  # fmt: skip
    lines += [f"dataset_name: {subset}"] if subset else []
    path = folder / f"{name}.yaml"
    path.write_text("\n".join(lines + [f"{key}: {value}" for key, value in more.items()]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data set library's cache as it is after toy/Set was loaded from the Hub, subset by subset."""
    import datasets
    from datasets.packaged_modules.json.json import Json, JsonConfig

    base = tmp_path_factory.mktemp("hub")
    source = base / "test.jsonl"
    source.write_text("".join(json.dumps({"question": f"q{i}", "answer": f"a{i}"}) + "\n" for i in range(3)))
    files = datasets.data_files.DataFilesDict.from_patterns({"test": [str(source)]})
    kind = type("Set", (Json,), {"BUILDER_CONFIGS": [JsonConfig(name=one, data_files=files) for one in SUBSETS]})
    datasets.disable_progress_bars()
    for subset in SUBSETS:
        kind(cache_dir=str(base / "cache"), dataset_name="set", config_name=subset, hash="01ab").download_and_prepare()
    datasets.enable_progress_bars()
    (base / "cache" / "set").rename(base / "cache" / "toy___set")  # it takes no local files for those of a Hub id
    return base / "cache"


class TestOffline:
    def test_no_connection_and_no_wait(self, tmp_path: Path, cache: Path):
        """Case 142; and every data set that lacks is in one message, with the way to fetch them."""
        cached = [task_file(tmp_path, f"t_{one}", "toy/Set", one) for one in SUBSETS]
        mixed = [cached[0], task_file(tmp_path, "one", "toy/gone", "x"), task_file(tmp_path, "two", "toy/gone", "y"),
                 task_file(tmp_path, "three", "other/lost")]  # fmt: skip
        found, stderr = run((cached, []), (mixed, [tmp_path]), HF_DATASETS_CACHE=str(cache), HF_HUB_OFFLINE="1")
        assert found[0]["docs"] == {f"t_{one}": 3 for one in SUBSETS}
        assert found[0]["attempts"] == found[1]["attempts"] == [] and stderr.strip() == ""
        assert found[1]["kind"] == "MissingData" and found[1]["code"] == 2 and found[1]["seconds"] < 10
        message = found[1]["error"]
        assert "toy/gone (subset x, y) is missing" in message and "other/lost is missing" in message
        assert "HF_HUB_OFFLINE is set" in message and "toy/Set" not in message
        assert "evalcard tasks --prefetch one,two,three" in message and "--data-root ROOT" in message

    def test_only_the_final_data_set_of_an_include_chain_is_touched(self, tmp_path: Path):
        """Case 143."""
        task_file(tmp_path, "base", "toy/template")
        (tmp_path / "middle.yaml").write_text("include: base.yaml\ntask: middle\ndataset_path: toy/middle\n")
        (tmp_path / "last.yaml").write_text("include: middle.yaml\ntask: last\ndataset_path: toy/redux\n")
        (tmp_path / "root" / "toy" / "redux").mkdir(parents=True)
        (tmp_path / "root" / "toy" / "redux" / "test.jsonl").write_text('{"question": "q", "answer": "a"}\n')
        name = str(tmp_path / "last.yaml")
        (lacking, complete), _ = run(([name], [tmp_path]), ([name], [tmp_path / "root"]), HF_HUB_OFFLINE="1")
        assert "toy/redux" in lacking["error"] and "evalcard tasks --prefetch last" in lacking["error"]
        assert "toy/template" not in lacking["error"] and "toy/middle" not in lacking["error"]
        assert complete["docs"] == {"last": 1} and complete["attempts"] == lacking["attempts"] == []

    @pytest.mark.skipif(not REAL_DATA, reason="EVALCARD_TEST_DATA names no data root")
    def test_mmlu_from_a_data_root(self):
        """Case 142: names and documents of all 57 subjects."""
        (found,), stderr = run((["lm_eval/mmlu", "lm_eval/gsm8k"], [Path(str(REAL_DATA))]), HF_HUB_OFFLINE="1")
        assert sum(found["docs"].values()) == 14042 + 1319 and len(found["docs"]) == 58
        assert found["attempts"] == [] and stderr.strip() == ""


@pytest.mark.parametrize("switch", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_every_switch_is_known(monkeypatch: pytest.MonkeyPatch, switch: str):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    assert hub_module.offline_by() is None
    monkeypatch.setenv(switch, "0")
    assert hub_module.offline_by() is None
    monkeypatch.setenv(switch, "true")
    assert hub_module.offline_by() == switch


def test_the_libraries_switches_are_given_back():
    import datasets
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE, datasets.logging.get_verbosity()
    with pytest.raises(ZeroDivisionError), hub_module.local_only():
        assert datasets.config.HF_HUB_OFFLINE and constants.HF_HUB_OFFLINE
        raise ZeroDivisionError
    assert (datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE, datasets.logging.get_verbosity()) == before


class TestUnreachable:
    def test_a_black_hole_is_noticed_once(self, tmp_path: Path, cache: Path):
        """Case 145: looking up the Hub's name never returns, and all subsets are cached."""
        names = [task_file(tmp_path, f"t_{one}", "toy/Set", one) for one in SUBSETS]
        (found,), stderr = run((names, []), wait=600, HF_DATASETS_CACHE=str(cache))
        assert found["docs"] == {f"t_{one}": 3 for one in SUBSETS}
        assert len(found["attempts"]) == 1 and found["seconds"] < 3 * len(SUBSETS)
        assert stderr.count("Hub not reachable (") == stderr.count("only its cache on this machine is looked into") == 1
        assert len(stderr.strip().splitlines()) == 1

    def test_what_lies_here_is_read_without_asking(self, tmp_path: Path):
        """From a data root, and by the data set library's own readers of local files; only then is the Hub asked."""
        (tmp_path / "toy" / "here").mkdir(parents=True)
        (tmp_path / "toy" / "here" / "test.jsonl").write_text('{"question": "q", "answer": "a"}\n')
        (tmp_path / "x.jsonl").write_text('{"question": "q", "answer": "a"}\n')
        kwargs = "{{data_files: {{test: {}}}, cache_dir: {}}}"
        rooted = [task_file(tmp_path, "rooted", "toy/here")]
        there, gone = (
            [
                task_file(
                    tmp_path, name, "json", dataset_kwargs=kwargs.format(tmp_path / f"{name}.jsonl", tmp_path / "c")
                )
            ]
            for name in ("x", "y")
        )
        lost = [task_file(tmp_path, "one", "toy/gone"), task_file(tmp_path, "two", "toy/lost")]
        found, stderr = run((rooted, [tmp_path]), (there, []), (gone, []), (lost, [tmp_path]))
        assert [one.get("docs") for one in found] == [{"rooted": 1}, {"x": 1}, None, None]
        assert found[0]["attempts"] == found[1]["attempts"] == found[2]["attempts"] == []
        assert found[2]["kind"] == "UserError" and "task y: its documents cannot be read" in found[2]["error"]
        assert found[3]["kind"] == "MissingData" and found[3]["error"].count("the Hub cannot be reached (") == 2
        assert len(found[3]["attempts"]) == 1 and stderr.count("Hub not reachable") == 1


class _Hub(BaseHTTPRequestHandler):
    """Refuses every data set as the Hub does those that are gated, private or not there."""

    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        code = "GatedRepo" if "gated" in self.path else "RepoNotFound"
        self.send_response(403 if "asked" in self.path else 401)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", f"Access to this data set is restricted. Authorization: Bearer {TOKEN}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _Hub.asked.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class TestRefused:
    def test_what_to_do_is_said_and_no_token(self, tmp_path: Path, hub: str):
        """Case 146: gated without a token, gated for this token, private or not there."""
        datasets = ["toy/gated", "toy/gated-asked", "toy/private"]
        jobs: list[Job] = [([task_file(tmp_path, f"t{i}", one)], []) for i, one in enumerate(datasets)]
        found, stderr = run_connected(*jobs, HF_ENDPOINT=hub, HF_HOME=str(tmp_path / "home"), HF_TOKEN=TOKEN)
        for dataset, one in zip(datasets, found, strict=True):
            page = f"accept terms at https://huggingface.co/datasets/{dataset}, set HF_TOKEN"
            assert one["kind"] == "MissingData" and one["code"] == 2
            assert f"{'If it is private or gated' if 'private' in dataset else 'gated'}: {page}" in one["error"]
            assert any(dataset in path for path in _Hub.asked), "the Hub was asked"
        assert TOKEN not in json.dumps(found) + stderr
