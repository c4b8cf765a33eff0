"""The benchmarks are scripts that import what lies beside them."""

import sys
from pathlib import Path

FOLDER = str(Path(__file__).parents[3] / "engine" / "benchmarks")
if FOLDER not in sys.path:
    sys.path.append(FOLDER)
