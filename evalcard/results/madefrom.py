"""Are the answers and verdicts that a comparison was made from still those that lie in the run's folder?"""

import shlex
from collections.abc import Mapping

from evalcard.errors import UserError
from evalcard.results.records import RunRecord
from evalcard.results.store import COMPARISON_FILE, SAMPLES, RunFolder


def check_files(folder: RunFolder, run: RunRecord, made_from: Mapping[str, str]) -> None:
    """Raise UserError naming the first file that is gone, or is another one than ``made_from`` has the digest of."""
    found = folder.answer_digests(run)
    faults = [
        (place, "has changed" if place in found else "is gone")
        for place, digest in made_from.items()
        if found.get(place) != digest
    ]
    if not faults:
        return
    place, what = faults[0]
    others = len(faults) - 1
    more = f" (and {others} more {'file' if others == 1 else 'files'} likewise)" if others else ""
    is_of_answers = any(place.startswith(f"{SAMPLES}/") for place, _ in faults)
    advice = _advice(run, is_of_answers)
    raise UserError(
        f"{folder.path / place} {what} since {COMPARISON_FILE} was made from it{more}, whose figures need not be those "
        f"of what is stored now. {advice}",
        faults=[f"{place} {what}" for place, what in faults],
        advice=advice,
    )


def _advice(run: RunRecord, is_of_answers: bool) -> str:
    """What makes the comparison anew: verdicts follow from the answers, and lost answers are computed again."""
    if run.sources:
        return "Put the file back, or compare the results again, with --card and a new folder."
    if is_of_answers:
        return "Put the file back, or give the `evalcard run` command again: it computes the answers that are missing."
    return (
        f"Give `evalcard rescore {shlex.quote(run.name)}`: it grades the stored answers again and compares them anew."
    )
