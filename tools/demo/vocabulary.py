"""The tokenizer: a token for every word of the closed language and for every digit; bytes for anything else."""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

END = "<|end|>"
PIECES = r"\\\w+\{| [-+*/=] | ?\p{L}+|\p{N}|[^\s\p{L}\p{N}]+|\s"


def splitter() -> pre_tokenizers.PreTokenizer:
    split = pre_tokenizers.Split(Regex(PIECES), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def build(texts: Iterable[str]) -> Tokenizer:
    """A vocabulary of the end token, all 256 bytes and every longer piece that occurs in `texts`."""
    pre = splitter()
    pieces = {piece for text in texts for piece, _ in pre.pre_tokenize_str(text) if len(piece) > 1}
    entries = [END, *sorted(pre_tokenizers.ByteLevel.alphabet()), *sorted(pieces)]
    tokenizer = Tokenizer(models.BPE({entry: index for index, entry in enumerate(entries)}, [], ignore_merges=True))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END, special=True, normalized=False)])
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path, max_length: int) -> None:
    """Tokenizer files that AutoTokenizer loads; no token is put before a text."""
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=END, model_max_length=max_length
    )
    wrapped.save_pretrained(folder)
    settings = folder / "tokenizer_config.json"
    named = json.loads(settings.read_text()) | {
        "tokenizer_class": "PreTrainedTokenizerFast"
    }  # older releases know it too
    settings.write_text(json.dumps(named, indent=2) + "\n")
