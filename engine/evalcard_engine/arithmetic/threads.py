"""Running something by one thread, to see whether that changes it."""

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


def with_one_thread(work: Callable[[], T]) -> T:
    """What ``work`` gives when torch has one thread; afterwards it has as many as before."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return work()
    finally:
        torch.set_num_threads(threads)
