"""The trained model as an ordinary Hugging Face folder."""

from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import GenerationConfig, LlamaForCausalLM

from demo import vocabulary
from demo.network import MAX_LEN
from demo.packing import END_ID

MAX_BYTES = 12_000_000
LONGEST = 65
"""Tokens of the longest examples, about."""

CARD = Path(__file__).with_name("card.md")


def export(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Weights in bfloat16, configuration, tokenizer."""
    model = model.eval().to(torch.bfloat16)
    model.generation_config = GenerationConfig(eos_token_id=END_ID, pad_token_id=END_ID, do_sample=False)
    model.save_pretrained(folder)
    vocabulary.save(tokenizer, folder, MAX_LEN)
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size <= MAX_BYTES, f"{folder} holds {size:,} bytes; at most {MAX_BYTES:,} are allowed"


def write_card(folder: Path, **facts: object) -> None:
    text = CARD.read_text().format(end=vocabulary.END, length=MAX_LEN, longest=LONGEST, **facts)
    (folder / "README.md").write_text(text)
