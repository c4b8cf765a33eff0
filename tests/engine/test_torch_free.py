"""Decisions are plain Python: what decides must load without torch, numpy or transformers."""

import subprocess
import sys

import pytest

DECIDING = ["scheduler", "step", "stats", "sequence", "answers", "intake", "plan", "config", "stopping", "request"]
CACHE = ["cache.pages", "cache.prefix", "cache.prefix_tree"]


@pytest.mark.parametrize("module", DECIDING + CACHE)
def test_a_fresh_interpreter_loads_it_without_torch(module):
    code = (
        f"import sys, evalcard_engine.{module}; "
        "heavy = {'torch', 'numpy', 'transformers'} & set(sys.modules); sys.exit(', '.join(heavy) or None)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
