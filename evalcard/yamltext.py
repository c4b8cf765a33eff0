"""YAML files of the user's: read whole up to a bound, with safe types, no key twice and no number in disguise."""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from evalcard.errors import UserError

MAX_BYTES = 2**20
"""Of a file that a person wrote; far more than any needs."""
_PLAIN = re.compile(r"[-+]?((0|[1-9][0-9_]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", re.IGNORECASE)


class StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader keeps the last of two equal keys, and reads 1:30 as 90 and 0143 as 99, as YAML 1.1 says;
    here each is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                said = f"the key {key.value!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        return int(_as_written(node, super().construct_yaml_int(node)))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        return float(_as_written(node, super().construct_yaml_float(node)))


StrictLoader.add_constructor("tag:yaml.org,2002:int", StrictLoader.construct_yaml_int)
StrictLoader.add_constructor("tag:yaml.org,2002:float", StrictLoader.construct_yaml_float)


def _as_written(node: yaml.ScalarNode, number: Any) -> Any:
    if not _PLAIN.fullmatch(node.value):
        said = f"{node.value!r} is read as {number:g} by YAML; write that, or put it in quotes to make it text"
        raise yaml.constructor.ConstructorError(None, None, said, node.start_mark)
    return number


def read_yaml(path: Path, what: str, advice: str) -> Any:
    """What the file holds. Raises UserError, with ``what`` for the file and ``advice``, where it cannot be read."""
    text = _read_text(path, what, advice)
    try:
        return yaml.load(text, Loader=StrictLoader)  # noqa: S506 - it is a safe loader
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise UserError(f"{what} {path} is not YAML that can be read: {error}") from None
    except RecursionError:
        raise UserError(f"{what} {path} is damaged: it is nested too deeply. {advice}") from None


def _read_text(path: Path, what: str, advice: str) -> str:
    """A device or a pipe may never end, so only regular files are opened, and these no further than the bound."""
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{what} {path} is no regular file. {advice}")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {what} {path}: {error}. {advice}") from None
    if len(content) > MAX_BYTES:
        raise UserError(f"{what} {path} has more than {MAX_BYTES} bytes. {advice}")
    return text
