"""Numbers of a config.json under transformers' names, with what a family assumes where one is left out."""

from collections.abc import Mapping, Sequence
from typing import Any

from evalcard.errors import UserError

_MOST = 10**12
"""No size of a model is larger; what is would only make nonsense of sums."""


class Settings:
    """The text model's part of a config.json. Raises UserError for a value that cannot be what its name says."""

    def __init__(self, model_type: str, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self.model_type = model_type
        self._values, self._defaults = values, defaults
        self.assumed: dict[str, Any] = {}
        """What was asked for and is the family's default, as the config does not say it."""

    def get(self, *names: str) -> Any:
        """The value under the first of the names that the config has, else the first default; None where there is
        neither. A null in the config is a value: it stands for none, not for the default."""
        for source in (self._values, self._defaults):
            for name in names:
                if name in source:
                    if source is self._defaults:
                        self.assumed[name] = source[name]
                    return source[name]
        return None

    def count(self, *names: str, least: int = 1) -> int:
        """A whole number that the model cannot do without."""
        value = self.get(*names)
        if value is None:
            raise UserError(
                f"the config of this {self.model_type} model has no {' or '.join(names)}, so its tensors cannot be "
                "counted. Give the config.json that lies beside the weights."
            )
        return self._checked(self._said(names), value, least)

    def optional(self, *names: str, least: int = 0) -> int | None:
        """A whole number, or None where the config has none of the names or null."""
        value = self.get(*names)
        return None if value is None else self._checked(self._said(names), value, least)

    def _said(self, names: Sequence[str]) -> str:
        """The one whose value ``get`` returns."""
        return next(name for source in (self._values, self._defaults) for name in names if name in source)

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return bool(value)

    def numbers(self, name: str) -> Sequence[int]:
        """A list of them; an empty one where the config has none."""
        value = self.get(name) or []
        if not isinstance(value, list) or not all(isinstance(one, int) for one in value):
            raise self._wrong(name, value, "a list of whole numbers")
        return value

    def _checked(self, name: str, value: Any, least: int) -> int:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
        if not is_number or not least <= value <= _MOST or int(value) != value:
            raise self._wrong(name, value, f"a whole number of at least {least}")
        return int(value)

    def _wrong(self, name: str, value: Any, wanted: str) -> UserError:
        return UserError(f"the config says {name} = {value!r:.80}; it must be {wanted}. Correct the file.")

    # What most rules ask for.

    @property
    def hidden(self) -> int:
        return self.count("hidden_size")

    @property
    def layers(self) -> int:
        return self.count("num_hidden_layers")

    @property
    def heads(self) -> int:
        return self.count("num_attention_heads")

    @property
    def kv_heads(self) -> int:
        """As many as there are heads where the config says none."""
        found = self.optional("num_key_value_heads", least=1)
        return self.heads if found is None else found

    @property
    def head_size(self) -> int:
        found = self.optional("head_dim", least=1)
        return self.hidden // self.heads if found is None else found
