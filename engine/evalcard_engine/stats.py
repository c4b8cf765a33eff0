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
    """Tokens that went through the model and were wanted."""
    rejected_tokens: int = 0
    """Draft tokens that went through the model and were not what the answer said."""
    accepted_tokens: int = 0
    """Draft tokens that were, and are among the computed ones."""
    cached_tokens: int = 0
    """Input tokens whose keys and values came from the prefix tree."""
    merged_tokens: int = 0
    """Input tokens of Score requests that another request's computation answered."""
    generated_tokens: int = 0
    """New tokens in answers, stop ids not counted."""
    steps: int = 0
    preemptions: int = 0
    memory_halvings: int = 0
    """Times a forward ran out of memory, after which those that follow take half as many tokens."""
    forward_tokens: int = 0
    """The most tokens that a forward takes now."""
    peak_pages: int = 0
    """The most pages that sequences held at one time."""
    kv_bytes: int = 0
    """Memory of the present KV pool."""
    graph_steps: int = 0
    """Steps that were replayed as CUDA graphs, of the present pool, as are the other counts of graphs."""
    num_graphs: int = 0
    graph_bytes: int = 0
    """Device memory of the graphs and their buffers."""
    graph_fault: str | None = None
    """Why no graphs are captured any more; None while nothing has failed."""

    def after_input(self, requests: Iterable[Request], sequences: Iterable[Sequence]) -> "Stats":
        """A run of ``requests`` begins; ``sequences`` are their distinct computations."""
        asked = sum(map(input_len, requests))
        distinct = sum(len(sequence.prompt) for sequence in sequences)
        return replace(
            self,
            prompt_tokens=self.prompt_tokens + asked,
            merged_tokens=self.merged_tokens + asked - distinct,
        )

    def after_step(
        self, step: Step, answers: Iterable[Answer], peak_pages: int, drafted: int = 0, accepted: int = 0
    ) -> "Stats":
        """A step is done and completed ``answers``; of its draft tokens so many were right."""
        generated = sum(len(answer.token_ids) for answer in answers if isinstance(answer, Completion))
        return replace(
            self,
            computed_tokens=self.computed_tokens + step.num_tokens + accepted,
            rejected_tokens=self.rejected_tokens + drafted - accepted,
            accepted_tokens=self.accepted_tokens + accepted,
            cached_tokens=self.cached_tokens + step.cached_tokens,
            generated_tokens=self.generated_tokens + generated,
            steps=self.steps + 1,
            preemptions=self.preemptions + step.preemptions,
            peak_pages=max(self.peak_pages, peak_pages),
        )

    def with_memory(self, halvings: int, forward_tokens: int) -> "Stats":
        """What memory has come to allow."""
        return replace(self, memory_halvings=halvings, forward_tokens=forward_tokens)

    def with_graphs(self, steps: int, num_graphs: int, num_bytes: int, fault: str | None) -> "Stats":
        """What the graphs of the present pool have come to."""
        return replace(self, graph_steps=steps, num_graphs=num_graphs, graph_bytes=num_bytes, graph_fault=fault)
