"""A run without an end, in the same words wherever that is why something cannot be done."""

from evalcard.results.records import RunRecord

AGAIN = "Give its `evalcard run` command again: what was finished is stored."


def is_incomplete(run: RunRecord, so: str) -> str:
    """The whole message; ``so`` goes on from "the run NAME is incomplete", with what that forbids."""
    return f"the run {run.name} is incomplete{so}. {AGAIN}"
