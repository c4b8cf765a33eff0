"""A loopback Hub, and a run with a card that may be published."""

import importlib.util
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

_SERVER = Path(__file__).parents[3] / "hub_server.py"

CARD = """---
library_name: transformers
pipeline_tag: text-generation
base_model: acme/toy-1b
base_model_relation: quantized
license: apache-2.0
tags:
- evalcard
- w8a8
model-index:
- name: toy-1b w8a8
  results:
  - task:
      type: text-generation
      name: Text Generation
    dataset:
      type: openai/gsm8k
      name: gsm8k
      config: main
      split: test
    metrics:
    - type: exact_match
      value: 95.25
      name: gsm8k (5-shot, exact_match, strict-match)
---

# toy-1b w8a8

<!-- evalcard:begin -->
Recovery is **99.5**.

![Recovery, task by task](figures/recovery.png)
<!-- evalcard:end -->
"""


def _load_server() -> ModuleType:
    spec = importlib.util.spec_from_file_location("evalcard_tests_hub_server", _SERVER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def make_png(digest: str | None, software: str = "one") -> bytes:
    """One grey pixel: what it draws is told by ``digest``, and what drew it by ``software``."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    texts = [b"Software\0" + software.encode()] + ([b"evalcard-data\0" + digest.encode()] if digest else [])
    chunks = [_chunk(b"IHDR", header), *(_chunk(b"tEXt", text) for text in texts)]
    return b"\x89PNG\r\n\x1a\n" + b"".join([*chunks, _chunk(b"IDAT", zlib.compress(b"\0\x80")), _chunk(b"IEND", b"")])


@pytest.fixture
def png() -> Callable[..., bytes]:
    return make_png


@pytest.fixture(scope="session")
def ours() -> str:
    """A card of ours as ``evalcard card`` writes it."""
    return CARD


@pytest.fixture(scope="session")
def hub_server() -> ModuleType:
    return _load_server()


@pytest.fixture
def hub(hub_server: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Hub that knows ``alice``, a member of the organisation ``acme``, and ``bob``."""
    monkeypatch.setenv("HF_TOKEN", "hf_alicesecret0123456789")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with hub_server.FakeHub() as made:
        made.add_account("hf_alicesecret0123456789", "alice", acme="write", visitors="read")
        made.add_account("hf_bobsecret0123456789", "bob")
        yield made


@pytest.fixture
def make_client(hub: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A client of the loopback Hub in this process; without Xet, which it does not speak."""
    from huggingface_hub import constants

    from evalcard.card.hub.client import Hub

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return lambda repo="acme/toy-1b-w8a8", **options: Hub(repo, endpoint=hub.url, **options)


@pytest.fixture
def card(ours: str, png: Callable[..., bytes]) -> Any:
    """The card as it is read from a run's folder."""
    from evalcard.card.evalresults import WRITTEN_BY
    from evalcard.card.hub.local import LocalCard

    results = f"{WRITTEN_BY}- dataset: {{id: openai/gsm8k, task_id: gsm8k}}\n  value: 95.25\n  date: '2026-11-30'\n"
    files = {"figures/recovery.png": png("0" * 64), ".eval_results/gsm8k.yaml": results.encode()}
    return LocalCard("gsm8k-0a1b2c3d", "toy-1b-w8a8", "acme/toy-1b", ours, files)
