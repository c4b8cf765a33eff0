"""What torchao says while it is imported is dropped, and nothing else."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from evalcard_engine.torchao_noise import quiet_torchao

ITS_CLASS = type("KernelPreference", (), {"__module__": "torchao.quantization"})
DEPRECATED = "%s is an Enum subclass. Calling register_constant() on Enum subclasses is deprecated."


def say() -> None:
    torchao, pytree = logging.getLogger("torchao"), logging.getLogger("torch.utils._pytree")
    torchao.warning("Failed to load /lib/torchao/_C.so: no such symbol")
    torchao.warning("another word of its own")
    pytree.warning(DEPRECATED, ITS_CLASS)
    pytree.warning(DEPRECATED, Path)
    pytree.warning("%s is no leaf", ITS_CLASS)
    logging.getLogger("evalcard").warning("Failed to load a model")


def test_only_its_known_messages_are_dropped_and_only_within(caplog: pytest.LogCaptureFixture):
    with quiet_torchao():
        say()
    heard = [record.getMessage().split()[0:3] for record in caplog.records]
    assert len(heard) == 4, caplog.text
    assert "/lib/torchao" not in caplog.text and str(ITS_CLASS) + " is an Enum" not in caplog.text
    caplog.clear()
    say()
    assert len(caplog.records) == 6, "outside all is heard"


STAND_IN = """
import logging, sys
import transformers

class Loads:
    def find_spec(self, name, path=None, target=None):
        if name == "transformers.modeling_utils":
            print("loaded")
            logging.getLogger("torchao").warning("Failed to load /lib/torchao/_C.so: no such symbol")

sys.meta_path.insert(0, Loads())
from evalcard_engine.attention.hook import register
register()
"""


def test_the_import_that_loads_torchao_is_quiet():
    """As where transformers' module brings torchao in."""
    done = subprocess.run([sys.executable, "-c", STAND_IN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "loaded" in done.stdout and "Failed to load" not in done.stderr, done.stderr
