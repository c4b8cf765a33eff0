"""Jinja templates: all prose of cards and reports."""
