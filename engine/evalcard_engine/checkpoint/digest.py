"""The digest that names a checkpoint's weights: what is stored, not where or in which shards."""

import hashlib
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from evalcard_engine.checkpoint.reading import read_raw
from evalcard_engine.checkpoint.source import Checkpoint
from evalcard_engine.checkpoint.tensor_files import TensorFile
from evalcard_engine.family import Family

OnProgress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

NOT_IN_DIGEST = frozenset({"_name_or_path", "_model_name_or_path", "transformers_version", "torch_dtype", "dtype"})
"""Config fields that change no answer, or are named elsewhere (the dtype computed in is part of the numerics)."""

HASH_THREADS = 2

SETTLED_NS = 100_000_000
"""Files changed more recently are hashed anew: two writes within a tick of a file system's clock look alike."""


def weights_digest(checkpoint: Checkpoint, family: Family, on_progress: OnProgress | None = None) -> str:
    """sha256 over the config's content and each text tensor's name in the module, dtype, shape and bytes.

    The folder's place, the cut into shards and tensors of other parts (a vision tower) do not matter. Kept for the
    life of the process while the files stay as they are: a write shows in a file's change time, which no program sets.
    """
    named = sorted(
        (parameter, tensor) for tensor in checkpoint.tensors if (parameter := family.module_name(tensor)) is not None
    )
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
    total, done = sum(place.num_bytes for place in places), 0
    whole = hashlib.sha256(head.encode())
    with ThreadPoolExecutor(HASH_THREADS) as threads:
        digests = threads.map(_hash_tensor, [tensor for _, tensor in named], places)
        for (parameter, _), place, digest in zip(named, places, digests, strict=True):
            whole.update(f"{parameter} {place.dtype} {list(place.shape)} {digest}\n".encode())
            done += place.num_bytes
            if on_progress is not None:
                on_progress(done, total)
    return whole.hexdigest()


def _hash_tensor(tensor: str, place: TensorFile) -> str:
    return hashlib.sha256(read_raw(tensor, place).numpy().data).hexdigest()
