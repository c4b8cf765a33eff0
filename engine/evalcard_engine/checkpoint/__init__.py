"""One module per checkpoint format."""
