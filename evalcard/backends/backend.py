"""What every backend takes and gives: encoded items in, answers out as they finish. Light: no torch, no harness."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Finish = Literal["stop", "stop_string", "length", "error"]


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """The log-probability of ``continuation`` after ``context``, as text and as ids."""

    context: str
    continuation: str
    context_ids: tuple[int, ...]
    continuation_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decoding:
    """How an answer is generated; temperature None is greedy."""

    max_tokens: int
    until: tuple[str, ...]
    temperature: float | None = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int = 0

    @property
    def is_greedy(self) -> bool:
        return self.temperature is None


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """An answer to ``prompt``; ``stop_ids`` is the union of the tokenizer's and the generation config's."""

    prompt: str
    prompt_ids: tuple[int, ...]
    stop_ids: tuple[int, ...]
    decoding: Decoding


@dataclass(frozen=True, slots=True)
class Item:
    """One (task, item, repeat) to be answered; all requests of an item are of one kind."""

    task: str
    item_id: int | str
    item_hash: str
    repeat: int
    prompt_hash: str
    requests: tuple[ScoreRequest, ...] | tuple[GenerateRequest, ...]
    is_rolling: bool = False
    """A whole text is scored in windows; the first request's ``continuation`` is the text, the others' are empty."""
    shots: int | None = None
    """Worked examples in the prompt where some were left out; None where it has them all."""


@dataclass(frozen=True, slots=True)
class ChoiceAnswer:
    logprob: float | None
    """Sum over the continuation; None where the logits were not finite."""
    tokens: int
    is_greedy: bool
    fault: str | None = None
    """Where the logits stopped being finite, as far as the backend found out."""


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """What the model said to an Item: ``choices`` in the order of its ScoreRequests, or ``text``."""

    finish: Finish
    text: str | None = None
    token_ids: tuple[int, ...] | None = None
    choices: tuple[ChoiceAnswer, ...] | None = None
    output_tokens: int = 0
    timings: tuple[tuple[str, float], ...] = ()
    fault: str | None = None
    """What went wrong where ``finish`` is error, as far as the backend found out."""


@dataclass(frozen=True, slots=True)
class PlainKind:
    """Linears and embeddings of one kind that stay in full precision; fields as in results.records.PlainLayers."""

    kind: str
    count: int
    of: int
    dtype: str
    shares: str | None


@dataclass(frozen=True, slots=True)
class Description:
    """What a checkpoint's files say about it beside its weights; no path of this machine is in it."""

    config: Mapping[str, Any] | None = None
    """config.json, cleaned; None where it is not at hand."""
    left_plain: tuple[PlainKind, ...] | None = None
    """None where nothing is compressed, or the backend does not look into files."""
    recipe: str | None = None
    """The text of recipe.yaml."""
    stated: Mapping[str, str | list[str]] | None = None
    """Licence and language by the front matter of its README.md."""
    notes: tuple[str, ...] = ()
    """What is strange about its tensors, and yet no fault."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What names the model's answers before any weights are loaded (design, Settled 2)."""

    weights_digest: str | None
    """With scheme and quantizer version; None makes answers reusable inside their own run only."""
    numerics: str | None
    stored_as: str | None = None
    """Format and scheme of a checkpoint that is compressed in its files, in words; names nothing, so no key has it."""
    described: Description = Description()
    """For the card; names nothing either."""


class Backend(Protocol):
    """Opens its model on the first ``answer``, so that a run whose answers are all stored loads nothing."""

    def identity(self) -> Identity:
        """Cheap: reads files, loads no weights."""

    def answer(self, items: Sequence[Item], on_answer: Callable[[Item, ItemAnswer], None]) -> None:
        """Answer every item exactly once, in any order, each reported as soon as it is done."""

    def facts(self) -> dict[str, float | int | str | None]:
        """bits_per_weight, weight_bytes, num_parameters and the like, as far as the model was opened."""

    def close(self) -> None:
        """Give back memory; may be called twice."""
