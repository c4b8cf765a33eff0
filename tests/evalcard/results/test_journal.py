"""The journal: every append that returned is read back, whatever happens to the process."""

import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalcard.errors import UserError
from evalcard.results.journal import Journal

CHILD = """
import sys
from pathlib import Path
from evalcard.results.journal import Journal
from evalcard.results.records import Sample

journal = Journal(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), 10**9):
    journal.append(Sample(schema=1, key=f"k{number}", task="toy", task_version="1", item_id=number, item_hash="i",
                          repeat=0, prompt_hash="p", prompt_tokens=1, text="x" * (number % 5000), finish="stop",
                          output_tokens=1))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def test_what_is_appended_is_read(tmp_path: Path, make_sample):
    journal = Journal(tmp_path / "deep" / "toy.jsonl")
    assert journal.read() == {}
    samples = [make_sample(i, text=f"answer {i}") for i in (3, 1, "x")]
    for sample in samples:
        journal.append(sample)
    assert list(journal.read()) == [(3, 0), (1, 0), ("x", 0)]
    assert list(journal.read().values()) == samples
    journal.close()
    journal.append(make_sample(9))
    journal.close()
    assert len(Journal(journal.path).read()) == 4


def test_each_append_reaches_the_file_at_once(tmp_path: Path, make_sample):
    journal = Journal(tmp_path / "toy.jsonl")
    for count in (1, 2, 3):
        journal.append(make_sample(count))
        assert journal.path.read_bytes().count(b"\n") == count


def test_the_last_line_of_an_item_and_repeat_wins(tmp_path: Path, make_sample):
    journal = Journal(tmp_path / "toy.jsonl")
    for key, repeat in (("old", 0), ("other", 1), ("new", 0)):
        journal.append(make_sample(1, key=key, repeat=repeat))
    assert {address: sample.key for address, sample in journal.read().items()} == {(1, 0): "new", (1, 1): "other"}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_any_text_survives(tmp_path: Path, make_sample, text: str):
    """Line and paragraph separators, carriage returns, NULs and lone surrogates included."""
    path = tmp_path / "any.jsonl"
    path.unlink(missing_ok=True)
    journal = Journal(path)
    journal.append(make_sample(1, text=text + "\u2028\u2029\r\n\x85\x00\ud83d"))
    journal.append(make_sample(2, text=text))
    journal.close()
    assert [sample.text for sample in journal.read().values()] == [text + "\u2028\u2029\r\n\x85\x00\ud83d", text]


def test_numbers_that_are_none_become_null(tmp_path: Path, make_sample):
    choice = {"text": "A", "logprob": math.nan, "tokens": 1, "is_greedy": False}
    journal = Journal(tmp_path / "toy.jsonl")
    timings = {"prefill": math.inf, "decode": 0.5}
    journal.append(make_sample(1, text=None, choices=[choice], finish="error", timings=timings))
    (sample,) = journal.read().values()
    assert sample.choices[0].logprob is None
    assert sample.timings == {"decode": 0.5}
    assert b"NaN" not in journal.path.read_bytes()


@pytest.mark.parametrize("torn", [b"{", b'{"schema":1,"key":"k"', b"\x00" * 70_000, b'{"text":"' + b"x" * 200_000])
def test_a_torn_last_line_is_ignored_and_cut_off(tmp_path: Path, make_sample, torn: bytes):
    journal = Journal(tmp_path / "toy.jsonl")
    journal.append(make_sample(1))
    journal.close()
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + torn)
    assert list(journal.read()) == [(1, 0)]
    journal.append(make_sample(2))
    assert list(journal.read()) == [(1, 0), (2, 0)]
    assert journal.path.read_bytes().startswith(whole)


def test_a_file_that_is_only_a_torn_line_starts_again(tmp_path: Path, make_sample):
    path = tmp_path / "toy.jsonl"
    path.write_bytes(b'{"schema":')
    journal = Journal(path)
    journal.append(make_sample(1))
    assert list(journal.read()) == [(1, 0)]


def test_a_damaged_line_in_the_middle_is_loud(tmp_path: Path, make_sample):
    journal = Journal(tmp_path / "toy.jsonl")
    journal.append(make_sample(1))
    journal.close()
    with open(journal.path, "ab") as file:
        file.write(b'{"schema":1,"key"\n')
    journal.append(make_sample(2))
    with pytest.raises(UserError, match=r"toy\.jsonl, line 2, is damaged"):
        journal.read()


def test_a_newer_line_is_refused(tmp_path: Path):
    path = tmp_path / "toy.jsonl"
    path.write_bytes(b'{"schema":99,"key":"k"}\n')
    with pytest.raises(UserError, match="line 1, has schema 99"):
        Journal(path).read()


def test_a_run_without_a_lock_cannot_be_appended_to(tmp_path: Path, make_sample):
    with pytest.raises(AssertionError, match="not locked"):
        Journal(tmp_path / "toy.jsonl", writable=False).append(make_sample(1))
    assert not (tmp_path / "toy.jsonl").exists()


def test_a_full_disk_is_loud_and_leaves_whole_lines(tmp_path: Path):
    """The file may grow to 20000 bytes; the child must end with our error, and its journal with a whole line."""
    code = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + CHILD
    path = tmp_path / "toy.jsonl"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    child = subprocess.run(
        [sys.executable, "-c", code, str(path), "0"], capture_output=True, text=True, preexec_fn=limit, timeout=60
    )
    assert "UserError: cannot append to" in child.stderr
    told = child.stdout.split()
    assert len(told) > 50
    assert path.read_bytes().endswith(b"}\n")
    assert [str(item) for item, _ in Journal(path).read()] == told


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_kill_9_loses_nothing_that_was_appended(tmp_path: Path):
    path = tmp_path / "toy.jsonl"
    pick = random.Random(20)
    told: list[int] = []
    for _ in range(4):
        start = told[-1] + 1 if told else 0
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path), str(start)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(pick.uniform(0.0, 0.05))
        child.send_signal(signal.SIGKILL)
        said = first + child.stdout.read()
        child.wait()
        assert child.returncode == -signal.SIGKILL
        told += [int(line) for line in said.split(b"\n")[:-1]]
        with open(path, "ab") as file:  # what a cut-off write leaves behind
            file.write(b'{"schema":1,"key":"to'[: pick.randrange(1, 20)])
        stored = [item for item, _ in Journal(path).read()]
        # The child may have been killed between an append and its word on it.
        assert stored[: len(told)] == told and len(stored) - len(told) <= 1
        told = stored
    assert told == list(range(len(told))) and len(told) > 4
