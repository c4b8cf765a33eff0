"""How queries meet the cached keys and values."""
