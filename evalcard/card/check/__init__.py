"""Is a card right? The Hub's rules for its metadata, and the arithmetic of its tables; offline, no model needed."""
