"""Task files, data, prompts and verdicts."""
