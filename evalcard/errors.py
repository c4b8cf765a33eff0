"""Mistakes a user can fix: the message says what, got, allowed, next step; cli/main.py sets the exit codes."""

from collections.abc import Sequence


class UserError(Exception):
    """Wrong input, found before weights load. Exit code 2."""

    exit_code = 2

    def __init__(self, message: str, faults: Sequence[str] = (), advice: str = "") -> None:
        """message: all of it in words. faults: where it lists several things that are wrong, each of them; advice: what
        can be done about them."""
        super().__init__(message)
        self.faults = tuple(faults)
        self.advice = advice


class ComparisonRefused(UserError):
    """Two stored results that must not be compared (other prompts, items or decoding). Exit code 4."""

    exit_code = 4


class Interrupted(Exception):
    """The run was stopped from outside; what is finished is on disk and the same command resumes it. Exit code 130."""

    exit_code = 130
