"""The tokenizer that a GGUF file carries, built by transformers and checked against what the file says."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard_engine.checkpoint.gguf_file import gguf_in, read_gguf
from evalcard_engine.checkpoint.gguf_model import end_ids
from evalcard_engine.errors import EngineError

_WHOLE_WORDS = frozenset({
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken",
})  # fmt: skip
"""Values of tokenizer.ggml.pre for which llama.cpp takes a word that is in the vocabulary whole, whatever its merges
say, and begins texts with BOS where the file does not speak of it. transformers does neither from GGUF."""
_CONTROL = 3
"""tokenizer.ggml.token_type of tokens such as <|im_end|>."""
_OTHER_TOKENIZER = "Name another tokenizer with --model-args tokenizer=DIR, such as that of the original model."


@dataclass(frozen=True, slots=True)
class GGUFTokenizer:
    """What the files of a folder say, from the one file."""

    inner: Any
    """A transformers tokenizer."""
    config: dict[str, Any]
    generation_config: dict[str, Any]
    add_bos: bool | None
    """None where the file leaves it to the tokenizer."""


def gguf_file(source: str) -> Path | None:
    """The GGUF file that a model's location means; None for anything else. Raises UserError as the engine does."""
    path = Path(source).expanduser()
    if not path.is_dir() and not (path.is_file() and path.suffix.lower() == ".gguf"):
        return None
    try:
        return gguf_in(path, source)
    except EngineError as error:
        raise UserError(str(error)) from error


def load_gguf(file: Path) -> GGUFTokenizer:
    """Raises UserError for a damaged file, and for a tokenizer that transformers does not build as the file says."""
    try:
        metadata = read_gguf(file).metadata
    except EngineError as error:
        raise UserError(str(error)) from error
    tokens, kinds = (metadata.get(f"tokenizer.ggml.{name}") for name in ("tokens", "token_type"))
    if not isinstance(tokens, list):
        raise UserError(f"{file} carries no tokenizer (tokenizer.ggml.tokens). {_OTHER_TOKENIZER}")
    inner = _without_added(_build(file), len(tokens))
    _check(file, inner, metadata, tokens, kinds if isinstance(kinds, list) else [])
    stated = metadata.get("tokenizer.ggml.add_bos_token")
    if metadata.get("tokenizer.ggml.model") == "gpt2" and metadata.get("tokenizer.ggml.pre") in _WHOLE_WORDS:
        inner.backend_tokenizer.model.ignore_merges = True
        stated = True if stated is None else stated
    arch = metadata.get("general.architecture")
    return GGUFTokenizer(
        inner=inner,
        config={"max_position_embeddings": metadata.get(f"{arch}.context_length")},
        generation_config={"eos_token_id": list(end_ids(metadata))},
        add_bos=stated if isinstance(stated, bool) else None,
    )


def _build(file: Path) -> Any:
    """transformers would take a tokenizer.json that lies beside the file, so the file is shown to it alone."""
    from transformers import AutoTokenizer

    try:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "model.gguf").symlink_to(file.resolve())
            return AutoTokenizer.from_pretrained(folder, gguf_file="model.gguf")
    except ImportError as error:
        raise UserError(
            f"cannot load the tokenizer of {file}: transformers needs the package gguf for it (pip install gguf). "
            f"{_OTHER_TOKENIZER}"
        ) from error
    except Exception as error:  # the readers raise many types
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:400]
        raise UserError(f"cannot load the tokenizer of {file}: {cause}. {_OTHER_TOKENIZER}") from error


def _without_added(inner: Any, count: int) -> Any:
    """Less the tokens that the file does not have: transformers' class for byte-level BPE brings an <|endoftext|> of
    its own, which would get an id that no embedding has."""
    state = json.loads(inner.backend_tokenizer.to_str())
    added = {one["content"] for one in state["added_tokens"] if one["id"] >= count}
    if not added:
        return inner
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    state["added_tokens"] = [one for one in state["added_tokens"] if one["id"] < count]
    special = {name: getattr(inner, name) for name in ("bos_token", "eos_token", "unk_token", "pad_token")}
    kept = {name: text for name, text in special.items() if text is not None and text not in added}
    backend = Tokenizer.from_str(json.dumps(state))
    return PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=inner.chat_template, **kept)


def _check(file: Path, inner: Any, metadata: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> None:
    """The ids are the file's: as many, the same BOS and EOS, and each control token is one token."""
    faults = []
    if len(inner) != len(tokens):
        faults.append(f"{len(inner)} tokens, not {len(tokens)}")
    for name in ("bos", "eos"):
        stated, found = metadata.get(f"tokenizer.ggml.{name}_token_id"), getattr(inner, f"{name}_token_id")
        if stated is not None and stated != found:
            faults.append(f"{name.upper()} {found}, not {stated}")
    control = {text: number for number, (text, kind) in enumerate(zip(tokens, kinds, strict=False)) if kind == _CONTROL}
    split = [text for text, number in control.items() if inner.convert_tokens_to_ids(text) != number]
    if split:
        faults.append(f"other ids for {len(split)} control tokens ({', '.join(split[:4])})")
    if faults:
        raise UserError(
            f"transformers builds another tokenizer from {file} than the file describes: {'; '.join(faults)}. "
            f"{_OTHER_TOKENIZER}"
        )
