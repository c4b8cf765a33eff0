"""What ``llama-perplexity --kl-divergence`` prints, read as fidelity: how far two models' next tokens lie apart.

The program writes the base model's logits first (--kl-divergence-base FILE), then holds another model against them and
prints one line a chunk and three blocks of figures: perplexity, KL divergence (base || model, in nats) and token
probabilities. Padding varies between versions; a ± stands before each standard error. A run that was cut off may end
with exit code 0, so that all three blocks are asked for. It says nothing of single tokens, so no interval of a
difference follows from it.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path

from evalcard.errors import UserError
from evalcard.results.compared import FidelityRecord

MAX_BYTES = 1 << 26
"""Of a log that is read; a line for each chunk of a large text takes a few MiB."""
_HEADERS = ("Perplexity statistics", "KL divergence statistics", "Token probability statistics")
_HEADER = re.compile(r"^[^=]*=+ *([A-Za-z ]+?) *=+\s*$")
_PLUS_MINUS = "(?:±|\ufffd+|\\+/-)"
"""A console may have written the sign in another encoding than UTF-8."""
_NUMBER = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"
_LINE = re.compile(rf"^\s*(.+?)\s*:\s*{_NUMBER}\s*%?\s*(?:{_PLUS_MINUS}\s*{_NUMBER}\s*%?)?\s*$")
_UNREADABLE = re.compile(r"^\s*(\S+\s+KLD)\s*:")
"""A figure without its number."""
_SIZE = re.compile(r"computing over (\d{1,9}) chunks, n_ctx=(\d{1,9})(?!\d)")
_PLAIN = re.compile(r"Final estimate: PPL")
_CHUNK = re.compile(rf"^\s*\d+\s+\S+\s+{_PLUS_MINUS}")
_A_HAIR = 0.01
"""Nats that a figure may lie below 0."""
_AGAIN = (
    "Run it again and keep all that it says: llama-perplexity -m MODEL --kl-divergence --kl-divergence-base FILE "
    "> LOG 2>&1"
)

_Figures = Mapping[str, tuple[float, float | None]]
"""What a line is about, its blanks made one -> (value, standard error)."""


def is_fidelity(path: Path) -> bool:
    """Whether a file holds such an output; False for what cannot be read."""
    try:
        with open(path, "rb") as file:
            return f"= {_HEADERS[1]} =".encode() in file.read(MAX_BYTES)
    except OSError:
        return False


def read_fidelity(path: Path, model: str) -> FidelityRecord:
    """The output of one run, as the fidelity of the compressed model ``model`` (its slug).

    ``row`` is the name of the file, as the program does not say which text it read. ``items`` are the places whose next
    token was compared: the program leaves out the first half of each chunk, so ``n_ctx - 1 - n_ctx // 2`` a chunk.
    Raises UserError for what cannot be read, was cut off, or is a run without --kl-divergence.
    """
    text = _text(path)
    blocks = _blocks(text)
    missing = [header for header in _HEADERS if header not in blocks]
    if missing:
        raise UserError(_why_not(path, text, missing))
    divergence, tokens = blocks[_HEADERS[1]], blocks[_HEADERS[2]]
    mean, error = _figure(path, divergence, "Mean KLD")
    same, _ = _figure(path, tokens, "Same top p", "Same top")
    record = FidelityRecord(
        row=path.name,
        model=model,
        unit="tokens",
        items=_items(path, text),
        kl_mean=mean,
        kl_stderr=None if error is None or math.isnan(error) else error,
        kl_median=_quantile(divergence, "Median"),
        kl_p90=_quantile(divergence, "90.0%"),
        kl_p99=_quantile(divergence, "99.0%"),
        kl_max=_quantile(divergence, "Maximum"),
        top_agreement=same / 100,
    )
    _check(path, record)
    return record


def _quantile(divergence: _Figures, label: str) -> float | None:
    """None where this version of the program does not print it."""
    found = divergence.get(f"{label} KLD")
    return found[0] if found else None


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}. {_AGAIN}") from None
    if len(content) > MAX_BYTES:
        raise UserError(f"{path} has more than {MAX_BYTES >> 20} MiB, which is no output of llama-perplexity.")
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


def _blocks(text: str) -> dict[str, dict[str, tuple[float, float | None]]]:
    """Header -> its figures; of a log that holds several runs the last of each."""
    blocks: dict[str, dict[str, tuple[float, float | None]]] = {}
    current: dict[str, tuple[float, float | None]] | None = None
    for line in text.split("\n"):
        if header := _HEADER.match(line):
            current = blocks[header[1]] = {}
        elif current is not None and (found := _LINE.match(line)):
            current[" ".join(found[1].split())] = (float(found[2]), float(found[3]) if found[3] else None)
        elif current is not None and (cut := _UNREADABLE.match(line)):
            current[" ".join(cut[1].split())] = (math.nan, None)
    return blocks


def _figure(path: Path, block: _Figures, *names: str) -> tuple[float, float | None]:
    for name in names:
        if name in block:
            return block[name]
    raise UserError(f"{path} was cut off, or is of a version that is not known: it has no line {names[0]!r}. {_AGAIN}")


def _items(path: Path, text: str) -> int:
    """Places compared, over all chunks."""
    sizes = _SIZE.findall(text)
    if not sizes:
        raise UserError(
            f"{path} does not say how much text it is about: the line 'computing over N chunks, n_ctx=M' is missing, "
            f"which goes to standard error. {_AGAIN}"
        )
    chunks, context = (int(size) for size in sizes[-1])
    done = sum(bool(_CHUNK.match(line)) for line in text[text.rindex("computing over") :].split("\n"))
    if done and done < chunks:
        raise UserError(f"{path} was cut off: it has {done} of {chunks} chunks. {_AGAIN}")
    places = chunks * (context - 1 - context // 2)
    if places < 1:
        raise UserError(f"{path} compares no token: {chunks} chunks of {context}. Give it a longer text.")
    return places


def _why_not(path: Path, text: str, missing: list[str]) -> str:
    if len(missing) < len(_HEADERS):
        return f"{path} was cut off: it has no block {', '.join(map(repr, missing))}. {_AGAIN}"
    if _PLAIN.search(text):
        return (
            f"{path} is a plain perplexity, which holds no model against another. Write the baseline's logits with "
            "llama-perplexity -m BASELINE -f TEXT --kl-divergence-base FILE, then the compressed model's divergence "
            "with llama-perplexity -m MODEL --kl-divergence --kl-divergence-base FILE > LOG 2>&1"
        )
    return f"{path} is no output of llama-perplexity --kl-divergence, or was cut off before its end. {_AGAIN}"


def _check(path: Path, record: FidelityRecord) -> None:
    """Divergences may be a hair below 0, as the stored logits are rounded; else they are ordered and finite, and their
    mean lies below the largest."""
    sizes = [one for one in (record.kl_median, record.kl_p90, record.kl_p99, record.kl_max) if one is not None]
    told = [*sizes, record.kl_mean, record.top_agreement]
    is_finite = all(one is not None and abs(one) < float("inf") for one in told)
    share, error = record.top_agreement, record.kl_stderr
    is_low = any(one is not None and one < -_A_HAIR for one in told)
    is_high = record.kl_max is not None and record.kl_mean is not None and record.kl_mean > record.kl_max
    is_error = error is None or 0 <= error < math.inf
    is_ordered = sizes == sorted(sizes) and not is_low and not is_high
    if not is_finite or not is_ordered or not is_error or share is None or not 0 <= share <= 1:
        raise UserError(
            f"{path} holds figures that no comparison gives: divergences {record.kl_mean} ± {record.kl_stderr} (mean), "
            f"{', '.join(map(str, sizes))}, {share} of tokens the same. Run it again; logits that are not finite come "
            "from a damaged model or base file."
        )
