"""A model compressed by round to nearest, as a compressed-tensors checkpoint on disk: a shard and a layer in memory."""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from evalcard_engine.checkpoint.claims import Plain, Quantized
from evalcard_engine.checkpoint.ct_config import matches
from evalcard_engine.checkpoint.ct_write import check_writable, parts_of, settings
from evalcard_engine.checkpoint.digest import OnProgress
from evalcard_engine.checkpoint.source import HUB_PATTERNS
from evalcard_engine.errors import EngineError, UnsupportedModel
from evalcard_engine.inspection import Opened, open_claims
from evalcard_engine.loading import DECODER, KEPT, is_kept
from evalcard_engine.quant.quantize import quantize
from evalcard_engine.quant.scheme import SCHEMES, Scheme
from evalcard_engine.routing import ROUTERS

SHARD_BYTES = 5_000_000_000
"""As many as the Hub's own tools put into a file."""
_HEAD = "lm_head"
_NOT_COPIED = ("config.json", "*.safetensors*", "hf_quant_config.json", "recipe.yaml")


@dataclass(frozen=True, slots=True)
class Layers:
    """Which modules of a plain checkpoint a scheme compresses; names are the checkpoint's."""

    chosen: Mapping[str, tuple[int, int]]
    """[out, in]"""
    ignore: tuple[str, ...]
    """Names and ``re:`` patterns of the linears that stay as they are."""
    head: str | None
    """The output head, where the scheme compresses it."""

    def config(self, scheme: Scheme) -> dict[str, Any]:
        """compressed-tensors' quantization_config."""
        return settings(self.chosen, scheme, self.ignore, self.head)


def choose(opened: Opened, scheme: Scheme, ignore: Sequence[str]) -> Layers:
    """The decoder's linears without those that ``ignore`` names (whole names, or ``re:`` and a pattern from the start).

    Raises EngineError for a checkpoint that is faulty, compressed already or a single file, for schemes that the format
    cannot hold, and for an entry of ``ignore`` that matches no linear.
    """
    check_writable(scheme)
    name, claims = opened.checkpoint.name, opened.claims
    if opened.faults:
        raise EngineError(f"{name} cannot be loaded as it is: {'; '.join(opened.faults)}.")
    if claims.schemes:
        raise EngineError(f"{name} is compressed already ({next(iter(claims.schemes.values()))}). Give the original.")
    if opened.checkpoint.path.is_file():
        raise UnsupportedModel(f"{name} is a GGUF file; give the original model's folder with its safetensors.")
    linears = {_stored(opened, module): shape for module, shape in opened.shapes.items() if _may_compress(module)}
    _check_ignore(ignore, linears)
    chosen = {one: shape for one, shape in linears.items() if not any(matches(e, one, "Linear") for e in ignore)}
    if not chosen:
        raise EngineError("--ignore leaves no linear to compress; ignore fewer layers.")
    has_head = scheme.head_bits is not None
    others = [] if has_head else [_HEAD]
    others += [f"re:{re.escape(prefix)}.*" for prefix in _other_parts(opened)]
    # Others may have linears where transformers has none, so what weighs experts is named even where it is no linear.
    others += [] if opened.family.experts is None else [rf"re:.*\.({'|'.join((*ROUTERS, *sorted(KEPT)))})$"]
    return Layers(chosen, (*ignore, *others), _HEAD if has_head else None)


def _may_compress(module: str) -> bool:
    return module.startswith(DECODER) and not is_kept(module)


def _stored(opened: Opened, module: str) -> str:
    source = opened.claims.sources[f"{module}.weight"]
    return source.tensor.removesuffix(".weight") if isinstance(source, Plain) else module


def _check_ignore(ignore: Iterable[str], linears: Iterable[str]) -> None:
    faults = []
    for entry in ignore:
        try:
            if not any(matches(entry, name, "Linear") for name in linears):
                faults.append(f"{entry!r} matches no linear of the decoder")
        except re.error as error:
            faults.append(f"{entry!r} is no regular expression ({error})")
    if faults:
        raise EngineError(
            f"--ignore: {'; '.join(faults)}. Give a whole name such as {next(iter(linears))}, or re: and a "
            "pattern that is matched from the start, such as re:.*down_proj."
        )


def _other_parts(opened: Opened) -> list[str]:
    """Prefixes of what is no part of the text model, such as a vision tower, where the files hold it."""
    tensors = opened.checkpoint.tensors
    return [prefix for prefix in opened.family.ignored if any(name.startswith(prefix) for name in tensors)]


def export(
    model: str,
    scheme: Scheme,
    folder: Path,
    revision: str | None = None,
    ignore: Sequence[str] = (),
    on_progress: OnProgress | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> dict[str, Any]:
    """Write the compressed checkpoint into ``folder``, which exists and is empty; returns its quantization_config.

    Tensors that are not compressed are copied as they are, and so are the tokenizer's and other small files. Raises
    EngineError as `choose` does, and for weights that have no such form.
    """
    opened = open_claims(model, revision)
    layers = choose(opened, scheme, ignore)
    found = layers.config(scheme)
    writer = _ShardWriter(folder, shard_bytes)
    total = len(opened.checkpoint.tensors)
    for done, tensor in enumerate(opened.checkpoint.tensors, start=1):
        for name, part in _written(opened, layers, scheme, tensor):
            writer.add(name, part)
        if on_progress is not None:
            on_progress(done, total)
    if layers.head is not None:
        for name, part in _head(opened):
            writer.add(name, part)
    writer.finish()
    _write_config(opened.checkpoint.path, folder, found, is_head_apart=layers.head is not None)
    copy_small_files(opened.checkpoint.path, folder)
    return found


def _written(opened: Opened, layers: Layers, scheme: Scheme, tensor: str) -> Iterator[tuple[str, torch.Tensor]]:
    module = tensor.removesuffix(".weight")
    stored = opened.reader[tensor]
    if tensor.endswith(".weight") and module in layers.chosen:
        yield from _compressed(module, stored, scheme)
    elif not (layers.head is not None and tensor == f"{_HEAD}.weight"):
        yield tensor, stored


def _head(opened: Opened) -> Iterator[tuple[str, torch.Tensor]]:
    source = opened.claims.sources[f"{_HEAD}.weight"]
    assert not isinstance(source, Quantized), source
    yield from _compressed(_HEAD, opened.reader[source.tensor], SCHEMES["w8a16"])


def _compressed(module: str, stored: torch.Tensor, scheme: Scheme) -> Iterator[tuple[str, torch.Tensor]]:
    for leaf, part in parts_of(quantize(stored, scheme, module), stored).items():
        yield f"{module}.{leaf}", part


def _write_config(source: Path, folder: Path, quantization: dict[str, Any], is_head_apart: bool) -> None:
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = quantization
    if is_head_apart:  # the embedding keeps its own weight
        config["tie_word_embeddings"] = False
        if isinstance(config.get("text_config"), dict):
            config["text_config"]["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def copy_small_files(source: Path, folder: Path) -> None:
    """Copy the tokenizer's files, templates, generation settings and licence."""
    for file in sorted(source.iterdir()):
        wanted = any(file.match(pattern) for pattern in (*HUB_PATTERNS, "LICENSE*"))
        if wanted and file.is_file() and not any(file.match(pattern) for pattern in _NOT_COPIED):
            shutil.copyfile(file, folder / file.name)


class _ShardWriter:
    """safetensors files of a bounded size, with an index where there are several."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._waiting: dict[str, torch.Tensor] = {}
        self._bytes = 0
        self._shards: list[list[str]] = []
        self._total = 0

    def add(self, name: str, tensor: torch.Tensor) -> None:
        if self._waiting and self._bytes + tensor.nbytes > self._limit:
            self._flush()
        self._waiting[name] = tensor.contiguous()
        self._bytes += tensor.nbytes
        self._total += tensor.nbytes

    def finish(self) -> None:
        self._flush()
        count = len(self._shards)
        if count == 1:
            self._place(0).rename(self._folder / "model.safetensors")
            return
        names = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
        for number, name in enumerate(names):
            self._place(number).rename(self._folder / name)
        weight_map = {tensor: name for name, shard in zip(names, self._shards, strict=True) for tensor in shard}
        index = {"metadata": {"total_size": self._total}, "weight_map": weight_map}
        (self._folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")

    def _place(self, number: int) -> Path:
        return self._folder / f"part-{number}.tmp"

    def _flush(self) -> None:
        from safetensors.torch import save_file

        save_file(self._waiting, self._place(len(self._shards)), metadata={"format": "pt"})
        self._shards.append(list(self._waiting))
        self._waiting, self._bytes = {}, 0
