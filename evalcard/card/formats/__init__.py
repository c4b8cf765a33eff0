"""A comparison for other programs' pages: a short Markdown table, LaTeX, CSV and JSON."""
