"""From a stored comparison to a card."""
