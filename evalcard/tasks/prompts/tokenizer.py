"""A model's tokenizer: token ids as the harness's hf model makes them, chat template, stop ids, length limit."""

import datetime
import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec
from evalcard.spec import RunSpec
from evalcard.tasks.prompts.encoder import Encoder, Ids
from evalcard.tasks.prompts.gguf_tokenizer import gguf_file, load_gguf

_DEFAULT_MAX_LEN = 2048
_UNSET_MAX_LEN = 10**12
"""Tokenizers that know no limit state an astronomical one."""
TEMPLATE_DATE = datetime.datetime(2024, 7, 26)
"""The day that chat templates print as today. A prompt must not depend on when it was made, so it is pinned: to the day
that the templates of Llama 3 themselves fall back to where they cannot ask for the date."""
_DIRECTIVES = ("-d", "-m", "a", "A", "b", "B", "d", "e", "j", "m", "y", "Y", "H", "I", "M", "S", "p")
"""What strftime understands and chat templates use."""
_DATE_VARIABLES = ("strftime_now", "date_string")
_SET_BY_US = frozenset({
    "conversation", "messages", "tools", "documents", "chat_template", "add_generation_prompt",
    "continue_final_message", "tokenize", "sanitize_control_tokens", "padding", "truncation", "max_length",
    "return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs", "strftime_now",
})  # fmt: skip
"""Names that are no variables of a template's own, or are ours to set."""
_LENGTH_KEYS = ("n_positions", "max_position_embeddings", "n_ctx")


class Tokenizer:
    """Wraps a transformers tokenizer. Digests are of what it does, not of how its files are laid out."""

    def __init__(
        self, inner: Any, name: str, config: dict[str, Any], generation_config: dict[str, Any],
        add_bos: bool | None = None,
    ):  # fmt: skip
        self.inner = inner
        self.name = name
        self.eos_id: int | None = inner.eos_token_id
        self.prefix_id: int | None = inner.bos_token_id if inner.bos_token_id is not None else inner.eos_token_id
        self.eos_text: str | None = None if self.eos_id is None else inner.decode([self.eos_id])
        self.stop_ids = _stop_ids(self.eos_id, generation_config.get("eos_token_id"))
        self.num_positions = _num_positions(config)
        """Positions that the model's config states; None where it states none."""
        self.max_len = self.num_positions or _stated_max_len(inner)
        self.encoder = Encoder(inner, self.prefix_id, add_bos)
        self.digest = _digest(inner, self.encoder)
        template = inner.chat_template
        self.template_digest = None if not template else _sha256(json.dumps(template, sort_keys=True))
        self.dropped_system = False
        """Whether the chat template refused the system turn, so that it was left out."""

    @classmethod
    def load(cls, source: str, revision: str | None = None) -> "Tokenizer":
        """From a model folder, a GGUF file or a Hub id; raises UserError where there is none, or no access."""
        from transformers import AutoTokenizer

        if (file := gguf_file(source)) is not None:
            one = load_gguf(file)
            return cls(one.inner, file.stem, one.config, one.generation_config, one.add_bos)
        source = str(Path(source).expanduser()) if Path(source).expanduser().exists() else source
        try:
            inner = AutoTokenizer.from_pretrained(source, revision=revision)
        except Exception as error:  # the Hub client and the file readers raise many types
            raise UserError(_not_loaded(source, error)) from error
        config = _json_file(source, revision, "config.json")
        generation_config = _json_file(source, revision, "generation_config.json")
        stated = _json_file(source, revision, "tokenizer_config.json").get("add_bos_token")
        return cls(inner, Path(source).name, config, generation_config, stated if isinstance(stated, bool) else None)

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

    @property
    def template_text(self) -> str:
        """The chat template's source; of several, all. Empty where there is none."""
        template = self.inner.chat_template
        return "\n".join(template.values()) if isinstance(template, dict) else template or ""

    @property
    def bos_note(self) -> str | None:
        """What is done about a tokenizer that does not do what its own configuration says of BOS."""
        if self.encoder.added_bos is not None:
            return "as its tokenizer_config.json says, prompts begin with BOS; the tokenizer alone would put none"
        if self.encoder.dropped_bos is not None:
            return "as its tokenizer_config.json says, prompts begin without BOS; the tokenizer alone would put one"
        return None

    @property
    def prints_date(self) -> bool:
        """Whether the chat template puts today's date into prompts; evalcard's today is TEMPLATE_DATE."""
        return any(name in self.template_text for name in _DATE_VARIABLES)

    @functools.cached_property
    def _dated_template(self) -> str | None:
        """The template with a ``strftime_now`` of its own; None for one that does not call it.

        Newer versions of transformers let no function in among a template's variables, so it is a macro. The newline
        behind it is eaten by the environment's trim_blocks, and what follows is still at the beginning of a line.
        """
        if "strftime_now" not in self.template_text:
            return None
        steps = "".join(f" | replace('%{name}', '{TEMPLATE_DATE:%{name}}')" for name in _DIRECTIVES)
        macro = f"{{% macro strftime_now(format) %}}{{{{ format{steps} }}}}{{% endmacro %}}\n"
        return macro + self.inner.get_chat_template()

    def check_template_args(self, given: Mapping[str, Any]) -> None:
        """Raise UserError for variables that the chat template does not have, or that are not the user's to set."""
        unknown = [
            name for name in given if name in _SET_BY_US or not re.search(rf"\b{re.escape(name)}\b", self.template_text)
        ]
        if unknown:
            raise UserError(
                f"--chat-template-args: the chat template of {self.name} has no variable {' or '.join(unknown)} that "
                "could be set. Look for the names in the model's chat_template.jinja, such as enable_thinking."
            )

    def render_chat(
        self,
        messages: list[dict[str, str]],
        add_generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """The chat template's text. ``arguments`` are more variables for it; the date it may print is TEMPLATE_DATE.

        A template that refuses a system turn gets the messages without it, as in the harness; ``dropped_system`` then
        says so. Raises UserError where the template fails.
        """
        from jinja2.exceptions import TemplateError

        options: dict[str, Any] = {"date_string": TEMPLATE_DATE.strftime("%d %b %Y")} | dict(arguments or {})
        options |= {"tokenize": False, "chat_template": self._dated_template}
        options |= {"add_generation_prompt": add_generation_prompt, "continue_final_message": not add_generation_prompt}
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
    wrong = [one for one in more if one is not None and (isinstance(one, bool) or not isinstance(one, int))]
    if wrong:
        raise UserError(
            f"eos_token_id in generation_config.json (or config.json) is {configured!r}; it must be a token's number, "
            "or a list of them. Correct it."
        )
    return tuple(sorted({one for one in (eos, *more) if one is not None}))


def _num_positions(config: dict[str, Any]) -> int | None:
    """Longest sequence by the model's config; with ``_stated_max_len`` the harness's order of places."""
    for place in (config.get("text_config") or {}, config):
        for key in _LENGTH_KEYS:
            if isinstance(place.get(key), int):
                return place[key]
    return None


def _stated_max_len(inner: Any) -> int:
    """Longest sequence by the tokenizer, else 2048."""
    stated = getattr(inner, "model_max_length", None)
    return int(stated) if stated and stated < _UNSET_MAX_LEN else _DEFAULT_MAX_LEN


def _digest(inner: Any, encoder: Encoder) -> str:
    if encoder.backend is not None:
        state = encoder.backend.to_str()
    else:
        flags = {key: str(value) for key, value in sorted(inner.init_kwargs.items()) if key != "name_or_path"}
        state = json.dumps([type(inner).__name__, inner.get_vocab(), flags], sort_keys=True)
    if encoder.added_bos is not None or encoder.dropped_bos is not None:
        state += f"|{encoder.added_bos}|{encoder.dropped_bos}"
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
