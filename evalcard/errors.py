"""Mistakes a user can fix: the message says what, got, allowed, next step; cli/main.py sets the exit codes."""


class UserError(Exception):
    """Wrong input, found before weights load. Exit code 2."""

    exit_code = 2


class ComparisonRefused(UserError):
    """Two stored results that must not be compared (other prompts, items or decoding). Exit code 4."""

    exit_code = 4


class Interrupted(Exception):
    """The run was stopped from outside; what is finished is on disk and the same command resumes it. Exit code 130."""

    exit_code = 130
