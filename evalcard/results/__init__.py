"""What is stored, and how it stays whole."""
