"""Drafts come from what the text said before, and learn from being wrong."""

from evalcard_engine.lookup import FIRST_DRAFT, FIRST_PAUSE, MATCH, MOST_DRAFT, MOST_PAUSE, Lookup

RUN = tuple(range(100, 100 + MATCH))
"""Tokens that are found again."""


def test_what_followed_the_newest_tokens_last_time_is_drafted() -> None:
    tokens = [9, *RUN, 4, 5, 7, *RUN, 6, 8, *RUN]
    assert Lookup().draft(tokens, 2) == (6, 8)
    assert Lookup().draft(tokens, 10) == (6, 8, *RUN)[:FIRST_DRAFT]
    assert Lookup().draft(tokens, 0) == ()


def test_a_draft_goes_on_in_circles() -> None:
    lookup = Lookup()
    assert lookup.draft([1, 2, *[7] * (MATCH + 1)], 3) == (7, 7, 7)
    lookup = Lookup()
    assert lookup.draft([1, 2, 3] * 5, 4) == (1, 2, 3, 1)


def test_what_was_never_said_is_not_drafted() -> None:
    assert Lookup().draft(list(range(20)), 4) == ()
    assert Lookup().draft([1] * MATCH, 4) == ()
    assert Lookup().draft([], 4) == ()


def test_a_text_that_grows_is_learned_as_it_grows() -> None:
    lookup, tokens = Lookup(), [*RUN, 4]
    assert lookup.draft(tokens, 4) == ()
    tokens += [5, *RUN]
    assert lookup.draft(tokens, 2) == (4, 5)
    tokens += [7, *RUN]
    assert lookup.draft(tokens, 2) == (7, RUN[0])


def test_drafts_grow_while_they_are_right_and_are_as_long_as_they_were() -> None:
    lookup, tokens = Lookup(), [1, 2, 3] * 30
    lengths = []
    for _ in range(3):
        lengths.append(len(lookup.draft(tokens, 100)))
        lookup.checked(lengths[-1], lengths[-1])
    assert lengths == [FIRST_DRAFT, 2 * FIRST_DRAFT, MOST_DRAFT]
    lookup.checked(MOST_DRAFT, 3)
    assert len(lookup.draft(tokens, 100)) == 3


def test_after_wrong_drafts_there_are_pauses_that_grow() -> None:
    lookup, tokens = Lookup(), [1, 2, 3] * 30
    pauses = []
    for _ in range(8):
        assert lookup.draft(tokens, 100)
        lookup.checked(1, 0)
        before = len(tokens)
        while not lookup.draft(tokens, 100):
            tokens.append(tokens[-3])
        pauses.append(len(tokens) - before)
    assert pauses == [min(MOST_PAUSE, FIRST_PAUSE * 2**number) for number in range(8)]
    lookup.checked(1, 1)
    lookup.draft(tokens, 100)
    lookup.checked(1, 0)
    tokens += [tokens[-3]] * FIRST_PAUSE
    assert lookup._next_len == len(tokens)
