"""Whole commands are timed with their own CPU time and other people's."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import machine_load
import pytest
from machine_load import CommandFailed, OwnLoad, Usage, busy_cpu_s, run_command

SPIN = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\nprint('done')"


def test_busy_time_counts_steal_and_leaves_idle_iowait_and_guests_out() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    stat = "cpu  1 20 300 999999 888888 4000 50000 600000 7777777 8888888\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
    assert busy_cpu_s(stat) == pytest.approx(654321 / ticks)


def test_a_commands_own_work_is_not_other_peoples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is busy for 0.9 s while the command computes for 0.4 s, so 0.5 s are others'."""
    monkeypatch.setattr(machine_load, "busy_cpu_s", iter([100.0, 100.9]).__next__)
    done = run_command([sys.executable, "-c", SPIN], os.environ)
    assert done.stdout == "done\n" and not done.is_cut
    assert 0.4 <= done.usage.own_cpu_s < 0.9 and done.usage.seconds >= 0.4
    assert done.usage.others_cpu_s == pytest.approx(0.9 - done.usage.own_cpu_s)


def test_work_of_children_that_nobody_waits_for_counts() -> None:
    """The command ends before its child does, which computed for 0.4 s by then."""
    child = SPIN + "\nimport sys; sys.stdout.flush(); time.sleep(60)"
    script = (
        "import os, subprocess, sys\n"
        f"one = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE, text=True)\n"
        "one.stdout.readline(); os._exit(0)"
    )
    done = run_command([sys.executable, "-c", script], os.environ)
    assert done.usage.own_cpu_s >= 0.4 and done.usage.seconds < 20


def test_without_proc_stat_nothing_is_known_of_others(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(machine_load, "PROC_STAT", tmp_path / "none")
    usage = run_command([sys.executable, "-c", "pass"], os.environ).usage
    assert usage.others_cpu_s is None and usage.others_share is None


def test_share_of_others_is_of_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert Usage(seconds=10.0, own_cpu_s=30.0, others_cpu_s=2.0).others_share == pytest.approx(0.05)


def test_a_cap_ends_the_command_and_what_it_started() -> None:
    sleep = "import time; time.sleep(60)"
    script = f"import subprocess, sys, time; print(subprocess.Popen([sys.executable, '-c', {sleep!r}]).pid, flush=True)"
    done = run_command([sys.executable, "-c", f"{script}; time.sleep(60)"], os.environ, 2.0)
    assert done.is_cut and 2.0 <= done.usage.seconds < 20
    end = time.monotonic() + 10
    while _runs(int(done.stdout)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _runs(int(done.stdout))


def test_a_terminated_benchmark_leaves_no_command_behind() -> None:
    """SIGTERM, as `timeout` sends it, to a program that waits for a command."""
    inner = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    outer = (
        f"import os, sys; sys.path.insert(0, {str(Path(machine_load.__file__).parent)!r})\n"
        "import machine_load\n"
        f"machine_load.subprocess.Popen = lambda *a, kept=machine_load.subprocess.Popen, **k: "
        "kept(a[0], **(k | {'stdout': None}))\n"
        f"machine_load.run_command([sys.executable, '-c', {inner!r}], os.environ)"
    )
    program = subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    command = int(program.stdout.readline())
    assert _runs(command)
    program.send_signal(signal.SIGTERM)
    assert program.wait(20) == 128 + signal.SIGTERM
    program.stdout.close()
    assert not _runs(command)


def _runs(pid: int) -> bool:
    """Whether a process is there and is no zombie that nobody has collected yet."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_failed_command_says_what_it_said() -> None:
    with pytest.raises(CommandFailed, match=r"failed with 3:\n.*no such model"):
        run_command(
            [sys.executable, "-c", "import sys; print('no such model', file=sys.stderr); sys.exit(3)"], os.environ
        )


def test_own_load_follows_the_kernels_average() -> None:
    """Two busy threads for a minute leave 2 (1 - 1/e); a quiet minute later e times less; more work adds up."""
    load = OwnLoad()
    assert load.at(5.0) == 0.0
    load.add(Usage(60.0, 120.0, 0.0), now_s=100.0)
    assert load.at(100.0) == pytest.approx(2 * (1 - 0.36787944))
    assert load.at(160.0) == pytest.approx(2 * (1 - 0.36787944) * 0.36787944)
    load.add(Usage(60.0, 120.0, 0.0), now_s=160.0)
    assert load.at(160.0) == pytest.approx(2 * (1 - 0.36787944**2))
