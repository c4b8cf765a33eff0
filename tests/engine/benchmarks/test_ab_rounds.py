"""Rounds take turns, void ones are kept and measured again, and the median is of those that count."""

from collections.abc import Callable, Iterator

import pytest
from ab_rounds import Limits, Measured, Referee, Round, summarize
from machine_load import CommandFailed, Usage


class Machine:
    """A clock that only commands and waits move, and a load average that is given."""

    def __init__(self, load: Callable[[float], float] = lambda now: 0.0) -> None:
        self.now, self.order, self.said = 0.0, [], []
        self._load = load

    def referee(self, **limits: float) -> Referee:
        return Referee(
            Limits(**limits),
            self.said.append,
            load=lambda: self._load(self.now),
            clock=lambda: self.now,
            sleep=self._pass,
        )

    def side(self, name: str, seconds: Iterator[float], others: Iterator[float | None]) -> Callable[[], Measured]:
        def run() -> Measured:
            self.order.append(name)
            took = next(seconds)
            self._pass(took)
            return Measured(Usage(took, took, next(others)))

        return run

    def _pass(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)


def forever(value: float | None) -> Iterator[float | None]:
    while True:
        yield value


def test_sides_take_turns_and_the_median_counts() -> None:
    machine = Machine()
    ours = {"a": machine.side("a", iter([10.0, 10.0, 10.0]), forever(0.0)),
            "b": machine.side("b", iter([20.0, 20.0, 20.0]), forever(0.0))}  # fmt: skip
    peer = machine.side("peer", iter([30.0, 90.0, 40.0]), forever(0.0))
    rounds = machine.referee().rounds(ours, "peer", peer, 3)
    assert machine.order == ["a", "b", "peer", "peer", "b", "a", "a", "b", "peer"]
    assert [one.number for one in rounds] == [0, 1, 2] and not any(one.void for one in rounds)
    found = summarize(rounds, "a")
    assert (found.median, found.low, found.high, found.counted) == (4.0, 3.0, 9.0, 3)
    assert summarize(rounds, "b").median == 2.0
    assert str(found) == "4.00 times as fast (median of 3 rounds, 3.00 to 9.00)"


def test_a_disturbed_round_is_void_kept_and_measured_again() -> None:
    """Others take a tenth of the CPU time in the first try of round 1; that ratio does not count."""
    machine = Machine()
    ours = {"a": machine.side("a", iter([10.0, 10.0, 10.0]), iter([0.1, 1.0, 0.1]))}
    peer = machine.side("peer", iter([30.0, 900.0, 50.0]), forever(0.0))
    rounds = machine.referee().rounds(ours, "peer", peer, 2)
    assert [(one.number, bool(one.void)) for one in rounds] == [(0, False), (1, True), (1, False)]
    assert rounds[1].void == "others used 10% of the CPU time"
    found = summarize(rounds, "a")
    assert (found.median, found.high, found.counted, found.is_void) == (4.0, 5.0, 2, False)
    assert (
        "VOID: others used 10%" in machine.said[1] and "90.00" in machine.said[1] and "2 more tries" in machine.said[2]
    )


def test_finished_rounds_are_kept_though_a_later_command_fails() -> None:
    machine, kept = Machine(), []
    ours = {"a": machine.side("a", iter([10.0, 10.0]), forever(0.0))}

    def peer() -> Measured:
        if len(kept) == 1:
            raise CommandFailed("no memory")
        return Measured(Usage(20.0, 20.0, 0.0))

    with pytest.raises(SystemExit, match="no memory"):
        machine.referee().rounds(ours, "peer", peer, 3, kept.append)
    assert [one.number for one in kept] == [0]


def test_tries_end_and_void_rounds_alone_are_no_figure_to_keep() -> None:
    machine = Machine()
    ours = {"a": machine.side("a", forever(10.0), forever(5.0))}
    rounds = machine.referee(retries=1).rounds(ours, "peer", machine.side("peer", forever(20.0), forever(0.0)), 2)
    assert [one.number for one in rounds] == [0, 0, 1, 1] and all(one.void for one in rounds)
    found = summarize(rounds, "a")
    assert found.is_void and found.median == 2.0 and "EVERY ROUND WAS VOID" in str(found)


def test_load_of_others_before_a_round_makes_it_void_and_is_waited_for() -> None:
    """A neighbour keeps the load at 3 for the first 100 s; patience is 30 s, so the second try is the good one."""
    machine = Machine(lambda now: 3.0 if now < 100 else 0.0)
    ours = {"a": machine.side("a", forever(40.0), forever(None))}
    peer = machine.side("peer", forever(40.0), forever(None))
    rounds = machine.referee(wait_s=30.0).rounds(ours, "peer", peer, 1)
    assert [one.void for one in rounds] == ["load of others before 3.00", ""]
    assert rounds[0].others_share is None and rounds[0].load_before == 3.0
    assert rounds[1].load_before == 0.0


def test_a_neighbour_that_leaves_in_time_is_waited_out() -> None:
    machine = Machine(lambda now: 3.0 if now < 20 else 0.0)
    ours = {"a": machine.side("a", forever(40.0), forever(None))}
    (one,) = machine.referee(wait_s=30.0).rounds(ours, "peer", machine.side("peer", forever(40.0), forever(None)), 1)
    assert not one.void and machine.now == 100.0


def test_the_load_that_our_own_commands_leave_is_not_a_neighbours() -> None:
    """One busy thread of ours, without a pause, in rounds and in a probe before them: the average is near 1."""
    machine = Machine(lambda now: 0.0 if now == 0 else 1.0)
    side = machine.side("a", forever(300.0), forever(0.0))
    referee = machine.referee()
    referee.run(side)
    rounds = referee.rounds({"a": side}, "peer", machine.side("peer", forever(300.0), forever(0.0)), 2)
    assert [one.void for one in rounds] == ["", ""] and rounds[0].load_before == 1.0


def test_a_peer_that_was_cut_makes_the_ratio_a_lower_bound() -> None:
    usage = Usage(10.0, 10.0, 0.0)
    turns = [Round(0, 0.0, {"a": Measured(usage)}, Measured(Usage(80.0, 80.0, 0.0), is_cut=True))]
    assert str(summarize(turns, "a")) == "at least 8.00 times as fast (median of 1 round)"
