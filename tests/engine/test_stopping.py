"""Stop strings over tokens that split words and characters."""

import random

import pytest

from evalcard_engine.stopping import StopWatch, cut_at_stop


def byte_detokenize(token_ids) -> str:
    """One token a byte of UTF-8: characters are split over tokens."""
    return bytes(token_ids).decode("utf-8", errors="replace")


def word_detokenize(token_ids) -> str:
    """Three characters a token, and like some tokenizers it drops a space at the very start."""
    text = "".join(" ab bc ca. \n\nXYZ"[3 * (i % 5) : 3 * (i % 5) + 3] for i in token_ids)
    return text.removeprefix(" ")


def first_hit(watch: StopWatch, token_ids) -> int | None:
    for count in range(1, len(token_ids) + 1):
        if watch.is_hit(token_ids[:count]):
            return count
    return None


def test_cut_takes_the_earliest_of_several():
    assert cut_at_stop("one two three", ("three", "two")) == "one "
    assert cut_at_stop("one", ("two",)) is None


def test_a_stop_string_over_several_tokens_is_found_at_its_last():
    assert first_hit(StopWatch(("Question:",), byte_detokenize), list(b"It is 5.\n\nQuestion: what")) == 19


def test_a_multi_byte_stop_string_is_found_when_its_last_byte_comes():
    token_ids = list("Antwort: 5€ und 😀 mehr".encode())
    hit = first_hit(StopWatch(("😀",), byte_detokenize), token_ids)
    assert byte_detokenize(token_ids[:hit]).endswith("😀")


@pytest.mark.parametrize("detokenize", [byte_detokenize, word_detokenize])
def test_the_watch_stops_exactly_where_the_whole_text_first_holds_a_stop_string(detokenize):
    rng = random.Random(0)
    hits = 0
    for _ in range(150):
        alphabet = list("aä.\n€ Q".encode()) if detokenize is byte_detokenize else list(range(5))
        token_ids = [rng.choice(alphabet) for _ in range(rng.randrange(1, 400))]
        strings = tuple(rng.choice(["ab b", "\n\nX", "Q. Q", "€Q", ".\n", "aaaa", "YZ ab"]) for _ in range(2))
        texts = [detokenize(token_ids[:count]) for count in range(1, len(token_ids) + 1)]
        expected = next((i + 1 for i, text in enumerate(texts) if any(s in text for s in strings)), None)
        assert first_hit(StopWatch(strings, detokenize), token_ids) == expected
        hits += expected is not None
    assert hits > 20


def test_a_long_answer_is_not_detokenized_again_and_again():
    lengths = []

    def counting(token_ids) -> str:
        lengths.append(len(token_ids))
        return byte_detokenize(token_ids)

    watch = StopWatch(("never",), counting)
    token_ids = [ord("x")] * 3000
    assert first_hit(watch, token_ids) is None
    assert sum(lengths) < 120 * 3000
    assert max(lengths) < 100


def test_a_suspicion_in_the_tail_is_settled_by_the_whole_text():
    """A detokenizer whose text depends on what came before makes the tail show what the whole text does not."""

    def detokenize(token_ids) -> str:
        return bytes(token_ids).decode().replace("a-b", "a_b")

    watch = StopWatch(("-b",), detokenize)
    token_ids = list(b"x" * 90 + b"a-b")
    watch._tail_start = 91
    assert detokenize(token_ids[91:]) == "-b"
    assert not watch.is_hit(token_ids)
