"""Is this answer right? Judges of mathematics, numbers, letters and texts."""
