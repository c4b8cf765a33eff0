"""Whole commands timed, and what else the machine did meanwhile.

``/proc/stat`` counts the CPU time of everything, that which a hypervisor took for other guests ("steal") included;
``getrusage`` counts that of our own finished children. The difference is other people's. Where there is no /proc/stat
it is not known, and only the load average tells.
"""

import contextlib
import ctypes
import math
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC_STAT = Path("/proc/stat")
PR_SET_CHILD_SUBREAPER = 36
"""Of <linux/prctl.h>."""
LOAD_DECAY_S = 60.0
"""Time constant of the first load average (proc(5), loadavg)."""


@dataclass(frozen=True)
class Usage:
    """Of one command."""

    seconds: float
    """Wall clock, interpreter start included."""
    own_cpu_s: float
    """CPU time of the command and of all that it started, but for what left its process group and its parent's care."""
    others_cpu_s: float | None
    """CPU time of everything else on the machine, stolen time included; None where it cannot be known."""

    @property
    def others_share(self) -> float | None:
        """Of all the CPU time that the machine had, 0 to 1."""
        cores = os.cpu_count() or 1
        return None if self.others_cpu_s is None else self.others_cpu_s / (self.seconds * cores)


@dataclass(frozen=True)
class Finished:
    """A command that ended by itself, or was cut."""

    usage: Usage
    stdout: str
    is_cut: bool
    """Whether it ran into the cap and was ended."""


class CommandFailed(SystemExit):
    """A measured command ended with an error, which ends the comparison; the message holds the end of what it said."""


def run_command(command: Sequence[str], env: Mapping[str, str], cap_s: float | None = None) -> Finished:
    """Run a command to its end, or for ``cap_s`` seconds; what it started and left behind is ended with it.

    Raises CommandFailed where it ends with another code than 0. The caller's other children should have ended.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        busy, own, start = busy_cpu_s(), children_cpu_s(), time.perf_counter()
        with _told_to_end(), _adopting_orphans():
            process = subprocess.Popen(command, env=dict(env), stdout=out, stderr=err, start_new_session=True)
            try:
                process.wait(cap_s)
                is_cut = False
            except subprocess.TimeoutExpired:
                is_cut = True
            finally:
                seconds = time.perf_counter() - start
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                _collect(process.pid)
        own_cpu, now_busy = children_cpu_s() - own, busy_cpu_s()
        if process.returncode and not is_cut:
            raise CommandFailed(f"{' '.join(command)}\nfailed with {process.returncode}:\n{_end_of(err)}")
        others = None if busy is None or now_busy is None else max(0.0, now_busy - busy - own_cpu)
        return Finished(Usage(seconds, own_cpu, others), _text(out), is_cut)


@contextlib.contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Processes whose parents end without waiting for them become our children, so that their CPU time is known."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None:
        yield
        return
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _collect(group: int) -> None:
    """Wait for the adopted children of a process group that was ended, some seconds at most."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            if os.waitpid(-group, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        except ChildProcessError:
            return


@contextlib.contextmanager
def _told_to_end() -> Iterator[None]:
    """SIGTERM ends this program by an exception, as Ctrl-C does, so that no command outlives it (main thread only)."""

    def end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _text(file) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _end_of(file) -> str:
    return _text(file)[-3000:]


def children_cpu_s() -> float:
    """User and system time of all children of this process that ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def busy_cpu_s(stat: str | None = None) -> float | None:
    """Seconds since boot, over all cores, in which somebody computed: neither idle nor waiting for a disk.

    ``stat`` is the text of /proc/stat, read where it is not given; None where there is none. Fields by proc(5): user,
    nice, system, idle, iowait, irq, softirq, steal; time of guests is part of user and nice.
    """
    if stat is None:
        if not PROC_STAT.exists():
            return None
        stat = PROC_STAT.read_text()
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class OwnLoad:
    """What our own commands left in the load average, which is not a neighbour's.

    The kernel's rule, run over our commands alone: load = load * e^(-t/60) + runnable * (1 - e^(-t/60)), where the
    threads that a command kept runnable are its CPU time by its seconds.
    """

    def __init__(self) -> None:
        self._load = 0.0
        self._at_s: float | None = None

    def add(self, usage: Usage, now_s: float) -> None:
        """A command that has just ended, at ``now_s`` of a monotonic clock."""
        kept = math.exp(-usage.seconds / LOAD_DECAY_S)
        self._load = self.at(now_s - usage.seconds) * kept + usage.own_cpu_s / usage.seconds * (1 - kept)
        self._at_s = now_s

    def at(self, now_s: float) -> float:
        return 0.0 if self._at_s is None else self._load * math.exp(-max(0.0, now_s - self._at_s) / LOAD_DECAY_S)
