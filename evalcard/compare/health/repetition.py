"""Does an answer end in a loop? Compressed models that lost their way often say one thing until the token limit."""

MIN_REPEATS = 4
"""Times that the unit stands at the end, the last one perhaps cut."""
MIN_LENGTH, MIN_LENGTH_WITHOUT_WORDS = 60, 200
"""Characters of the repeated stretch; a unit without letters or digits may be a rule of dashes, or white space."""
MIN_SHARE, LONG = 0.25, 2000
"""The stretch is this share of the answer, or has this many characters however long the answer is."""
MOST_TAIL = 32
"""Characters that may follow the last repetition; they are fewer than half of the unit, too."""
CLOSING = ")]}"
"""A tail with one of these completes what was opened before the repetition: a list or a matrix of equal entries."""
_PROBE = 32
"""Characters at the end that are looked for further up. Every stretch is long enough to hold them and one unit more:
MIN_LENGTH for units up to 15 characters, MIN_REPEATS units for longer ones."""
_TRY, _EFFORT = 64, 4
"""Every place that is tried counts as so many characters compared, and of these there are so many times the answer's
length, so that the time is linear in it."""
_LEAST_EFFORT = 10_000


def ends_in_a_loop(text: str) -> bool:
    """Whether a text ends in one unit of any length, repeated word for word; a short tail may follow.

    White space at the end is no part of what is said, unless it is itself what is repeated.
    """
    said = text.rstrip()
    if len(said) < len(text) and _unit(text, len(text)):
        return True
    for tail in range(min(MOST_TAIL, len(said)) + 1):
        end = len(said) - tail
        if tail and said[end] in CLOSING:
            return False
        unit = _unit(said, end)
        if unit:
            # Whoever cuts more off cuts into the repetitions.
            return 2 * tail < unit or not tail
    return False


def _unit(text: str, end: int) -> int | None:
    """The shortest unit that is repeated for long enough up to ``end``; None where there is none."""
    if end < _PROBE:
        return None
    probe = text[end - _PROBE : end]
    least, effort = 1, 0
    while effort <= max(_EFFORT * end, _LEAST_EFFORT):
        place = text.rfind(probe, 0, end - least)
        unit = end - _PROBE - place
        if place < 0 or MIN_REPEATS * unit > end:
            return None
        needed = _needed(text, end, unit)
        stretch = _stretch(text, end, unit, needed)
        if stretch >= needed:
            return unit
        effort += stretch - unit + _TRY
        # A longer unit within this stretch would be this one several times, and end where it does.
        least = max(unit, stretch - unit) + 1
    return None


def _needed(text: str, end: int, unit: int) -> int:
    """Characters that have to have this period; more than ``end`` where the text is too short for it."""
    is_long = MIN_REPEATS * unit >= MIN_LENGTH_WITHOUT_WORDS
    has_words = is_long or any(map(str.isalnum, text[end - unit : end]))
    least = max(MIN_REPEATS * unit, MIN_LENGTH if has_words else MIN_LENGTH_WITHOUT_WORDS)
    return max(least, min(int(MIN_SHARE * end), LONG))


def _stretch(text: str, end: int, unit: int, most: int) -> int:
    """How many characters up to ``end`` have this period, counted up to ``most``."""
    start, first = end - unit - _PROBE, max(end - most, 0)
    block = 8
    while start > first:
        size = min(block, start - first)
        if text[start - size : start] == text[start - size + unit : start + unit]:
            start, block = start - size, 2 * block
        elif size == 1:
            break
        else:
            block = size // 2
    return end - start
