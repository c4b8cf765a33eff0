"""Stored results of other harnesses, read as evalcard's own."""
