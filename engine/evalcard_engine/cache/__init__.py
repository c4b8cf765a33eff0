"""The paged KV cache and its prefix tree."""
