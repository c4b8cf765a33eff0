"""A step that runs out of memory is taken in pieces: half as many tokens to a forward, until it fits.

Where a step is cut changes no answer (on the CPU no bit of one), so nothing that was answered or computed is lost.
"""

import torch

from evalcard_engine import memory
from evalcard_engine.errors import OutOfMemory
from evalcard_engine.step import Chunk, Step

_WORDS = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "std::bad_alloc",
    "CUBLAS_STATUS_ALLOC_FAILED",
    # oneDNN says no more than this; where a product worked before, memory is what it lacked.
    "could not create a primitive",
    "could not execute a primitive",
    "could not create a memory object",
)
"""What RuntimeErrors say that mean the same: torch's allocator on the CPU has no error of its own, nor have libraries
that torch calls."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` says that memory could not be had."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


class StepMemory:
    """How many tokens one forward may take, which is halved when memory ends and never raised again."""

    def __init__(self, step_tokens: int, device: str) -> None:
        self.tokens = step_tokens
        self.halvings = 0
        self._device = device

    def halve(self, piece: Step, error: BaseException, kv_bytes: int) -> None:
        """``piece`` ran out of memory with ``error``; kv_bytes: what the KV cache takes.

        Raises OutOfMemory where it was a single token.
        """
        if piece.num_rows <= 1:
            raise OutOfMemory(self._message(error, kv_bytes)) from error
        # By what did not fit: a step of answers is far smaller than the budget for prompts.
        self.tokens = piece.num_rows // 2
        self.halvings += 1
        if self._device == "cuda":
            error.with_traceback(None)  # its frames hold the tensors that are to be given back
            torch.cuda.empty_cache()

    def _message(self, error: BaseException, kv_bytes: int) -> str:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        return (
            f"a forward of one token, the smallest there is, ran out of memory ({said}). The KV cache takes "
            f"{kv_bytes:,} bytes and {memory.free_memory(self._device):,} are free. Give the KV cache less "
            f"(kv_memory), compute in a smaller dtype, hold compressed weights packed, or end what else uses memory."
        )


def pieces(step: Step, max_tokens: int) -> list[Step]:
    """``step`` cut into steps of at most ``max_tokens`` tokens, to be run in order; copies are made by the first."""
    assert max_tokens >= 1 and step.chunks, (max_tokens, step)
    found = [Step(0, 0, copies=step.copies, cached_tokens=step.cached_tokens, preemptions=step.preemptions)]
    room = max_tokens
    for chunk in step.chunks:
        start = chunk.start
        while start < chunk.stop:
            if room == 0:
                found.append(Step(0, 0))
                room = max_tokens
            stop = min(chunk.stop, start + room)
            room -= stop - start
            draft = chunk.draft if stop == chunk.stop and len(chunk.draft) <= room else ()
            found[-1].chunks.append(Chunk(chunk.sequence, start, stop, max(start, chunk.logits_start), draft))
            room -= len(draft)
            start = stop
    return found


def without_copies(piece: Step) -> Step:
    """The same once more, its copies made: pages may have been given away since they were copied from."""
    return Step(0, 0, chunks=piece.chunks, cached_tokens=piece.cached_tokens, preemptions=piece.preemptions)
