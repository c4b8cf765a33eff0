"""Sequences that know what they were asked: they take tokens or log-probabilities and become answers. No torch."""

from dataclasses import dataclass, field

from evalcard_engine.lookup import Lookup
from evalcard_engine.request import Completion, Finish, Generate, Score, Scored
from evalcard_engine.sequence import Sequence
from evalcard_engine.stopping import Detokenize, StopWatch, cut_at_stop


@dataclass(eq=False, slots=True, kw_only=True)
class GenerateSequence(Sequence):
    """A Generate under way; ``generated`` never holds the stop id."""

    request: Generate
    detokenize: Detokenize | None
    watch: StopWatch | None
    lookup: Lookup | None
    """Of greedy answers: drawn tokens are hard to guess."""

    @classmethod
    def of(cls, request: Generate, detokenize: Detokenize | None) -> "GenerateSequence":
        length = len(request.prompt)
        strings = request.stop_strings
        return cls(
            prompt=request.prompt,
            next_logits=length - 1,
            max_len=length + request.max_tokens - 1,  # the last new token is never fed back
            request=request,
            detokenize=detokenize,
            watch=StopWatch(strings, detokenize) if strings and detokenize else None,
            lookup=Lookup() if request.sampling is None else None,
        )

    def draft(self, most: int) -> tuple[int, ...]:
        if self.lookup is None or most < 1:
            return ()
        return self.lookup.draft(self.prompt + tuple(self.generated), most)

    def checked(self, drafted: int, accepted: int) -> None:
        """So many tokens of the last draft were the model's choice."""
        if self.lookup is not None and drafted:
            self.lookup.checked(drafted, accepted)

    def accept(self, token: int) -> Completion | None:
        """Append the next token; the answer, if this one ends it."""
        if token in self.request.stop_ids:
            return self.complete("stop")
        self.generated.append(token)
        self.next_logits = self.num_tokens - 1
        if self.watch is not None and self.watch.is_hit(self.generated):
            return self.complete("stop_string")
        if len(self.generated) >= self.request.max_tokens:
            return self.complete("length")
        return None

    def complete(self, finish: Finish) -> Completion:
        """The answer as it stands. The whole text decides about stop strings, whatever the watch saw."""
        text = self.detokenize(self.generated) if self.detokenize else ""
        cut = cut_at_stop(text, self.request.stop_strings)
        if cut is not None and finish != "error":
            text, finish = cut, "stop_string"
        return Completion(
            id=self.request.id,
            token_ids=tuple(self.generated),
            text=text,
            finish=finish,
            prompt_tokens=len(self.prompt),
            cached_tokens=self.cached_len or 0,
        )


@dataclass(eq=False, slots=True, kw_only=True)
class ScoreSequence(Sequence):
    """Every Score with the same input tokens, context + continuation[:-1]: computed once, answered separately."""

    requests: tuple[Score, ...]
    logprobs: list[list[float]]
    """For each request, those of its continuation's tokens that are known."""
    is_greedy: list[bool]
    failed: list[bool] = field(default_factory=list)

    @classmethod
    def of(cls, requests: tuple[Score, ...]) -> "ScoreSequence":
        first = requests[0]
        tokens = first.context + first.continuation[:-1]
        return cls(
            prompt=tokens,
            next_logits=min(len(request.context) for request in requests) - 1,
            max_len=len(tokens),
            requests=requests,
            logprobs=[[] for _ in requests],
            is_greedy=[True] * len(requests),
            failed=[False] * len(requests),
        )

    def targets(self, position: int) -> list[tuple[int, int]]:
        """(request, token) pairs whose log-probability the logits at ``position`` give."""
        return [
            (index, request.continuation[position + 1 - len(request.context)])
            for index, request in enumerate(self.requests)
            if position + 1 >= len(request.context)
        ]

    def record(self, position: int, logprobs: list[float] | None, greedy_token: int) -> None:
        """Store what ``targets(position)`` asked for, in that order; None where the logits were not finite."""
        assert position == self.next_logits, (position, self.next_logits)
        for place, (index, token) in enumerate(self.targets(position)):
            if logprobs is None:
                self.failed[index] = True
            else:
                self.logprobs[index].append(logprobs[place])
                self.is_greedy[index] &= token == greedy_token
        self.next_logits = position + 1

    def scored(self) -> list[Scored]:
        """One answer for each request, once every position is recorded; a failed one carries no numbers."""
        assert self.next_logits == len(self.prompt), (self.next_logits, len(self.prompt))
        return [
            Scored(
                id=request.id,
                logprobs=() if failed else tuple(logprobs),
                is_greedy=greedy and not failed,
                prompt_tokens=len(request.context),
                cached_tokens=min(self.cached_len or 0, len(request.context)),
                finish="error" if failed else "stop",
            )
            for request, logprobs, greedy, failed in zip(
                self.requests, self.logprobs, self.is_greedy, self.failed, strict=True
            )
        ]
