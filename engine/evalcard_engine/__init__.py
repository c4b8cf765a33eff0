"""A batch engine for evaluation: tokens in, tokens out."""
