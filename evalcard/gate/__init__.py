"""The release gate: limits, and what a comparison says of them."""
