"""Names of split files: which are one split, and which look like one but are not read. Light."""

import re
from collections.abc import Sequence
from pathlib import Path

from evalcard.errors import UserError
from evalcard.tasks.data.readers import PACKED, SUFFIXES

SPLIT_FILE = re.compile(
    r"(?P<split>[A-Za-z0-9_.]+?)(?:-(?P<shard>\d{5})-of-(?P<shards>\d{5}))?\.(?P<kind>jsonl|json|csv|tsv|parquet)"
)


def refuse_two_forms(dataset_id: str, split: str, files: Sequence[Path]) -> None:
    """UserError unless the files are one split: a single file, or all shards of one set. Else documents would count
    twice, or a part of them would be missing."""
    found = [match for path in files if (match := SPLIT_FILE.fullmatch(path.name))]
    forms: dict[tuple[str, str | None], list[re.Match[str]]] = {}
    for match in found:
        forms.setdefault((match["kind"], match["shards"]), []).append(match)
    names = ", ".join(path.name for path in files)
    if len(forms) > 1:
        raise UserError(
            f"data set {dataset_id} has the split {split!r} in more than one form in {files[0].parent}: {names}. Keep "
            "one form there and take the others away; together they would count documents twice."
        )
    shards = int(found[0]["shards"] or 0) if found else 0
    lacking = sorted(set(range(shards)) - {int(match["shard"]) for match in found}) if shards else []
    if lacking:
        stem = f"{found[0]['split']}-{lacking[0]:05d}-of-{shards:05d}.{found[0]['kind']}"
        raise UserError(
            f"data set {dataset_id} has only {len(found)} of {shards} parts of the split {split!r} in "
            f"{files[0].parent}: {names}. Add what is missing, such as {stem}."
        )


def unread(folder: Path) -> list[Path]:
    """Files that would be splits, were they not packed or their endings in capitals."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    plain = [path.with_suffix("") if path.suffix.lower() in PACKED else path for path in found]
    return [
        path
        for path, bare in zip(found, plain, strict=True)
        if bare.suffix.lower() in SUFFIXES and not SPLIT_FILE.fullmatch(path.name) and _is_split(bare)
    ]


def _is_split(path: Path) -> bool:
    return SPLIT_FILE.fullmatch(path.with_suffix(path.suffix.lower()).name) is not None


def refuse_unread(roots: Sequence[Path], dataset_id: str, subset: str | None) -> None:
    """UserError where a root has the data set, but in files that are not read."""
    for root in roots:
        folders = [root / dataset_id / subset] if subset else []
        for folder in [*folders, root / dataset_id, root / dataset_id / "data"]:
            for path in unread(folder):
                raise UserError(
                    f"data set {dataset_id}: {path} lies there but is not read; a split is a file named "
                    f"<split>{', <split>'.join(SUFFIXES)}, unpacked and in small letters. Unpack or rename it."
                )
