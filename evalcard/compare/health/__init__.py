"""Is a comparison to be trusted? What the checks find, for the card and the gate."""
