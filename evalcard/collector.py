"""How often Python looks for garbage among objects that refer to each other."""

import gc

EVERY = (100_000, 20, 100)
"""Thresholds of the three generations, for `gc.set_threshold`; of the first, in objects made and not yet freed."""


def look_rarely() -> None:
    """For a process of our own, before it imports much: torch, transformers and datasets make a million objects that
    all stay, and looking for garbage among them as often as Python does by default takes a fifth of that time."""
    gc.set_threshold(*EVERY)
