"""What a person should know of two results that were not made by one run, before they trust what is said of them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from evalcard.compare.alike import seeds_of, title
from evalcard.compare.health.stored import subset_against_full, tokenizers_differ
from evalcard.results.compared import Finding
from evalcard.results.records import RowRecord, RunRecord

if TYPE_CHECKING:
    from evalcard.compare.joined import Joined


def findings_of(joined: "Joined", run: RunRecord) -> Iterator[Finding]:
    """Rows left out, prompts and tokenizers, items that only one answered, seeds; ``run`` holds both models."""
    slug = run.models[1].slug
    yield from _of_left_out(joined, slug)
    yield from _of_prompts(joined, run)
    for row in joined.rows:
        yield from _of_items(joined, row, slug)
        yield from _of_seeds(joined, row, slug)


def _of_left_out(joined: "Joined", slug: str) -> Iterator[Finding]:
    baseline, compressed = joined.baseline, joined.compressed
    rows = {row.name for row in joined.rows}
    yield from _of_unusable(joined, slug)
    for model, other in ((baseline, compressed), (compressed, baseline)):
        only = [row.name for row in model.rows if row.name not in rows and row.name not in other.left_out]
        if only:
            # What the baseline was asked and the compressed model was not may be where it is worse.
            severity: Literal["warning", "note"] = "warning" if model is baseline else "note"
            text = f"Left out: {', '.join(only)}; {title(other)} has no answers to the same."
            yield Finding(finding=text, severity=severity, where=model.model.slug, advice=_ROWS, model=slug)


def _of_unusable(joined: "Joined", slug: str) -> Iterator[Finding]:
    """Results that are there and say nothing may be where the compressed model is worse, whichever side lacks them."""
    models = (joined.baseline, joined.compressed)
    for name in dict.fromkeys(name for model in models for name in model.left_out):
        found = [(title(model), model.left_out[name]) for model in models if name in model.left_out]
        # Where the task itself has nothing to compare in either, nothing is amiss.
        is_by_design = len(found) == len(models) and all(one.is_by_design for _, one in found)
        severity: Literal["warning", "note"] = "note" if is_by_design else "warning"
        whys = dict.fromkeys(one.why for _, one in found)
        said = (
            "; ".join(whys) if len(found) == len(models) else "; ".join(f"in {where} {one.why}" for where, one in found)
        )
        text = f"Its results are left out: {said}."
        yield Finding(finding=text, severity=severity, where=name, advice=_UNUSABLE, model=slug)


def _of_prompts(joined: "Joined", run: RunRecord) -> Iterator[Finding]:
    baseline, compressed = joined.baseline, joined.compressed
    slug = run.models[1].slug
    if not joined.has_same_prompts:
        known = [f"of {one} {_PROMPTS[kind]}" for one, kind in
                 ((run.models[0].slug, baseline.prompts), (slug, compressed.prompts))]  # fmt: skip
        text = f"Prompts could not be compared: {', '.join(known)}."
        yield Finding(finding=text, severity="warning", where=slug, advice=_UNSEEN, model=slug)
    # Other harnesses do not tell their tokenizers.
    if baseline.model.tokenizer_digest and compressed.model.tokenizer_digest:
        found = tokenizers_differ(*run.models)
        if found is not None:
            # Where every prompt is the same tokens, what differs did not touch what the models read.
            is_read_alike = baseline.prompts == compressed.prompts == "ids"
            yield found.model_copy(update={"severity": "note", "advice": _READ_ALIKE} if is_read_alike else {})


def _of_items(joined: "Joined", row: RowRecord, slug: str) -> Iterator[Finding]:
    out = sum(joined.left_out.get(name, 0) for name in row.tasks)
    if not out:
        yield from _of_unanswered(joined, row, slug)
        return
    shared = sum(len(joined.shared[name]) for name in row.tasks)
    if row.rule == "task":
        name = row.tasks[0]
        items = len({item for item, _ in joined.shared[name]})
        found = subset_against_full(joined.baseline.tasks[name], joined.compressed.tasks[name], items)
        if found is not None:
            yield found.model_copy(update={"model": slug, "row": row.name})
            return
    text = f"{shared} answers are compared; {out} that only one of the two results holds are left out."
    where = f"{row.name}, {slug}"
    yield Finding(finding=text, severity="warning", where=where, advice=_COMMON, model=slug, row=row.name)


def _of_unanswered(joined: "Joined", row: RowRecord, slug: str) -> Iterator[Finding]:
    """Both stopped at the same place, which the answers may have had a part in."""
    missing = sum(joined.unanswered.get(name, 0) for name in row.tasks)
    if missing:
        items = sum(len({item for item, _ in joined.shared[name]}) for name in row.tasks)
        text = f"{items} items are compared; the other {missing} of {items + missing} neither result has answered."
        where = f"{row.name}, {slug}"
        yield Finding(finding=text, severity="warning", where=where, advice=_COMMON, model=slug, row=row.name)


def _of_seeds(joined: "Joined", row: RowRecord, slug: str) -> Iterator[Finding]:
    seeds = [
        {seed for name in row.tasks for seed in seeds_of(model.tasks[name], model)}
        for model in (joined.baseline, joined.compressed)
    ]
    if all(seeds) and seeds[0] != seeds[1]:
        told = " and ".join("/".join(map(str, sorted(one))) for one in seeds)
        text = f"Answers were sampled with other seeds ({told}): what flipped may be the draw."
        where = f"{row.name}, {slug}"
        yield Finding(finding=text, severity="warning", where=where, advice=_SEEDS, model=slug, row=row.name)


_PROMPTS = {"ids": "the tokens are known", "text": "the text is known", "none": "nothing is known"}
_ROWS = "Evaluate both on the same tasks, or name the rows to compare with --task."
_UNUSABLE = "Nothing is known of it: evaluate it anew, or name the rows to compare with --task."
_UNSEEN = "Make sure that both were asked in the same words: worked examples, chat template and system message."
_READ_ALIKE = "Every prompt is the same tokens for both, so both read the same."
_COMMON = "Evaluate both on the same items; what is left out is not random where a run was stopped."
_SEEDS = "Evaluate both with one seed: then they draw the same noise, and their difference is theirs."
