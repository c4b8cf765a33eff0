"""Writing a compressed model: by our own round to nearest, or calibrated by llm-compressor in another interpreter."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec
from evalcard.progress import Progress
from evalcard_engine.errors import EngineError
from evalcard_engine.quant.scheme import Scheme, parse_scheme

if TYPE_CHECKING:
    from evalcard.backends.inspect import Inspection

Method = Literal["rtn", "gptq", "awq", "smoothquant"]
METHODS: dict[Method, str] = {
    "rtn": "any scheme that compressed-tensors can hold",
    "gptq": "int4 and int8 weights",
    "awq": "int4 and int8 weights without int8 activations",
    "smoothquant": "w8a8",
}
"""Method -> the schemes it makes."""


@dataclass(frozen=True)
class Job:
    """One compression."""

    model: ModelSpec
    scheme: str
    """As the user spells it."""
    out: Path
    method: Method = "rtn"
    ignore: tuple[str, ...] = ()
    """Whole names of linears, or ``re:`` and a pattern from the start of the name."""
    data: Path | None = None
    """Calibration texts; rtn needs none."""
    samples: int = 512
    max_seq_len: int = 2048
    """Tokens of a sample."""
    python: str | None = None
    """Interpreter with llm-compressor; None is this one."""


def quantize(job: Job, progress: Progress, show: Callable[[str], None] | None = None) -> "Inspection":
    """Write ``job.out``, whole or not at all, and look into what was written.

    show: where the calibrating process's own output goes. Raises UserError for everything a user can fix, before any
    weight is read where that can be known.
    """
    scheme = _checked(job)
    with whole_folder(job.out) as folder:
        if job.method == "rtn":
            _round_to_nearest(job, scheme, folder, progress)
        else:
            from evalcard.calibrate import calibrate

            calibrate(job, scheme.name, folder, progress, show)
        return _looked_into(folder, job.method)


def _looked_into(folder: Path, method: Method) -> "Inspection":
    from evalcard.backends.inspect import inspect_model

    try:
        found = inspect_model(ModelSpec(source=str(folder)))
        faults = found.faults
    except UserError as error:
        faults = (str(error),)
    if faults:
        raise UserError(f"what {method} wrote cannot be read, so it was removed: {'; '.join(faults)}")
    return found


def _checked(job: Job) -> Scheme:
    try:
        scheme = parse_scheme(job.scheme)
    except EngineError as error:
        raise UserError(f"--scheme: {error}") from None
    if job.model.scheme:
        raise UserError(f"{job.model.label} names a scheme already; give the model alone, and --scheme {job.scheme}.")
    if not _makes(job.method, scheme):
        raise UserError(f"--method {job.method} makes {METHODS[job.method]}, not {scheme.name}. Use --method rtn.")
    if job.method == "rtn" and job.data is not None:
        raise UserError("--method rtn looks at weights alone and needs no --data. Leave it out, or use --method gptq.")
    if job.method != "rtn" and job.data is None:
        raise UserError(
            f"--method {job.method} needs texts to calibrate with: --data FILE, a .jsonl file with a `text` or "
            "`messages` in each line, or a .txt file. Some hundred samples of what the model will be used for do; "
            "never take the items it is evaluated on."
        )
    return scheme


def _makes(method: Method, scheme: Scheme) -> bool:
    if method == "rtn":
        return True
    is_plain = scheme.element in ("int4", "int8") and not scheme.is_sparse24 and scheme.head_bits is None
    if method == "smoothquant":
        return is_plain and scheme.activations == "int8"
    return is_plain and (method == "gptq" or scheme.activations is None)


def _round_to_nearest(job: Job, scheme: Scheme, folder: Path, progress: Progress) -> None:
    from evalcard.backends.inspect import QUANTIZER, export_model

    config = export_model(job.model, scheme.name, job.ignore, folder, progress)
    recipe = {
        "made_by": "evalcard quantize",
        "method": "rtn",
        "scheme": scheme.name,
        "scheme_title": scheme.title,
        "quantizer": QUANTIZER,
        "ignore": list(config["ignore"]),
        **source_facts(job.model),
    }
    write_yaml(folder / "recipe.yaml", recipe)


def source_facts(model: ModelSpec) -> dict[str, str | None]:
    """Where the weights came from, without a path of this machine."""
    return {"model": model.name, "revision": model.revision}


def file_facts(file: Path) -> dict[str, str]:
    """A file's name and content, without its place."""
    return {"file": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def write_yaml(file: Path, facts: dict[str, Any]) -> None:
    file.write_text(yaml.safe_dump(facts, sort_keys=False, allow_unicode=True), encoding="utf-8")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder beside ``out`` that takes its name when the block ends well and is removed when it does not.

    Raises UserError where ``out`` exists with something in it: nothing is ever written over.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out {out} exists already. Give a folder that does not, or remove it first.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise UserError(f"--out {out} cannot be made ({error}). Give a folder that you may write to.") from None
    try:
        yield folder
        _open_up(folder)
        folder.rename(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _open_up(folder: Path) -> None:
    """Give all in it the mode that umask grants what is new: mkdtemp and safetensors give theirs to nobody else."""
    mask = os.umask(0o077)
    os.umask(mask)
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
