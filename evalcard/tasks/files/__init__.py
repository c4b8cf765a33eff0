"""Task files: names, what they hold, and the harness's tasks made of them."""
