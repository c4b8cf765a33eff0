"""Task files, in the harness's YAML."""
