"""Calibrated compression by llm-compressor, in an interpreter of its own: it asks for other packages than evalcard.

A copy of calibrate_script.py is run there with a job as JSON; its output is passed on as it comes.
"""

import codecs
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcard import calibrate_script
from evalcard.errors import UserError
from evalcard.progress import Progress
from evalcard.quantize import file_facts, source_facts, write_yaml

if TYPE_CHECKING:
    from evalcard.quantize import Job

SEED = 1234
"""Of the choice of samples, where the file has more than are asked for."""
SMOOTHING = 0.8
"""SmoothQuant's strength, as llm-compressor's own recipes for w8a8 have it."""
_TAIL = 3000
"""Characters of the other process's output that an error repeats."""
INSTALL = 'python -m venv llmc && llmc/bin/pip install "llmcompressor>=0.14,<0.15"'


def calibrate(
    job: "Job", scheme: str, folder: Path, progress: Progress, show: Callable[[str], None] | None = None
) -> None:
    """Fill ``folder`` with the compressed model. Raises UserError for data, settings and an interpreter that do not do,
    and with the last lines of llm-compressor's output where it fails."""
    from evalcard.backends.inspect import calibrated_settings, keep_tokenizer

    assert job.data is not None, job
    python = job.python or sys.executable
    data = read_samples(job.data, job.samples)
    settings = calibrated_settings(job.model, scheme, job.ignore)
    if settings.max_positions is not None and job.max_seq_len > settings.max_positions:
        raise UserError(
            f"--max-seq-len {job.max_seq_len} is beyond the {settings.max_positions} positions of {job.model.name}. "
            f"Give at most {settings.max_positions}."
        )
    versions = probe(python)
    progress.say(
        f"{job.method} by llm-compressor {versions['llmcompressor']}, {data['count']} texts of {job.data.name}"
    )
    order = {
        "model": str(settings.folder.resolve()),
        "out": str(folder.resolve()),
        "method": job.method,
        "smoothing": SMOOTHING,
        "config_groups": dict(settings.config_groups),
        "ignore": list(settings.ignore),
        "samples": job.samples,
        "max_seq_len": job.max_seq_len,
        **data["given"],
    }
    done = _run_script(python, order, show)
    keep_tokenizer(settings.folder, folder)
    facts = {
        "made_by": "evalcard quantize",
        "method": job.method,
        "scheme": scheme,
        **source_facts(job.model),
        "ignore": list(settings.ignore),
        "data": file_facts(job.data),
        "seed": SEED,
        "max_seq_len": job.max_seq_len,
        **done,
        "versions": versions,
    }
    write_yaml(folder / "calibration.yaml", facts)


def read_samples(file: Path, count: int) -> dict[str, Any]:
    """{"given": what the script gets, "count": texts}; at most ``count`` of a .jsonl file's lines, chosen by a seed.

    Raises UserError naming every line that has neither ``text`` nor ``messages``.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--data {file} cannot be read ({error}). Give a UTF-8 text or .jsonl file.") from None
    if file.suffix.lower() not in (".jsonl", ".txt", ".md"):
        raise UserError(f"--data {file}: {file.suffix or 'a file without an ending'} is not read; give .jsonl or .txt.")
    if not text.strip():
        raise UserError(f"--data {file} is empty. Give some hundred samples.")
    if file.suffix.lower() != ".jsonl":
        return {"given": {"whole": text}, "count": 1}
    samples = _lines(file, text)
    chosen = random.Random(SEED).sample(samples, min(count, len(samples)))
    return {"given": {"texts": chosen}, "count": len(chosen)}


def _lines(file: Path, text: str) -> list[Any]:
    """Of each line its ``text`` or its ``messages``."""
    samples, faults = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        sample = (found.get("messages") or found.get("text")) if isinstance(found, dict) else None
        if isinstance(sample, str) or (isinstance(sample, list) and all(_is_message(one) for one in sample)):
            samples.append(sample)
        else:
            faults.append(str(number))
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise UserError(
            f"--data {file}: {len(faults)} lines are no JSON object with a `text`, or `messages` of role and content: "
            f"{', '.join(faults[:5])}{more}."
        )
    return samples


def _is_message(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("role"), str) and isinstance(found.get("content"), str)


def probe(python: str) -> dict[str, str]:
    """Versions of what the interpreter has; raises UserError, with the command that installs it, where it has not."""
    try:
        done = subprocess.run(
            [python, calibrate_script.__file__, "--versions"], capture_output=True, text=True, timeout=120, check=False,
            env=_environment(),
        )  # fmt: skip
        found: dict[str, str | None] = json.loads(done.stdout) if done.returncode == 0 else {}
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"--python {python} cannot be run ({error}). Give an interpreter's path.") from None
    except ValueError:
        found = {}
    if not found:
        raise UserError(f"--python {python} is no Python that works: {done.stderr.strip()[-500:] or 'it said nothing'}")
    missing = [name for name, version in found.items() if version is None]
    if missing:
        raise UserError(
            f"{python} has no {' and no '.join(missing)}, which calibrates. It asks for other versions of "
            f"packages than evalcard, so give it an environment of its own: {INSTALL}; then add --python "
            "llmc/bin/python."
        )
    return {name: version for name, version in found.items() if version is not None}


def _environment() -> dict[str, str]:
    """Ours, without what would lend the other interpreter our packages."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return kept | {"PYTHONUNBUFFERED": "1"}


def _run_script(python: str, order: dict[str, Any], show: Callable[[str], None] | None) -> dict[str, Any]:
    """What the script says it did. It runs in a folder of its own, where no module of ours hides one of its."""
    with tempfile.TemporaryDirectory(prefix="evalcard-") as name:
        place = Path(name)
        script = shutil.copy(calibrate_script.__file__, place / "calibrate_script.py")
        (place / "job.json").write_text(json.dumps(order), encoding="utf-8")
        process = subprocess.Popen(
            [python, str(script), "job.json"], cwd=place, env=_environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            tail = _pass_on(process, show)
            code = process.wait()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if code:
            raise UserError(f"llm-compressor failed (exit code {code}). The last it said:\n{tail.strip()}")
        done: dict[str, Any] = json.loads((place / "done.json").read_text(encoding="utf-8"))
        return done


def _pass_on(process: "subprocess.Popen[bytes]", show: Callable[[str], None] | None) -> str:
    """Hand on everything as it comes, bars included; returns the end of it."""
    assert process.stdout is not None
    decode, tail = codecs.getincrementaldecoder("utf-8")("replace").decode, ""
    while piece := os.read(process.stdout.fileno(), 1 << 16):
        text = decode(piece)
        tail = (tail + text)[-_TAIL:]
        if show is not None:
            show(text)
    return tail
