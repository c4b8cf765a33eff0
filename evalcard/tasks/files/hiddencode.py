"""What in a task file leads to Python: functions it names, and values that run some without saying so.

Light: PyYAML only; lm_eval is asked for its metrics when one is looked at.
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import yaml

from evalcard.tasks.files.taskcode import Reference, is_shipped, needs_trust
from evalcard.tasks.files.yamlnodes import FUNCTION, includes_of, inline_tasks, read_nodes, text_of, value_of, walk

_PLAIN_BUILDERS = frozenset({"json", "csv", "parquet", "text", "arrow"})
"""Readers of the data set library that take files as data and nothing more."""


def functions(path: Path, root: yaml.MappingNode) -> Iterator[Reference]:
    """Every ``!function``, in exactly the text that the harness would import."""
    for node in walk(root):
        if node.tag == FUNCTION and isinstance(node, yaml.ScalarNode):
            yield Reference(path, node.start_mark.line + 1, node.value)


def hidden_code(path: Path, root: yaml.MappingNode) -> Iterator[Reference]:
    """Metrics that the evaluate library loads from a folder or a repository, documents that may hold code, prompts
    from elsewhere, and shipped files whose functions would meet other documents than their own."""
    for holder in [root, *inline_tasks(root)]:
        metrics = value_of(holder, "metric_list")
        for entry in metrics.value if isinstance(metrics, yaml.SequenceNode) else []:
            node = value_of(entry, "metric") if isinstance(entry, yaml.MappingNode) else None
            if node is not None and _is_script(entry, node):
                yield Reference(path, node.start_mark.line + 1, node.value, "metric")
        yield from _documents(path, holder)
        node = value_of(holder, "use_prompt")
        if isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:null":
            yield Reference(path, node.start_mark.line + 1, node.value, "prompt")
    for node, text in includes_of(root):
        target = (path.parent / text).expanduser().resolve()
        if target.is_file() and is_shipped(target) and has_code(target):
            yield Reference(path, node.start_mark.line + 1, text, "include")


def _documents(path: Path, holder: yaml.MappingNode) -> Iterator[Reference]:
    node, options = value_of(holder, "dataset_path"), value_of(holder, "dataset_kwargs")
    if isinstance(node, yaml.ScalarNode):
        name, line = node.value, node.start_mark.line + 1
        if name in _packaged() - _PLAIN_BUILDERS:
            yield Reference(path, line, name, "documents")
        elif name.endswith(".py") or Path(name, f"{Path(name).name}.py").is_file():
            yield Reference(path, line, f"dataset_path: {name}", "script")
    for part in walk(options) if options is not None else ():
        for key, _ in part.value if isinstance(part, yaml.MappingNode) else ():
            if text_of(key) in ("trust_remote_code", "builder_script"):
                yield Reference(path, key.start_mark.line + 1, text_of(key), "script")


def has_code(path: Path, above: tuple[Path, ...] = ()) -> bool:
    """Whether a shipped file, or one it includes, names functions that are not free to all or says ``unsafe_code``."""
    root = read_nodes(path)
    if value_of(root, "unsafe_code") is not None or any(needs_trust(one) for one in functions(path, root)):
        return True
    targets = [(path.parent / text).resolve() for _, text in includes_of(root)]
    return any(has_code(one, (*above, path)) for one in targets if one.is_file() and one not in (*above, path))


@functools.cache
def _packaged() -> frozenset[str]:
    from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES

    return frozenset(_PACKAGED_DATASETS_MODULES)


@functools.cache
def _metrics() -> frozenset[str]:
    import lm_eval.api.metrics  # noqa: F401 - fills the registry
    from lm_eval.api.registry import metric_registry

    return frozenset(metric_registry)


def _is_script(entry: yaml.MappingNode, metric: yaml.Node) -> bool:
    """Whether the metric is none of the harness's own, and its name leads to a script rather than to the library's
    collection."""
    if not isinstance(metric, yaml.ScalarNode) or metric.tag == FUNCTION:
        return False
    name, asks_library = metric.value, value_of(entry, "hf_evaluate") is not None
    if name in _metrics() and not asks_library:
        return False
    return "/" in name or "\\" in name or name.endswith(".py") or Path(name).exists()
