"""The report of a run: one self-contained HTML page with its tables, its figures and a browser over every answer."""
