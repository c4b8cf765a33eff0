"""A model's tokenizer: token ids as the harness's hf model makes them, chat template, stop ids, length limit."""

import functools
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.spec import ModelSpec, RunSpec
from evalcard.tasks.encoding import Encoder, Ids

_DEFAULT_MAX_LEN = 2048
_UNSET_MAX_LEN = 10**12
"""Tokenizers that know no limit state an astronomical one."""
_LENGTH_KEYS = ("n_positions", "max_position_embeddings", "n_ctx")


class Tokenizer:
    """Wraps a transformers tokenizer. Digests are of what it does, not of how its files are laid out."""

    def __init__(self, inner: Any, name: str, config: dict[str, Any], generation_config: dict[str, Any]):
        self.inner = inner
        self.name = name
        self.eos_id: int | None = inner.eos_token_id
        self.prefix_id: int | None = inner.bos_token_id if inner.bos_token_id is not None else inner.eos_token_id
        self.eos_text: str | None = None if self.eos_id is None else inner.decode([self.eos_id])
        self.stop_ids = _stop_ids(self.eos_id, generation_config.get("eos_token_id"))
        self.max_len = _max_len(config, inner)
        self.encoder = Encoder(inner, self.prefix_id)
        self.digest = _digest(inner, self.encoder.backend)
        template = inner.chat_template
        self.template_digest = None if not template else _sha256(json.dumps(template, sort_keys=True))
        self.dropped_system = False
        """Whether the chat template refused the system turn, so that it was left out."""

    @classmethod
    def load(cls, source: str, revision: str | None = None) -> "Tokenizer":
        """From a model folder or a Hub id; raises UserError where there is none, or no access."""
        from transformers import AutoTokenizer

        source = str(Path(source).expanduser()) if Path(source).expanduser().exists() else source
        try:
            inner = AutoTokenizer.from_pretrained(source, revision=revision)
        except Exception as error:  # the Hub client and the file readers raise many types
            raise UserError(_not_loaded(source, error)) from error
        config = _json_file(source, revision, "config.json")
        return cls(inner, Path(source).name, config, _json_file(source, revision, "generation_config.json"))

    def encode_many(self, texts: Sequence[str], special: bool | None = None) -> list[Ids]:
        """Ids of each text (encoding.Encoder.encode_many)."""
        return self.encoder.encode_many(texts, special)

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Ids, Ids, bool]]:
        """(context ids, continuation ids, merged) of each pair (encoding.Encoder.encode_pairs)."""
        return self.encoder.encode_pairs(pairs)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of an answer, special tokens left out."""
        return self.inner.decode(list(ids), skip_special_tokens=True)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The text of each token by itself, for messages."""
        return [self.inner.decode([one]) for one in ids]

    def render_chat(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The chat template's text. A template that refuses a system turn gets the messages without it, as in the
        harness; ``dropped_system`` then says so. Raises UserError where the template fails."""
        from jinja2.exceptions import TemplateError

        options = {"tokenize": False, "add_generation_prompt": add_generation_prompt}
        options["continue_final_message"] = not add_generation_prompt
        try:
            return self.inner.apply_chat_template(messages, **options)
        except TemplateError as error:
            plain = [message for message in messages if message["role"] != "system"]
            if len(plain) == len(messages):
                raise UserError(f"the chat template of {self.name} refuses these turns: {error}") from error
        self.dropped_system = True
        return self.inner.apply_chat_template(plain, **options)


@functools.lru_cache(maxsize=8)
def shared_tokenizer(source: str, revision: str | None = None) -> Tokenizer:
    """The same as ``Tokenizer.load``, once in a process: prompts and backends use one."""
    return Tokenizer.load(source, revision)


def tokenizer_source(spec: RunSpec, model: ModelSpec) -> tuple[str, str | None]:
    """(source, revision) of a model's tokenizer: the ``tokenizer`` argument of its backend, else the model itself."""
    given = model.args.get("tokenizer") or spec.model_args.get("tokenizer")
    return (given, None) if given else (model.location, model.revision)


def _stop_ids(eos: int | None, configured: int | list[int] | None) -> tuple[int, ...]:
    """Union of the tokenizer's and the generation config's: chat models end turns with another id than texts."""
    more = configured if isinstance(configured, list) else [configured]
    return tuple(sorted({one for one in (eos, *more) if one is not None}))


def _max_len(config: dict[str, Any], inner: Any) -> int:
    """Longest sequence, by the harness's order: text config, config, tokenizer, else 2048."""
    for place in (config.get("text_config") or {}, config):
        for key in _LENGTH_KEYS:
            if isinstance(place.get(key), int):
                return place[key]
    stated = getattr(inner, "model_max_length", None)
    return int(stated) if stated and stated < _UNSET_MAX_LEN else _DEFAULT_MAX_LEN


def _digest(inner: Any, backend: Any) -> str:
    if backend is not None:
        state = backend.to_str()
    else:
        flags = {key: str(value) for key, value in sorted(inner.init_kwargs.items()) if key != "name_or_path"}
        state = json.dumps([type(inner).__name__, inner.get_vocab(), flags], sort_keys=True)
    return _sha256(f"{state}|{inner.bos_token_id}|{inner.eos_token_id}")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _json_file(source: str, revision: str | None, name: str) -> dict[str, Any]:
    """A JSON file of the model; empty where the model has none."""
    from transformers.utils import cached_file

    try:
        path = cached_file(source, name, revision=revision, _raise_exceptions_for_missing_entries=False)
        found = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {name} of {source}: {error}") from error
    return found if isinstance(found, dict) else {}


def _not_loaded(source: str, error: Exception) -> str:
    reason = re.sub(r"\s+", " ", str(error) or type(error).__name__)[:400]
    gated = " Accept the model's terms on its Hub page and set HF_TOKEN." if "gated" in reason.lower() else ""
    return (
        f"cannot load a tokenizer from {source}: {reason}.{gated} Give a model folder with its tokenizer files or a "
        "Hub id; for a backend that takes a URL, name the tokenizer with --model-args tokenizer=DIR."
    )
