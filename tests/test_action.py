"""The GitHub Action and the GitLab snippet, as far as they run without the service: every script, with bash, for real.

The scripts run in a folder of their own with ``evalcard`` from this checkout on the bundled demo model; only pip is a
stand-in that writes down its arguments.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BASH = shutil.which("bash")
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
DOCS = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
SCRIPTS = [step for step in STEPS if "run" in step]
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
SMALL = "--limit-per-subtask 12 --threads 1 --quiet"

needs_bash = pytest.mark.skipif(BASH is None, reason="needs bash")


def step(name: str) -> dict[str, Any]:
    (found,) = [one for one in STEPS if one["name"] == name]
    return found


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)


class Job:
    """A folder where a job's scripts run, with the files that GitHub gives each step."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.outputs = folder, {}
        self.bin, self.pip_log = folder / "bin", folder / "pip.log"
        self.bin.mkdir(parents=True)
        self.program("evalcard", f'exec "{sys.executable}" -m evalcard "$@"')
        self.program(
            "python",
            f'if [ "$2" = pip ]; then printf "%s\\n" "${{@:3}}" > "{self.pip_log}"; exit; fi; '
            f'exec "{sys.executable}" "$@"',
        )
        self.program("pip", f'printf "%s\\n" "$@" > "{self.pip_log}"')

    def program(self, name: str, line: str) -> None:
        path = self.bin / name
        path.write_text(f"#!{BASH}\n{line}\n")
        path.chmod(0o755)

    def bash(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        """As a runner starts it: ``bash -e -o pipefail``, with a fresh output and summary file."""
        files = {name: self.folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for path in files.values():
            path.write_text("")
        paths = [str(ROOT), str(ROOT / "engine"), *filter(None, [os.environ.get("PYTHONPATH")])]
        surroundings = os.environ | {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1", **{name: str(path) for name, path in files.items()},
        }  # fmt: skip
        command = [str(BASH), "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script]
        done = subprocess.run(command, cwd=self.folder, env=surroundings | env, capture_output=True, text=True)
        lines = files["GITHUB_OUTPUT"].read_text().splitlines()
        self.outputs = dict(line.split("=", 1) for line in lines)
        self.summary = files["GITHUB_STEP_SUMMARY"].read_text()
        return done

    def step(self, name: str, outputs: dict[str, str] | None = None, **inputs: str) -> subprocess.CompletedProcess[str]:
        """One script of the action; its expressions are filled in as the service does."""
        known = {f"inputs.{key}": str(facts.get("default", "")) for key, facts in ACTION["inputs"].items()}
        known |= {f"inputs.{key.replace('_', '-')}": value for key, value in inputs.items()}
        known |= {f"steps.evaluate.outputs.{key}": value for key, value in (outputs or {}).items()}
        known["github.action_path"] = str(ROOT)
        env = {key: EXPRESSION.sub(lambda found: known[found[1]], text) for key, text in step(name)["env"].items()}
        return self.bash(step(name)["run"], **env)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "job")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], tuple[Job, dict[str, str]]]:
    """A copy of a job whose evaluation is done: the demo's words, 12 items, against a limit that they can show."""
    first = Job(tmp_path_factory.mktemp("evaluated") / "job")
    done = first.step(
        "Evaluate and compare", baseline="@demo", compressed="@demo:w8a8", tasks="demo_words", min_recovery="50",
        extra_args=SMALL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = first.outputs

    def copy(folder: Path) -> tuple[Job, dict[str, str]]:
        made = Job(folder / "copy")
        shutil.copytree(first.folder / "results", made.folder / "results")
        return made, outputs

    return copy


def test_the_action_is_composite_and_described():
    assert ACTION["runs"]["using"] == "composite" and ACTION["name"] == "evalcard"
    for facts in (*ACTION["inputs"].values(), *ACTION["outputs"].values()):
        assert len(facts["description"]) > 10
    assert all("default" in facts for facts in ACTION["inputs"].values())
    for one in SCRIPTS:
        assert one["shell"] == "bash", one["name"]


def test_no_expression_is_part_of_a_script():
    assert len(SCRIPTS) == 3
    for one in SCRIPTS:
        assert "${{" not in one["run"], one["name"]


def test_every_expression_names_what_there_is():
    ids = {
        one["id"]: set(re.findall(r"^ *(?:.*echo )\"([a-z-]+)=", one["run"], re.M)) for one in SCRIPTS if "id" in one
    }
    assert ids == {"evaluate": {"exit-code", "run", "card"}, "gate": {"exit-code", "outcome", "junit"}}
    used = set()
    for text in re.findall(r"\$\{\{(.*?)\}\}", (ROOT / "action.yml").read_text(encoding="utf-8")):
        for name in re.findall(r"inputs\.([a-z-]+)", text):
            assert name in ACTION["inputs"], name
            used.add(name)
        for id_, name in re.findall(r"steps\.([a-z]+)\.outputs\.([a-z-]+)", text):
            assert name in ids[id_], (id_, name)
    assert used == set(ACTION["inputs"]), "an input that nothing reads"


def test_other_actions_are_pinned_to_a_major_version():
    used = [one["uses"] for one in STEPS if "uses" in one]
    assert len(used) == 4 and all(re.fullmatch(r"actions/[a-z/-]+@v\d+", name) for name in used), used


def test_answers_are_cached_and_kept_whatever_happens():
    restore, save = step("Take up earlier answers"), step("Keep the answers")
    assert restore["with"]["path"] == save["with"]["path"] == "${{ inputs.results }}"
    assert restore["with"]["key"] == save["with"]["key"]
    assert save["with"]["key"].startswith(restore["with"]["restore-keys"])
    assert "always()" in save["if"] and "always()" in step("Keep card and reports")["if"]
    names = [one["name"] for one in STEPS]
    assert names.index("Take up earlier answers") < names.index("Evaluate and compare") < names.index("Judge")
    assert names.index("Judge") < names.index("Keep the answers")
    kept = step("Keep card and reports")["with"]["path"].splitlines()
    assert {path.removeprefix("${{ steps.evaluate.outputs.run }}/") for path in kept} == {
        "README.md", "models", "run.json", "comparison.json", "junit.xml"
    }  # fmt: skip


@needs_bash
@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, ["install", "-c", f"{ROOT}/constraints.txt", str(ROOT)]),
        ({"evalcard_version": "0.1.0", "constraints": "none"}, ["install", "evalcard==0.1.0"]),
        ({"constraints": "a b.txt"}, ["install", "-c", "a b.txt", str(ROOT)]),
    ],
)
def test_install(job: Job, inputs: dict[str, str], expected: list[str]):
    assert job.step("Install evalcard", **inputs).returncode == 0
    assert job.pip_log.read_text().splitlines() == expected


@needs_bash
@pytest.mark.parametrize(
    ("given", "before", "after"),
    [({"limit": "500"}, ["--limit", "500"], []), ({"sequential": "true"}, [], ["--sequential"])],
    ids=["limit", "sequential"],
)
def test_inputs_become_arguments_word_for_word(job: Job, given: dict[str, str], before: list[str], after: list[str]):
    told = job.folder / "told.json"
    code = "import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], 'w'))"
    job.program("evalcard", f'exec "{sys.executable}" -c "{code}" "{told}" "$@"')
    hostile = '$(touch hacked) `touch hacked` "; touch hacked #'
    done = job.step(
        "Evaluate and compare", baseline=hostile, compressed=f"\n  org/a b:w8a8 \n{hostile}\n\n", tasks="gsm8k,mmlu",
        confidence="0.9", gate_file="my gate.yaml", **given,
        extra_args="--seed 7\n  --system 'be brief;\n$(touch hacked)' ''", results="the results",
    )  # fmt: skip
    assert json.loads(told.read_text()) == [
        "run", "--out", "the results", "--baseline", hostile, "--compressed", "org/a b:w8a8", "--compressed", hostile,
        "--tasks", "gsm8k,mmlu", *before, "--gate-file", "my gate.yaml",
        "--confidence", "0.9", *after,
        "--seed", "7", "--system", "be brief;\n$(touch hacked)", "",
    ]  # fmt: skip
    assert not (job.folder / "hacked").exists()
    # The stand-in left no run, and a run of the cache must not be taken for it.
    assert done.returncode == 70 and "left no folder" in done.stdout and "run" not in job.outputs


@needs_bash
def test_arguments_that_cannot_be_read_stop_the_step(job: Job):
    done = job.step("Evaluate and compare", extra_args="--system 'open")
    assert done.returncode != 0 and "No closing quotation" in done.stderr
    assert not (job.folder / "results").exists()


@needs_bash
def test_a_mistake_ends_the_step_with_its_code(job: Job):
    done = job.step("Evaluate and compare", baseline="@demo", compressed="@demo:w9a9", tasks="demo_words")
    assert done.returncode == 2 and "unknown scheme" in done.stderr
    assert job.outputs == {"exit-code": "2"}


@needs_bash
def test_a_pass_with_all_its_reports(evaluated: Any, tmp_path: Path):
    job, outputs = evaluated(tmp_path)
    run = outputs["run"]
    assert outputs == {"exit-code": "0", "run": run, "card": f"{run}/README.md"}
    assert (job.folder / outputs["card"]).is_file()
    done = job.step("Judge", outputs, min_recovery="50")
    assert done.returncode == 0, done.stderr
    assert job.outputs == {"exit-code": "0", "outcome": "PASS", "junit": f"{run}/junit.xml"}
    assert job.summary.startswith("## evalcard: PASS\n") and "demo" in job.summary
    root = ET.parse(job.folder / job.outputs["junit"]).getroot()
    assert [root.attrib[name] for name in ("tests", "failures", "errors", "skipped")] == ["1", "0", "0", "0"]
    lines = done.stdout.splitlines()
    assert lines[0].startswith("::stop-commands::") and len(lines[0]) > 40
    last = lines.index(f"::{lines[0].removeprefix('::stop-commands::')}::")
    assert last > 3 and lines[last + 1].startswith("::notice title=evalcard PASS")


@needs_bash
@pytest.mark.parametrize(
    ("inputs", "code", "outcome"),
    [
        ({}, 3, "INCONCLUSIVE"),
        ({"on_inconclusive": "fail"}, 1, "INCONCLUSIVE"),
        ({"on_inconclusive": "pass"}, 0, "INCONCLUSIVE"),
        ({"min_recovery": "200"}, 1, "FAIL"),
        ({"confidence": "95"}, 2, "ERROR"),
    ],
)
def test_what_is_no_pass_reaches_the_job(
    evaluated: Any, tmp_path: Path, inputs: dict[str, str], code: int, outcome: str
):
    job, outputs = evaluated(tmp_path)
    done = job.step("Judge", outputs, **inputs)
    assert done.returncode == code, done.stderr
    assert (job.outputs["exit-code"], job.outputs["outcome"]) == (str(code), outcome)


@needs_bash
def test_a_run_that_cannot_be_judged(evaluated: Any, tmp_path: Path):
    job, outputs = evaluated(tmp_path)
    path = job.folder / outputs["run"] / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"finished": None}))
    done = job.step("Judge", outputs)
    assert done.returncode == 4 and "incomplete" in done.stdout
    assert job.outputs == {"exit-code": "4", "outcome": "CANNOT_JUDGE"}


@needs_bash
def test_a_gate_that_the_run_fails_is_left_to_the_next_step(evaluated: Any, tmp_path: Path):
    job, first = evaluated(tmp_path)
    # Another run in the folder, as a cache brings it along, which must not be taken for this one.
    shutil.copytree(job.folder / first["run"], job.folder / "results" / "other-00000000")
    asked = {"baseline": "@demo", "compressed": "@demo:w8a8", "tasks": "demo_words", "min_recovery": "200"}
    done = job.step("Evaluate and compare", **asked, extra_args=SMALL)
    assert done.returncode == 0, done.stderr
    assert job.outputs == first | {"exit-code": "1"}, "the same run, whose answers are reused"
    assert job.step("Judge", job.outputs, min_recovery="200").returncode == 1
    assert job.outputs["outcome"] == "FAIL" and "evalcard: FAIL" in job.summary


def test_the_workflow_in_the_docs_uses_the_action_as_it_is():
    (workflow,) = [one for one in map(yaml.safe_load, fenced("yaml")) if "jobs" in one]
    (used,) = [one for one in workflow["jobs"]["gate"]["steps"] if "evalcard" in one.get("uses", "")]
    assert set(used["with"]) <= set(ACTION["inputs"])
    text = DOCS[DOCS.index("## GitHub") : DOCS.index("## GitLab")]
    for name in (*ACTION["inputs"], *ACTION["outputs"]):
        assert name in text, f"docs/ci.md does not tell {name}"
    for found in re.findall(r"steps\.evalcard\.outputs\.([a-z-]+)", text):
        assert found in ACTION["outputs"]


@needs_bash
def test_the_gitlab_job_in_the_docs(job: Job):
    (gitlab,) = [one["evalcard"] for one in map(yaml.safe_load, fenced("yaml")) if "evalcard" in one]
    small = {"BASELINE": "@demo", "COMPRESSED": "@demo:w8a8", "TASKS": "demo_words", "LIMIT": "12"}
    assert set(gitlab["variables"]) == set(small)
    (job.folder / "gate.yaml").write_text("min_recovery: 50\n")
    script = "\n".join(gitlab["script"])
    done = job.bash(script, **small)
    assert done.returncode == 0, done.stderr
    assert "install" in job.pip_log.read_text()
    report = gitlab["artifacts"]["reports"]["junit"]
    assert ET.parse(job.folder / report).getroot().attrib["tests"] == "1"
    for pattern in gitlab["artifacts"]["paths"]:
        assert list(job.folder.glob(pattern)), pattern
    assert list(job.folder.glob(gitlab["cache"]["paths"][0]))
    # Not decided: the code that the snippet lets the pipeline go on with.
    (job.folder / "gate.yaml").write_text("min_recovery: 99\n")
    assert job.bash(gitlab["script"][-1], **small).returncode in gitlab["allow_failure"]["exit_codes"]


def test_commands_in_the_docs_have_the_flags_that_they_name():
    from evalcard.cli.gate import command as gate
    from evalcard.cli.run import command as run

    flags = {name: {flag for one in made.params for flag in one.opts} for name, made in (("gate", gate), ("run", run))}
    lines = [line for block in fenced("bash") for line in block.splitlines() if line.startswith("evalcard ")]
    assert len(lines) >= 5
    for line in lines:
        _, name, rest = line.split(" ", 2)
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= flags[name], line


def test_links_of_the_docs_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", DOCS)
    assert links
    for path, anchor in links:
        text = (ROOT / "docs" / path).resolve().read_text(encoding="utf-8")
        heads = [
            re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.*)$", text, re.M)
        ]
        assert not anchor or anchor in heads, (path, anchor)
