"""How much of a change is compression, and how much comes of asking in another order?"""

from collections.abc import Iterator, Mapping, Sequence

from evalcard.compare.health.finding import share
from evalcard.compare.pairing import Answers
from evalcard.results.compared import Finding
from evalcard.results.records import NoiseRecord, RowRecord, RunRecord

NOISE_WARNING = 0.5
"""Share of the flips that compression made."""

ByModel = Mapping[str, Mapping[str, Answers]]


def about_noise(run: RunRecord, answers: ByModel) -> Iterator[Finding]:
    """Rows on which the baseline said the same both times are summed up; the others stand by themselves."""
    by_task = {record.task: record for record in run.noise}
    asked = [(record, [by_task[name] for name in record.tasks if name in by_task]) for record in run.rows]
    same = sum(one.answers for _, noise in asked for one in noise if not _differing(noise))
    if same:
        text = f"Asked again in another order, all {same} answers of the baseline were the same."
        yield Finding(finding=text, severity="note", where=run.models[0].slug, advice=_SAME)
    for record, noise in asked:
        if _differing(noise):
            yield from _of_row(run, record, noise, answers)


def _differing(noise: Sequence[NoiseRecord]) -> int:
    return sum(one.differing for one in noise)


def _of_row(run: RunRecord, record: RowRecord, noise: Sequence[NoiseRecord], answers: ByModel) -> Iterator[Finding]:
    """A note, or a warning for each model whose own flips the noise comes near to."""
    n, flipped = sum(one.answers for one in noise), sum(one.flipped for one in noise)
    said = f"Asked again in another order, {_differing(noise)} of {n} answers of the baseline differed"
    said += f", and {share(flipped, n)} got another score" if flipped else ", none in its score"
    baseline, *compressed = run.models
    near = []
    for model in compressed:
        changed, shared = _flips(record, answers.get(baseline.slug, {}), answers.get(model.slug, {}))
        if shared and flipped and flipped / n >= NOISE_WARNING * changed / shared:
            near.append(model.slug)
            text = f"{said}; compression changed {share(changed, shared)}."
            yield Finding(
                finding=text, severity="warning", where=f"{record.name}, {model.slug}", advice=_NOISY,
                model=model.slug, row=record.name,
            )  # fmt: skip
    if not near:
        where = f"{record.name}, {baseline.slug}"
        yield Finding(finding=f"{said}.", severity="note", where=where, advice=_SMALL, row=record.name)


def _flips(record: RowRecord, ours: Mapping[str, Answers], theirs: Mapping[str, Answers]) -> tuple[int, int]:
    """(answers whose score differs between the two models, answers that both have)."""
    changed = shared = 0
    for name in record.tasks:
        a, b = ours.get(name, {}), theirs.get(name, {})
        both = a.keys() & b.keys()
        shared += len(both)
        changed += sum(a[address].value != b[address].value for address in both)
    return changed, shared


_SAME = "What differs between two models is then hardly due to the batch."
_SMALL = "The backend's answers depend on the batch a little; compression changed far more."
_NOISY = "Much of what changed is not due to compression. Use a backend whose answers do not depend on the batch."
