"""Mistakes a user can fix. The message says what, got, allowed and the next step; cli/main.py turns it into an exit code."""


class UserError(Exception):
    """Wrong input, found before weights load. Exit code 2."""

    exit_code = 2


class ComparisonRefused(UserError):
    """Two stored results that must not be compared (other prompts, items or decoding). Exit code 4."""

    exit_code = 4


class Interrupted(Exception):
    """The run was stopped from outside; what is finished is on disk and the same command resumes it. Exit code 130."""

    exit_code = 130
