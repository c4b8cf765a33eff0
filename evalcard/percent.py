"""What a percentage and a confidence may be, the same for flags, gate files and run specs."""

MAX_CONFIDENCE = 0.9999
"""Above it an interval is that of its tails alone, which no formula here is made for, and prints as one of 100 %."""


def percent_fault(limit: float) -> str | None:
    """What is wrong with a least share in percent that looks like a fraction, which would let everything pass; None
    where nothing is. 0 is said on purpose."""
    if not 0 < limit <= 1:
        return None
    meant = round(100 * limit, 6)
    advice = f"write {meant:g}" if meant >= 1 else "write 0, or a number above 1, such as 99"
    return f"is in percent, got {limit:g}; {advice}"


def confidence_fault(confidence: float) -> str | None:
    """What is wrong with it; None where nothing is."""
    if 0.5 < confidence <= MAX_CONFIDENCE:
        return None
    meant = f"write {min(confidence / 100, MAX_CONFIDENCE):g}" if 50 < confidence < 100 else "such as 0.95"
    # In all its digits, as it may be near 1.
    return f"is {confidence!r}; give a fraction above 0.5 and below 1 (at most {MAX_CONFIDENCE:g}), {meant}"
