"""Values of the wrong kind in a task file, said with their line before the harness stumbles over them. Light."""

from collections.abc import Callable, Iterator

import yaml

from evalcard.tasks.files.yamlnodes import FUNCTION, text_of

_SHOWN = 60
_INT = "tag:yaml.org,2002:int"
_NULL = "tag:yaml.org,2002:null"


def _is_mapping(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode)


def _is_list(node: yaml.Node) -> bool:
    return isinstance(node, yaml.SequenceNode)


def _is_text(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str"


def _is_count(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _INT and not node.value.startswith("-")


_SHAPES: dict[str, tuple[str, Callable[[yaml.Node], bool]]] = {
    "num_fewshot": ("a whole number from 0", _is_count),
    "generation_kwargs": ('a mapping such as {until: ["\\n"]}', _is_mapping),
    "dataset_kwargs": ("a mapping of what load_dataset takes", _is_mapping),
    "fewshot_config": ("a mapping of keys such as sampler", _is_mapping),
    "metadata": ("a mapping of keys such as version", lambda node: _is_mapping(node) or _is_list(node)),
    "metric_list": ("a list of mappings such as {metric: exact_match}", _is_list),
    "filter_list": ("a list of mappings with name and filter", _is_list),
    "class": ("!function FILE.CLASS", lambda node: False),
    "process_docs": ("!function FILE.FUNCTION", lambda node: False),
    "process_results": ("!function FILE.FUNCTION", lambda node: False),
    "include": (
        "the path of a YAML file, or a list of such paths",
        lambda node: _is_text(node) or (isinstance(node, yaml.SequenceNode) and all(map(_is_text, node.value))),
    ),
}
"""What a key takes, besides a function that gives it, or nothing."""


def misshapen(holder: yaml.MappingNode) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) for each value that its key does not take."""
    for key, value in holder.value:
        if text_of(key) not in _SHAPES or value.tag == FUNCTION:
            continue
        wanted, fits = _SHAPES[text_of(key)]
        if not fits(value) and (value.tag != _NULL or text_of(key) == "include"):
            yield value.start_mark.line + 1, f"'{text_of(key)}:' takes {wanted}; got {_shown(value)}. Correct it"


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value[:_SHOWN])
    return "a mapping" if isinstance(node, yaml.MappingNode) else "a list of lists or other values"
