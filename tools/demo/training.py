"""The training loop: a time budget, a learning rate that falls along it, checkpoints to go on from."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from demo.corpus import TESTS, validation
from demo.network import Optimizers, loss_of
from demo.packing import batches
from demo.scoring import accuracy


@dataclass
class Progress:
    """How far training has come; kept with the weights."""

    seconds: float = 0.0
    steps: int = 0
    chunks: int = 0
    """Chunks of the stream begun; every example trained on lies in chunks [0, chunks)."""


@dataclass(frozen=True)
class Plan:
    seconds: float
    rows_per_batch: int = 32
    warmup_steps: int = 60
    decay_share: float = 0.6
    """The learning rate falls linearly to zero over this last share of the time."""
    validation_items: int = 64
    seconds_between_looks: float = 180.0

    def rate(self, progress: Progress) -> float:
        left = max(0.0, 1 - progress.seconds / self.seconds)
        return min(1.0, (progress.steps + 1) / self.warmup_steps, left / self.decay_share)


def train(model: LlamaForCausalLM, tokenizer: Tokenizer, plan: Plan, checkpoint: Path) -> Progress:
    """Trains until the plan's time is used up, from the checkpoint if there is one."""
    optimizers, progress = Optimizers(model), Progress()
    if checkpoint.exists():
        progress = load(model, optimizers, checkpoint)
    body = torch.compile(model.model)
    looked = progress.seconds
    for chunks, batch in batches(tokenizer, plan.rows_per_batch, progress.chunks):
        progress.chunks = chunks
        started = time.monotonic()
        loss = loss_of(model, body, batch)
        loss.backward()
        optimizers.step(plan.rate(progress))
        progress.steps += 1
        progress.seconds += time.monotonic() - started
        if progress.steps % 25 == 0:
            report(progress, f"loss {loss.item():.4f} rate {plan.rate(progress):.3f}")
        done = progress.seconds >= plan.seconds
        if done or progress.seconds - looked > plan.seconds_between_looks:
            looked = progress.seconds
            look(model, tokenizer, plan, progress)
            save(model, optimizers, progress, checkpoint)
        if done:
            return progress
    raise AssertionError("the stream has no end")


def look(model: LlamaForCausalLM, tokenizer: Tokenizer, plan: Plan, progress: Progress) -> None:
    """Accuracy on held-out items that are not test items."""
    model.eval()
    scores = {task: accuracy(model, tokenizer, validation(task, plan.validation_items)) for task in TESTS}
    model.train()
    report(progress, " ".join(f"{task} {score:.3f}" for task, score in scores.items()))


def report(progress: Progress, text: str) -> None:
    print(f"{progress.seconds / 60:6.2f} min  step {progress.steps:5d}  chunk {progress.chunks:4d}  {text}", flush=True)


def save(model: LlamaForCausalLM, optimizers: Optimizers, progress: Progress, checkpoint: Path) -> None:
    partial = checkpoint.with_suffix(".partial")
    torch.save(
        {"model": model.state_dict(), "optimizers": optimizers.state_dict(), "progress": vars(progress)}, partial
    )
    partial.replace(checkpoint)


def load(model: LlamaForCausalLM, optimizers: Optimizers, checkpoint: Path) -> Progress:
    stored = torch.load(checkpoint)
    model.load_state_dict(stored["model"])
    optimizers.load_state_dict(stored["optimizers"])
    return Progress(**stored["progress"])
