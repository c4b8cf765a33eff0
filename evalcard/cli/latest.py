"""``latest`` is the newest complete run: a newer one that is incomplete is not passed over in silence."""

from pathlib import Path


def warn_of_newer(out: Path, given: tuple[str | None, ...], done: str) -> None:
    """A line on stderr where one of ``given`` is ``latest`` (maybe with a model) and a newer run is incomplete.

    ``done``: what was not done with that run, such as ``judged``.
    """
    from evalcard.cli.lines import on_one_line, tell
    from evalcard.results.runs import LATEST, newer_incomplete

    asks_latest = any(one is not None and one.partition(":")[0] == LATEST for one in given)
    name = newer_incomplete(out) if asks_latest else None
    if name is not None:
        said = f"Warning: a newer run {name} is incomplete and was not {done}; give its command again or name it."
        tell(on_one_line(said), err=True)
