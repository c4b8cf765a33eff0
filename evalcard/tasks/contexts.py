"""Surroundings in which the harness's code runs: fast templates, seeded generators, quiet, blame where it belongs.

Each is a context that gives back what it found.
"""

import contextlib
import logging
import os
import random
from collections.abc import Iterator
from typing import Any

import lm_eval.utils
import numpy as np

from evalcard.errors import UserError
from evalcard.tasks.files.templates import render


@contextlib.contextmanager
def compiled_templates() -> Iterator[None]:
    """Within the block the harness renders Jinja templates by ours: each is compiled once, and cannot reach Python.

    The harness compiles anew for every document. Same settings, same text: all prompts of MMLU take seconds instead of
    a minute and a half.
    """
    plain = lm_eval.utils.apply_template
    lm_eval.utils.apply_template = render
    try:
        yield
    finally:
        lm_eval.utils.apply_template = plain


@contextlib.contextmanager
def seeded(state: Any = None) -> Iterator[None]:
    """The global generators as the harness's evaluator seeds them (random 0, numpy 1234), given back afterwards."""
    before, before_numpy = random.getstate(), np.random.get_state()
    random.seed(0) if state is None else random.setstate(state)
    np.random.seed(1234)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(before_numpy)


@contextlib.contextmanager
def blamed_on(task: str, what: str = "cannot be built") -> Iterator[None]:
    """Whatever goes wrong in the block is the task's: its file's templates and functions, on its own data."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"task {task} {what}: {type(error).__name__}: {error}. Correct the task's file or the documents it reads."
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No bars of the data set library and no advice of the harness to its task authors; errors still show."""
    import datasets

    logger = logging.getLogger("lm_eval")
    level, had_bars = logger.level, datasets.are_progress_bars_disabled()
    if "LMEVAL_LOG_LEVEL" not in os.environ:
        logger.setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(level)
        if not had_bars:
            datasets.enable_progress_bars()
