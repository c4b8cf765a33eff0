"""What the table of ``run --power`` rests on, in words."""

from dataclasses import replace

from evalcard.cli.power import _sources
from evalcard.forecast import RowForecast

ROW = RowForecast("task", "sums", 40, score=0.6, flip_rate=0.05, smallest_drop=9.0, finest_limit=90.0)


def test_only_what_is_assumed_is_said_to_be():
    both = " ".join(_sources([ROW]))
    assert "assumed: a score of 60 %, and that" in both and "At half the score" in both
    flips = " ".join(_sources([replace(ROW, score_is_from="earlier")]))
    assert "assumed: that" in flips and "a score of" not in flips and "At half the score" not in flips
    score = " ".join(_sources([replace(ROW, flips_are_from="earlier")]))
    assert "assumed: a score of 60 %. At half" in score and "flip." not in score
