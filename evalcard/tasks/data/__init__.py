"""Documents: data roots, the Hub, and the files that hold them."""
