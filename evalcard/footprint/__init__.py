"""How much memory a model takes, told by its config alone: weights by scheme, KV cache, GPUs, requests at once."""
