"""One stem per kernel."""
