"""What an engine has done so far. No torch."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from evalcard_engine.plan import input_len
from evalcard_engine.request import Answer, Completion, Request
from evalcard_engine.sequence import Sequence
from evalcard_engine.step import Step


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts since the engine was opened, at one moment.

    Without preemptions, computed + cached + merged tokens = prompt tokens + new tokens that were fed back.
    """

    prompt_tokens: int = 0
    """Input tokens of the requests, each counted in full when its run started."""
    computed_tokens: int = 0
    """Tokens that went through the model."""
    cached_tokens: int = 0
    """Input tokens whose keys and values came from the prefix tree."""
    merged_tokens: int = 0
    """Input tokens of Score requests that another request's computation answered."""
    generated_tokens: int = 0
    """New tokens in answers, stop ids not counted."""
    steps: int = 0
    preemptions: int = 0
    peak_pages: int = 0
    """The most pages that sequences held at one time."""
    kv_bytes: int = 0
    """Memory of the present KV pool."""

    def after_input(self, requests: Iterable[Request], sequences: Iterable[Sequence]) -> "Stats":
        """A run of ``requests`` begins; ``sequences`` are their distinct computations."""
        asked = sum(map(input_len, requests))
        distinct = sum(len(sequence.prompt) for sequence in sequences)
        return replace(
            self,
            prompt_tokens=self.prompt_tokens + asked,
            merged_tokens=self.merged_tokens + asked - distinct,
        )

    def after_step(self, step: Step, answers: Iterable[Answer], peak_pages: int) -> "Stats":
        """A step is done and completed ``answers``."""
        generated = sum(len(answer.token_ids) for answer in answers if isinstance(answer, Completion))
        return replace(
            self,
            computed_tokens=self.computed_tokens + step.num_tokens,
            cached_tokens=self.cached_tokens + step.cached_tokens,
            generated_tokens=self.generated_tokens + generated,
            steps=self.steps + 1,
            preemptions=self.preemptions + step.preemptions,
            peak_pages=max(self.peak_pages, peak_pages),
        )
