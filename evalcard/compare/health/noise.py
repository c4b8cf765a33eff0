"""How much of a change is compression, and how much comes of asking in another order?"""

from collections.abc import Iterator, Mapping, Sequence

from evalcard.compare.health.finding import Severity, share
from evalcard.compare.pairing import Answers
from evalcard.results.compared import Finding
from evalcard.results.records import NoiseRecord, RowRecord, RunRecord

NOISE_WARNING = 0.5
"""Share of the flips that compression made."""
SURELY = 0.025
"""Chance that so many flips, or more, come of a noise below the one that is warned of."""
FEW = 20
"""Answers of a task, asked again, below which is said how little they can show."""

ByModel = Mapping[str, Mapping[str, Answers]]


def about_noise(run: RunRecord, answers: ByModel) -> Iterator[Finding]:
    """Rows on which the baseline said the same both times are summed up; the others stand by themselves."""
    by_task = {record.task: record for record in run.noise}
    asked = [(record, [by_task[name] for name in record.tasks if name in by_task]) for record in run.rows]
    same = sum(one.answers for _, noise in asked for one in noise if not _differing(noise))
    if same:
        text = f"Asked again in another order, all {same} answers of the baseline were the same."
        text += _of_few([one for _, noise in asked if not _differing(noise) for one in noise])
        yield Finding(finding=text, severity="note", where=run.models[0].slug, advice=_SAME)
    for record, noise in asked:
        if _differing(noise):
            yield from _of_row(run, record, noise, answers)


def _differing(noise: Sequence[NoiseRecord]) -> int:
    return sum(one.differing for one in noise)


def _of_row(run: RunRecord, record: RowRecord, noise: Sequence[NoiseRecord], answers: ByModel) -> Iterator[Finding]:
    """A note, or one for each model whose own flips the noise comes near to: a warning where that is shown.

    Shown: the noise is half of the flips or more even at the lower end of its interval.
    """
    n, flipped = sum(one.answers for one in noise), sum(one.flipped for one in noise)
    said = f"Asked again in another order, {_differing(noise)} of {n} answers of the baseline differed"
    said += f", and {share(flipped, n)} got another score" if flipped else ", none in its score"
    baseline, *compressed = run.models
    near = []
    for model in compressed:
        changed, shared = _flips(record, answers.get(baseline.slug, {}), answers.get(model.slug, {}))
        if shared and flipped and flipped / n >= NOISE_WARNING * changed / shared:
            near.append(model.slug)
            is_shown = _at_least(flipped, n) >= NOISE_WARNING * changed / shared
            text = f"{said}; compression changed {share(changed, shared)}.{'' if is_shown else _of_few(noise)}"
            severity: Severity = "warning" if is_shown else "note"
            advice = _NOISY if is_shown else _UNSURE
            where = f"{record.name}, {model.slug}"
            yield Finding(
                finding=text, severity=severity, where=where, advice=advice, model=model.slug, row=record.name
            )
    if not near:
        text, where = f"{said}.{_of_few(noise)}", f"{record.name}, {baseline.slug}"
        yield Finding(finding=text, severity="note", where=where, advice=_SMALL, row=record.name)


def _at_least(flipped: int, n: int) -> float:
    """The lower end of the exact interval of a rate (C. Clopper and E. Pearson, Biometrika 26, 1934)."""
    from scipy.stats import beta

    return float(beta.ppf(SURELY, flipped, n - flipped + 1)) if flipped else 0.0


def _of_few(noise: Sequence[NoiseRecord]) -> str:
    """What so few answers cannot show, where they are few; read after a full stop."""
    least = min(one.answers for one in noise)
    return f" Of a task only {least} were asked again: noise below 1 in {least} shows in none." if least < FEW else ""


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
_UNSURE = "Too few were asked again to tell noise from compression here; ask for more with --noise-check N."
_NOISY = "Much of what changed is not due to compression. Use a backend whose answers do not depend on the batch."
