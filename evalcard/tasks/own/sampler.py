"""Worked examples for a data file of one's own, drawn from the file itself."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lm_eval.api.samplers import ContextSampler

from evalcard.errors import UserError


class OtherQuestions(ContextSampler):
    """Draws from the rows that ask something else: neither the item nor a repetition of its question is its shot."""

    def sample(
        self, n: int, eval_doc: dict[str, Any] | None = None, df: Sequence[dict[str, Any]] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        """``n`` rows in random order. Raises UserError where fewer than ``n`` ask something else than ``eval_doc``."""
        rows = self.df if df is None else df
        own = None if eval_doc is None else eval_doc["prompt"]
        wanted = n + self._repetitions(rows).get(own, 0)
        drawn = [row for row in self.rnd.sample(rows, min(wanted, len(rows))) if row["prompt"] != own]
        if len(drawn) < n:
            raise UserError(
                f"{n} shots were asked for, but the data file has {len(drawn)} rows with another question than the "
                "item itself to take them from. Ask for fewer with --num-fewshot, or add rows."
            )
        return drawn[:n]

    def _repetitions(self, rows: Sequence[dict[str, Any]]) -> Counter[str | None]:
        if getattr(self, "_counted", None) is not rows:
            self._counted, self._counts = rows, Counter(row["prompt"] for row in rows)
        return self._counts
