"""What publishes asks for the Hub's client only when it runs, as that reads its endpoint when it is imported."""

import subprocess
import sys

MODULES = ["client", "diff", "edits", "faults", "frontmatter", "local", "merge", "modelindex", "plan", "push", "words"]


def test_importing_it_imports_neither_the_client_nor_anything_heavy():
    names = ", ".join([*(f"evalcard.card.hub.{name}" for name in MODULES), "evalcard.cli.publish"])
    code = f"import {names}, sys; print(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "triton", "lm_eval", "datasets", "pandas", "scipy", "matplotlib", "jinja2"}
    assert not set(done.stdout.split()) & (heavy | {"huggingface_hub", "httpx", "httpx2"})
