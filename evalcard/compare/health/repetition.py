"""Does an answer end in a loop? Compressed models that lost their way often say one thing until the token limit."""

MIN_REPEATS = 4
"""Times that the unit stands at the end, the last one perhaps cut."""
MIN_LENGTH, MIN_LENGTH_WITHOUT_WORDS = 60, 200
"""Characters of the repeated stretch; a unit without letters or digits may be a rule of dashes, or white space."""
MIN_SHARE, LONG = 0.25, 2000
"""The stretch is this share of the answer, or has this many characters however long the answer is."""
_PROBE = 32
"""Characters at the end that are looked for further up. Every stretch is long enough to hold them and one unit more:
MIN_LENGTH for units up to 15 characters, MIN_REPEATS units for longer ones."""
_MAX_TRIES = 100
"""Earlier places of these characters that are tried, nearest first, so that the time is linear in the answer."""


def ends_in_a_loop(text: str) -> bool:
    """Whether a text ends in one unit of any length, repeated word for word up to the last character.

    Lists and tables are none: their lines differ, and what follows the last one (a bracket, an answer) ends the
    repetition.
    """
    length = len(text)
    probe = text[-_PROBE:]
    place = length - _PROBE
    for _ in range(_MAX_TRIES):
        place = text.rfind(probe, 0, max(place + _PROBE - 1, 0))
        unit = length - _PROBE - place
        if place < 0 or MIN_REPEATS * unit > length:
            return False
        if _is_repeated(text, unit):
            return True
    return False


def _is_repeated(text: str, unit: int) -> bool:
    """Whether the end of a text has this period for long enough."""
    length = len(text)
    has_words = any(map(str.isalnum, text[length - unit :]))
    least = max(MIN_REPEATS * unit, MIN_LENGTH if has_words else MIN_LENGTH_WITHOUT_WORDS)
    needed = max(least, min(int(MIN_SHARE * length), LONG))
    return needed <= length and text[length - needed + unit :] == text[length - needed : length - unit]
