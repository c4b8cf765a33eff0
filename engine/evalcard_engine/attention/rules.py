"""What a layer's attention does and does not say when it calls us; decided by families.py, carried by every step."""

from dataclasses import dataclass

from evalcard_engine.attention.reach import Reach
from evalcard_engine.attention.temperature import Temperature


@dataclass(frozen=True, slots=True)
class LayerRule:
    """One layer's own."""

    reach: Reach = None
    """Which of the tokens before it a token sees."""
    temperature: Temperature | None = None
    """By which queries are multiplied, according to their position."""
