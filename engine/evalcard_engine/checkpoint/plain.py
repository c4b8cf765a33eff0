"""Unquantized safetensors: which tensor fills which parameter, their digest, and the tensors themselves."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import torch

from evalcard_engine.checkpoint.source import Checkpoint, TensorFile
from evalcard_engine.errors import EngineError, UnsupportedModel
from evalcard_engine.families import Family

OnProgress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

PLAIN_DTYPES = {"F32": 4, "BF16": 2, "F16": 2}
"""Dtypes of unquantized weights, and their bytes."""

NOT_IN_DIGEST = frozenset({"_name_or_path", "_model_name_or_path", "transformers_version", "torch_dtype", "dtype"})
"""Config fields that change no answer, or are named elsewhere (the dtype computed in is part of the numerics)."""

HASH_THREADS = 2

SETTLED_NS = 100_000_000
"""Files changed more recently are hashed anew: two writes within a tick of a file system's clock look alike."""


def claim(
    checkpoint: Checkpoint, family: Family, wanted: Mapping[str, tuple[int, ...]], tied: Mapping[str, str]
) -> dict[str, str]:
    """Pair every parameter with the tensor that fills it: {parameter: tensor}.

    wanted: each parameter's shape. tied: {parameter: the one it shares its values with}; where the checkpoint holds
    only one of the two it fills both, where it holds both each has its own, as transformers has it.
    Raises EngineError listing what is missing, left over, or of the wrong shape: nothing is guessed or skipped.
    """
    claimed: dict[str, str] = {}
    unknown = []
    for tensor in checkpoint.tensors:
        parameter = family.module_name(tensor)
        if parameter is None:
            continue
        if parameter in wanted:
            claimed[parameter] = tensor
        else:
            unknown.append(tensor)
    for pair in (*tied.items(), *((source, target) for target, source in tied.items())):
        if pair[0] not in claimed and pair[1] in claimed:
            claimed[pair[0]] = claimed[pair[1]]
    _check_fit(checkpoint, claimed, unknown, wanted)
    _check_dtypes(checkpoint, claimed.values())
    return claimed


def _check_fit(
    checkpoint: Checkpoint, claimed: Mapping[str, str], unknown: list[str], wanted: Mapping[str, tuple[int, ...]]
) -> None:
    shapes = [
        f"{tensor} {list(checkpoint.tensors[tensor].shape)} for {list(wanted[parameter])}"
        for parameter, tensor in claimed.items()
        if checkpoint.tensors[tensor].shape != tuple(wanted[parameter])
    ]
    problems = _list("missing", sorted(set(wanted) - set(claimed)))
    problems += _list("not part of the model", sorted(unknown))
    problems += _list("of another shape than the config says", shapes)
    if problems:
        raise EngineError(f"{checkpoint.name} does not fit its config.json. Tensors " + "; ".join(problems) + ".")


def _list(title: str, names: list[str], limit: int = 8) -> list[str]:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return [f"{title} ({len(names)}): {', '.join(names[:limit])}{more}"] if names else []


def _check_dtypes(checkpoint: Checkpoint, tensors: Iterable[str]) -> None:
    odd = sorted({checkpoint.tensors[tensor].dtype for tensor in tensors} - set(PLAIN_DTYPES))
    if odd:
        raise UnsupportedModel(
            f"{checkpoint.name} holds weights of the type {', '.join(odd)}; this version opens "
            f"{', '.join(PLAIN_DTYPES)}. Try --backend vllm."
        )


class Tensors:
    """The claimed tensors by parameter name, read from mapped files: views, so copy what is to be kept."""

    def __init__(self, checkpoint: Checkpoint, claimed: Mapping[str, str]) -> None:
        from safetensors import safe_open

        self._claimed = claimed
        self._files = {name: checkpoint.tensors[tensor].file for name, tensor in claimed.items()}
        self._opened = {file: safe_open(file, framework="pt") for file in set(self._files.values())}

    def __getitem__(self, parameter: str) -> torch.Tensor:
        return self._opened[self._files[parameter]].get_tensor(self._claimed[parameter])

    def source(self, parameter: str) -> str:
        """The tensor's name in the checkpoint: tied parameters have one source."""
        return self._claimed[parameter]


def weights_digest(checkpoint: Checkpoint, family: Family, on_progress: OnProgress | None = None) -> str:
    """sha256 over the config's content and each text tensor's name in the module, dtype, shape and bytes.

    The folder's place, the cut into shards and tensors of other parts (a vision tower) do not matter. Kept for the
    life of the process while the files stay as they are: a write shows in a file's change time, which no program sets.
    """
    named = sorted(
        (parameter, tensor) for tensor in checkpoint.tensors if (parameter := family.module_name(tensor)) is not None
    )
    _check_dtypes(checkpoint, [tensor for _, tensor in named])
    config = {key: value for key, value in checkpoint.config.items() if key not in NOT_IN_DIGEST}
    head = json.dumps(config, sort_keys=True)
    files = sorted({place.file for place in checkpoint.tensors.values()})
    stats = [file.stat() for file in files]
    is_settled = max(stat.st_ctime_ns for stat in stats) < time.time_ns() - SETTLED_NS
    marks = ((stat.st_ino, stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size) for stat in stats)
    stamp = (head, *(zip((file.resolve() for file in files), marks, strict=True)))
    if is_settled and stamp in _digests:
        return _digests[stamp]
    digest = _hash_all(checkpoint, named, head, on_progress)
    if is_settled:
        _digests[stamp] = digest
    return digest


_digests: dict[tuple[object, ...], str] = {}
"""Digests already paid for: `identify` comes before `open_model`, and a large model takes seconds to hash."""


def _hash_all(checkpoint: Checkpoint, named: list[tuple[str, str]], head: str, on_progress: OnProgress | None) -> str:
    places = [checkpoint.tensors[tensor] for _, tensor in named]
    total, done = sum(_num_bytes(place) for place in places), 0
    whole = hashlib.sha256(head.encode())
    with ThreadPoolExecutor(HASH_THREADS) as threads:
        digests = threads.map(_hash_tensor, [tensor for _, tensor in named], places)
        for (parameter, _), place, digest in zip(named, places, digests, strict=True):
            whole.update(f"{parameter} {place.dtype} {list(place.shape)} {digest}\n".encode())
            done += _num_bytes(place)
            if on_progress is not None:
                on_progress(done, total)
    return whole.hexdigest()


def _num_bytes(place: TensorFile) -> int:
    return PLAIN_DTYPES[place.dtype] * torch.Size(place.shape).numel()


def _hash_tensor(tensor: str, place: TensorFile) -> str:
    from safetensors import safe_open

    with safe_open(place.file, framework="pt") as opened:
        values = opened.get_tensor(tensor)
    return hashlib.sha256(values.reshape(-1).view(torch.uint8).numpy()).hexdigest()
