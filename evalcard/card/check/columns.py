"""Which columns of a table are baseline, compressed and recovery, told by their headers and, where these say nothing,
by the figures."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evalcard.card.check.cells import read_cell
from evalcard.card.check.grid import Grid

Role = Literal["recovery", "baseline", "compressed", "quantized", "other", "unknown"]

RECOVERY = re.compile(r"\brecover(?:y|ed)\b|\bretention\b|\bretained\b", re.I)
"""What headers and labels call a recovery."""
_SETTING = re.compile(
    r"\([^()]*\)|\[[^\[\]]*\]|\b(?:\d+|zero|one|few)[- ]?shots?\b|"
    r"\b\d+ (?:samples?|runs?|repeats?|seeds?|items?|questions?|tokens?)\b",
    re.I,
)
"""How a benchmark was asked, in a header that names it: ``MMLU (5-shot)``, ``GSM8K 8-shot``, ``AIME24 (10 runs)``."""
_OTHER = re.compile(
    r"above chance|\binterval\b|\bci\b|\bitems?\b|\bquestions?\b|\bsamples?\b|^n$|^#|\blost\b|\bgained\b|"
    r"^p(?:-value)?$|\bsize\b|\bbpw\b|\bweights?\b|\bmemory\b|\bv?ram\b|\blatency\b|\bspeed|\bthroughput\b|\bqps\b|\bqpd\b|"
    r"\bcost\b|\bshots?\b|±|\bdiff(?:erence)?\b|\bdelta\b|Δ|\bdrop\b|\bchange\b|"
    r"\berror rate|"
    r"\brank\b|\bgroup[ -]?size\b|\bsparsity\b|\bratio\b|\bkld?\b|\bdivergence\b|"
    r"\bgate\b|\bversion\b|\bruns?\b|\bseeds?\b|\brepeats?\b|\bparam",
    re.I,
)
_UNIT = re.compile(
    r"\bgi?b\b|\bmi?b\b|\bbits\b|\bbits? per\b|\bms\b|\bseconds?\b|\btokens?(?:/| per )|^tokens?$|"
    r"\bstd(?:ev|err)?\b",
    re.I,
)
"""What no score is measured in, wherever in a header it stands."""
_BASELINE = re.compile(
    r"\bbase ?line\b|\boriginal\b|\breference\b|\bun-?quantized\b|\buncompressed\b|\bunpruned\b|\bfull[- ]precision\b",
    re.I,
)
_LIKE_BASELINE = re.compile(r"\bbase(?: model)?\b|\bref\b|\bb?f(?:p)?16\b|\bfp?32\b|\bdense\b", re.I)
"""Names of compressed models have some of these too, so that they count last."""
_COMPRESSED = re.compile(r"\bthis model\b|\bcompressed\b|\bcandidate\b|\bours\b", re.I)
_QUANTIZED = re.compile(
    r"quantized|quantised|w\d+a\d+|\bint[48]\b|fp8|nvfp4|mxfp[468]|\bfp4\b|gptq|\bawq\b|sparse|prun|2of4|gguf|q[2-8]_|"
    r"\brtn\b|\bqat\b|bnb|-[48]bit|\b[48]-bit",
    re.I,
)
_VERSUS = re.compile(r"\b(?:vs|versus|over|against|relative to|compared)\b.*", re.I)
_NO_NAME = {"of", "for", "the", "accuracy", "score", "average", "avg", "mean", "rate", "in", "percent", "pct"}
"""What stands beside ``recovery`` in a header and names no model."""
_ROLES: tuple[tuple[re.Pattern[str], Role], ...] = (
    (RECOVERY, "recovery"),
    (_COMPRESSED, "compressed"),
    (_BASELINE, "baseline"),
    (_QUANTIZED, "quantized"),
    (_LIKE_BASELINE, "baseline"),
)


@dataclass(frozen=True, slots=True)
class Triple:
    """Columns that belong together, by number."""

    baseline: int
    compressed: int
    recovery: int | None
    is_guess: bool = False
    """Whether no header says which is which, so that the figures have to confirm it."""
    is_loose: bool = False
    """Whether there are other baselines, so that only averages are held against their rows."""


def role_of(header: str) -> Role:
    """What a header says its column is."""
    named = " ".join(_SETTING.sub(" ", header).split()) or header
    is_other = _OTHER.search(named) or (_UNIT.search(header) and not RECOVERY.search(named))
    if is_other and not _COMPRESSED.search(header):
        return "other"
    return next((role for pattern, role in _ROLES if pattern.search(header)), "unknown")


def numeric_columns(grid: Grid) -> list[int]:
    """Columns of which at least half of what is written below the header are numbers."""
    found = []
    for number in range(len(grid.header)):
        kinds = [read_cell(row.cells[number].text).kind for row in grid.rows if not row.is_title]
        written = [kind for kind in kinds if kind != "nothing"]
        if written and 2 * sum(kind in ("number", "comma") for kind in written) >= len(written):
            found.append(number)
    return found


def triples_of(grid: Grid) -> list[Triple]:
    """Baseline, compressed and recovery columns that belong together; empty where this cannot be told.

    Without any recovery column each compressed one is paired with the baseline.
    """
    roles = [role_of(text) for text in grid.header]
    numeric = numeric_columns(grid)
    recoveries = [at for at, role in enumerate(roles) if role == "recovery"]
    scores = [at for at in numeric if roles[at] not in ("recovery", "other")]
    if not recoveries:
        return _without_recovery(scores, roles, grid.header)
    if len(recoveries) == 1:
        found = _pair(scores, roles, grid.header)
        return [Triple(*found[:2], recoveries[0], found[2])] if found else []
    blocks = _blocks(scores, recoveries)
    if blocks:
        return _triples_of_blocks(blocks, roles, grid.header)
    return _one_baseline(scores, recoveries, roles, grid.header)


def _pair(scores: Sequence[int], roles: Sequence[Role], header: Sequence[str]) -> tuple[int, int, bool] | None:
    """(baseline, compressed, is guess) among columns of scores."""
    said = {role: [at for at in scores if roles[at] == role] for role in ("baseline", "compressed", "quantized")}
    compressed = said["compressed"] if len(said["compressed"]) == 1 else []
    if not said["compressed"] and len(said["quantized"]) == 1:
        compressed = said["quantized"]
    baseline = said["baseline"] if len(said["baseline"]) == 1 else []
    if compressed and not said["baseline"]:
        baseline = [at for at in scores if at not in compressed]
    elif baseline and not compressed and not said["compressed"]:
        compressed = [at for at in scores if at not in baseline]
    if len(baseline) == 1 and len(compressed) == 1:
        return baseline[0], compressed[0], False
    if len(scores) != 2:
        return None
    left, right = scores
    if is_part(header[right], header[left]):
        return right, left, False
    return left, right, not is_part(header[left], header[right])


def is_part(name: str, longer: str) -> bool:
    """Whether a name goes on in the other: ``Qwen3-8B`` in ``Qwen3-8B-quantized.w4a16``."""
    one, other = (re.sub(r"[^a-z0-9.]+", "", text.lower()) for text in (name, longer))
    return bool(one) and one != other and other.startswith(one)


def _blocks(scores: Sequence[int], recoveries: Sequence[int]) -> list[list[int]]:
    """Runs of two columns of scores and one of recovery, side by side as often as it has to be; else empty."""
    columns = sorted([*scores, *recoveries])
    if len(columns) != 3 * len(recoveries):
        return []
    blocks = [columns[at : at + 3] for at in range(0, len(columns), 3)]
    return blocks if all(sum(at in recoveries for at in block) == 1 for block in blocks) else []


def _triples_of_blocks(blocks: list[list[int]], roles: Sequence[Role], header: Sequence[str]) -> list[Triple]:
    triples = []
    for block in blocks:
        recovery = next(at for at in block if roles[at] == "recovery")
        found = _pair([at for at in block if at != recovery], roles, header)
        assert found is not None, (block, header)
        triples.append(Triple(*found[:2], recovery, found[2]))
    return triples


def _one_baseline(
    scores: Sequence[int], recoveries: Sequence[int], roles: Sequence[Role], header: Sequence[str]
) -> list[Triple]:
    """One baseline and several compressed models, each with a recovery: which one's its header says, or the order."""
    said = [at for at in scores if roles[at] == "baseline"]
    if len(scores) != len(recoveries) + 1 or len(said) > 1:
        return []
    named = _named(scores, recoveries, header)
    if named and (not said or said[0] not in named.values()):
        (baseline,) = set(scores) - set(named.values())
        return [Triple(baseline, named[recovery], recovery) for recovery in recoveries]
    baseline = said[0] if said else scores[0]
    others = [at for at in scores if at != baseline]
    is_guess = not said and not all(is_part(header[baseline], header[at]) for at in others)
    return [Triple(baseline, one, recovery, is_guess) for one, recovery in zip(others, recoveries, strict=True)]


def _named(scores: Sequence[int], recoveries: Sequence[int], header: Sequence[str]) -> dict[int, int]:
    """The column of scores of each recovery, by its header: ``Recovery GPTQ`` of ``Llama-3-GPTQ``; empty where not
    every one names a model of its own."""
    words = {at: _words(header[at]) for at in scores}
    named: dict[int, int] = {}
    for recovery in recoveries:
        wanted = _words(_VERSUS.sub("", RECOVERY.sub(" ", header[recovery]))) - _NO_NAME
        found = [at for at in scores if wanted and wanted <= words[at]]
        if len(found) != 1 or found[0] in named.values():
            return {}
        named[recovery] = found[0]
    return named


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def _without_recovery(scores: Sequence[int], roles: Sequence[Role], header: Sequence[str]) -> list[Triple]:
    said = [at for at in scores if roles[at] == "baseline"]
    if len(said) == 1 and len(scores) > 1:
        return [Triple(said[0], at, None) for at in scores if at != said[0]]
    if len(said) > 1 and said[0] == scores[0] and _are_parted(said, scores):
        return [
            Triple(max(one for one in said if one < at), at, None, is_loose=True) for at in scores if at not in said
        ]
    found = _pair(scores, roles, header)
    return [Triple(*found[:2], None, found[2])] if found else []


def _are_parted(baselines: Sequence[int], scores: Sequence[int]) -> bool:
    """Whether each baseline is followed by another model: one group of columns for each of several models."""
    followers = dict(zip(scores, scores[1:], strict=False))
    return all(at in followers and followers[at] not in baselines for at in baselines)
