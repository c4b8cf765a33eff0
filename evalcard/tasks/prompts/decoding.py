"""A task's generation arguments -> how its answers are decoded, by the harness's rules."""

import math
from dataclasses import dataclass
from typing import Any

from evalcard.backends.backend import Decoding
from evalcard.errors import UserError
from evalcard.spec import RunSpec

_DEFAULT_MAX_TOKENS = 256
_MAX_TOKENS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Spellings of the answer's limit; an earlier one wins."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "repetition_penalty": (1, 1.0),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "num_return_sequences": (1,),
    "use_cache": (True, False),
}
"""Arguments evalcard has no use for, and the values with which they say nothing."""
_SAMPLING = ("temperature", "top_p", "top_k", "min_p")
_KNOWN = {"until", "do_sample", *_SAMPLING, *_MAX_TOKENS}


@dataclass(frozen=True, slots=True)
class Generation:
    """How the answers of one task are generated, by every model of the run."""

    decoding: Decoding
    stop_ids: tuple[int, ...]
    repeats: int = 1
    """Answers to each item."""

    def __post_init__(self) -> None:
        assert self.repeats == 1 or not self.decoding.is_greedy, ("greedy answers are all the same", self.repeats)


def with_flags(arguments: dict[str, Any], spec: RunSpec) -> dict[str, Any]:
    """A task's generation arguments with what ``--temperature``, ``--top-p``, ``--top-k`` and ``--min-p`` say instead.

    A temperature above 0 samples, 0 is greedy, whatever the task says of ``do_sample``.
    """
    given = {name: getattr(spec, name) for name in _SAMPLING if getattr(spec, name) is not None}
    if "temperature" in given:
        given["do_sample"] = given["temperature"] > 0
    return arguments | given


def repeats_of(task: str, own: int, decoding: Decoding, spec: RunSpec) -> tuple[int, list[str]]:
    """(answers to each item of a generated task, what a person should know of it).

    Raises UserError where ``--repeats`` asks for several greedy answers: they would be one answer several times.
    """
    asked = spec.repeats
    if decoding.is_greedy and (asked or 0) > 1:
        raise UserError(
            f"--repeats {asked}: task {task} is decoded greedily, so {asked} answers to an item would all be the same. "
            "Add --temperature (such as 0.6, or what the model's own card says), or leave out --repeats."
        )
    notes = []
    idle = [f"--{name.replace('_', '-')}" for name in _SAMPLING[1:] if getattr(spec, name) is not None]
    if decoding.is_greedy and idle:
        notes.append(
            f"{task}: decoded greedily, so {' and '.join(idle)} "
            f"{'changes' if len(idle) == 1 else 'change'} nothing; --temperature turns sampling on"
        )
    if decoding.is_greedy and own > 1 and asked is None:
        notes.append(f"{task}: answered once and not its own {own} times, since greedy answers are all the same")
    elif asked is not None and own not in (1, asked):
        notes.append(f"{task}: {asked} answers to each item instead of its own {own}")
    return 1 if decoding.is_greedy else asked or own, notes


def untouched_by(spec: RunSpec) -> list[str]:
    """The flags that were given and concern generated answers only."""
    given = [name for name in ("repeats", *_SAMPLING, "max_new_tokens") if getattr(spec, name) is not None]
    return [f"--{name.replace('_', '-')}" for name in given]


def decoding_of(
    task: str, arguments: dict[str, Any], eos_text: str | None, max_new_tokens: int | None, seed: int
) -> Decoding:
    """Greedy unless the task samples: ``do_sample`` (by default whether temperature > 0) and a temperature above 0.

    A scalar ``until`` is one string; the tokenizer's EOS text always stops too. What a checkpoint's generation config
    says of sampling is never looked at. Raises UserError for arguments that would change answers and are not supported.
    """
    for name, value in arguments.items():
        if name not in _KNOWN and value is not None and value not in _NEUTRAL.get(name, ()):
            raise UserError(
                f"task {task} asks for {name}={value!r}, which evalcard does not decode with. Known arguments: "
                f"{', '.join(sorted(_KNOWN))}. Evaluate this task with lm_eval itself."
            )
    stated = [arguments[name] for name in _MAX_TOKENS if arguments.get(name) is not None]
    limit = _number(task, _MAX_TOKENS[0], stated[0] if stated else None, _DEFAULT_MAX_TOKENS, low=1, is_whole=True)
    max_tokens = max_new_tokens or int(limit)
    until = _until(task, arguments.get("until"), eos_text)
    temperature = _number(task, "temperature", arguments.get("temperature"), 0.0, low=0)
    do_sample = arguments.get("do_sample")
    if not (temperature > 0 if do_sample is None else do_sample and temperature > 0):
        return Decoding(max_tokens, until)
    return Decoding(
        max_tokens,
        until,
        temperature=temperature,
        top_p=_number(task, "top_p", arguments.get("top_p"), 1.0, low=0, high=1, is_above=True),
        top_k=int(_number(task, "top_k", arguments.get("top_k"), 0, low=0, is_whole=True)),
        min_p=_number(task, "min_p", arguments.get("min_p"), 0.0, low=0, high=1),
        seed=seed,
    )


def _number(
    task: str, name: str, given: Any, default: float, *, low: float, high: float = math.inf, is_above: bool = False,
    is_whole: bool = False,
) -> float:  # fmt: skip
    """``given`` as a number, text too as in the harness. Raises UserError outside [low, high], or (low, high]."""
    if given is None:
        return default
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    is_in_range = math.isfinite(value) and (low < value if is_above else low <= value) and value <= high
    if not is_in_range or (is_whole and value != int(value)) or isinstance(given, bool):
        allowed = f"above {low:g}" if is_above else f"{low:g} or more"
        allowed += "" if high == math.inf else f" and at most {high:g}"
        raise UserError(
            f"task {task} asks for {name}={given!r}; it must be a {'whole ' if is_whole else ''}number, {allowed}. "
            "Correct 'generation_kwargs' in the task's file."
        )
    return value


def _until(task: str, given: Any, eos_text: str | None) -> tuple[str, ...]:
    listed = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(listed, (list, tuple)) or not all(isinstance(text, str) for text in listed):
        raise UserError(f"task {task}: 'until' must be a string or a list of strings, not {given!r}.")
    return tuple(dict.fromkeys(text for text in (*listed, eos_text) if text))


def in_words(decoding: Decoding | None) -> str:
    """For records and cards: scored, greedy, or sampled with its parameters."""
    if decoding is None:
        return "scored"
    if decoding.is_greedy:
        return "greedy"
    parts = [f"temperature {decoding.temperature:g}", f"top-p {decoding.top_p:g}"]
    parts += [f"top-k {decoding.top_k}"] if decoding.top_k else []
    parts += [f"min-p {decoding.min_p:g}"] if decoding.min_p else []
    return f"sampled, {', '.join(parts)}, seed {decoding.seed}"
