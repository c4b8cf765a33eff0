"""Where the first value that is not finite comes from: one sequence run again by itself, every module watched."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from evalcard_engine.answers import ScoreSequence
from evalcard_engine.readout import Ended
from evalcard_engine.request import Answer
from evalcard_engine.runner import Model, Runner
from evalcard_engine.sequence import Sequence
from evalcard_engine.step import Chunk, Limits, Step
from evalcard_engine.step_memory import is_out_of_memory

_LAYERS = "model.layers."


@dataclass(slots=True)
class FirstFault:
    """Set once, by whatever is first seen to be not finite."""

    found: str | None = None
    """Such as ``layer 12, mlp.down_proj: output not finite``; layers count from 0, as in the checkpoint."""

    def note(self, name: str, end: str, values: Any) -> None:
        if self.found is None and not _is_finite(values):
            self.found = f"{place_of(name)}: {end} not finite"


def place_of(name: str) -> str:
    """A module's name as it is said: ``model.layers.12.mlp.down_proj`` is ``layer 12, mlp.down_proj``."""
    layer, _, rest = name.removeprefix(_LAYERS).partition(".")
    return f"layer {layer}, {rest}" if name.startswith(_LAYERS) and rest else name


@contextmanager
def watched(module: nn.Module) -> Iterator[FirstFault]:
    """Look at what goes into and comes out of every innermost module while this lasts.

    What happens between modules (attention, products, residual sums) shows at the input of the next one.
    """
    fault = FirstFault()
    hooks = []
    for name, inner in module.named_modules():
        if next(inner.children(), None) is None:
            hooks.append(inner.register_forward_pre_hook(lambda _, given, name=name: fault.note(name, "input", given)))
            hooks.append(
                inner.register_forward_hook(lambda _, given, made, name=name: fault.note(name, "output", made))
            )
    try:
        yield fault
    finally:
        for hook in hooks:
            hook.remove()


class FaultFinder:
    """Says for the first answer that fails where that began; a forward for every one would cost too much."""

    def __init__(self, model: Model, limits: Limits, device: str) -> None:
        self._model = model
        self._limits = limits
        self._device = device
        self._is_done = False

    def explain(self, ended: Ended) -> list[Answer]:
        """The sequence's answers, the first that failed with its fault. Call it while the sequence is whole."""
        failed = next((place for place, answer in enumerate(ended.answers) if answer.finish == "error"), None)
        if failed is None or self._is_done:
            return ended.answers
        self._is_done = True
        answers = list(ended.answers)
        answers[failed] = replace(answers[failed], fault=self._find(ended.sequence))
        return answers

    def _find(self, sequence: Sequence) -> str:
        """Run all its tokens again, alone and in a pool of its own."""
        tokens = sequence.tokens(0, sequence.num_tokens)
        num_pages = self._limits.pages_for(len(tokens))
        probe = Sequence(
            prompt=tokens, next_logits=_first_logits(sequence), max_len=len(tokens), is_long=sequence.is_long
        )
        probe.pages.extend(range(num_pages))
        try:
            pool = self._model.make_pool(num_pages, self._limits.page_size)
            return self._run(probe, Runner(self._model, pool, self._limits.page_size, self._device))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return "logits not finite; there was no memory left to find out in which layer"

    def _run(self, probe: Sequence, runner: Runner) -> str:
        """Until something is not finite: what came before it was."""
        chunk_len = min(self._limits.step_tokens, self._limits.step_logits)
        for start in range(0, probe.num_tokens, chunk_len):
            stop = min(start + chunk_len, probe.num_tokens)
            chunk = Chunk(probe, start, stop, min(max(start, probe.next_logits), stop))
            with self._model.watched() as fault:
                _, logits = runner.run(Step(tokens_left=0, logits_left=0, chunks=[chunk]))
            if fault.found is not None:
                return fault.found
            if not _is_finite(logits):
                return "logits not finite"
        return "logits not finite, but only in the batch they were computed in; by themselves all were"


def _first_logits(sequence: Sequence) -> int:
    """The first position whose logits its answers are made of."""
    if isinstance(sequence, ScoreSequence):
        return min(len(request.context) for request in sequence.requests) - 1
    return sequence.num_tokens - 1


def _is_finite(values: Any) -> bool:
    """Whether all floating-point numbers in a tensor, or in a tuple of them, are finite."""
    if isinstance(values, torch.Tensor):
        return not values.is_floating_point() or bool(torch.isfinite(values).all())
    return all(map(_is_finite, values)) if isinstance(values, (tuple, list)) else True
