"""A run before it starts: what would be asked of which models, with everything that can fail without weights tried."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcard.backends.backend import Backend, Identity
from evalcard.backends.choice import make_backends
from evalcard.compare.plans import ASSUMED_POWER
from evalcard.errors import UserError
from evalcard.forecast import RowForecast, forecast
from evalcard.gate.spec import DEFAULT_CONFIDENCE, GateSpec
from evalcard.gateplan import gate_in_words, gate_of, gate_summary, refuse_unfit_limits
from evalcard.identities import Identified
from evalcard.modelspec import DEMO
from evalcard.outlook import start_lines, warnings, wrapped
from evalcard.priors import Sought, find_priors
from evalcard.progress import Progress
from evalcard.results.records import RowRecord, TaskRecord
from evalcard.spec import RunSpec

if TYPE_CHECKING:
    from evalcard.tasks.prepare import Prepared, PreparedTask

_SHOWN_ROWS = 12
DEMO_SCHEMES = ("w8a8", "w4a16")


@dataclass(frozen=True)
class Plan:
    """A run that is ready: everything that can fail without weights has been tried."""

    spec: RunSpec
    prepared: "Prepared"
    backends: Mapping[str, Backend]
    """By slug, the baseline first; none has loaded weights yet."""
    gate: GateSpec | None = None
    """What the run is judged by when it is done; None where no limit was asked."""
    forecasts: tuple[RowForecast, ...] = ()
    """What the items can show, by row and average."""

    @property
    def confidence(self) -> float:
        """Of the gate's decisions and of the forecasts."""
        return self.gate.confidence if self.gate else self.spec.confidence or DEFAULT_CONFIDENCE

    def lines(self) -> list[str]:
        """For a person: what is about to be evaluated, before any weights load."""
        samples, models = self.prepared.num_samples, len(self.backends)
        tokens = f"{self.prepared.prompt_tokens:,} prompt tokens each"
        total = f"{samples} answers x {models} models = {samples * models} ({tokens})"
        models_shown = f"Models: {', '.join(model.label for model in self.spec.models)}"
        rows = self._rows()
        more = [f"  and {len(rows) - _SHOWN_ROWS} more rows"] if len(rows) > _SHOWN_ROWS else []
        shown = [*rows[:_SHOWN_ROWS], *more, models_shown, total, *self.prepared.notes, *self._outlook()]
        return [f"Run {self.spec.run_name}", *shown]

    def _outlook(self) -> list[str]:
        """The gate, what the items can show, and where it asks for more than that."""
        said = [f"Gate: {gate_in_words(self.gate)}"] if self.gate else []
        if not self.spec.sequential:
            # Else the gate is about this full set itself, which its items decide exactly: no limit is too fine for it.
            said += [*start_lines(self.forecasts, self.confidence), *warnings(self.forecasts)]
        return [line for one in said for line in wrapped(one)]

    def _rows(self) -> list[str]:
        """Each row with its number of items, shots, metric and decoding."""
        tasks = {task.name: task for task in self.prepared.tasks}
        lines = []
        for row in self.prepared.rows:
            members = [tasks[name] for name in row.tasks]
            records = [task.record for task in members]
            items = _count(sum(one.items_selected for one in records), row.total(records))
            parts = [f"{items} items" + (f" of {len(members)} tasks" if len(members) > 1 else "")]
            parts += [_each(f"{one.num_fewshot}-shot" for one in records), _each(_measure(one) for one in records)]
            parts += [_each(one.decoding for one in records)]
            parts += [f"{_each(str(one.repeats) for one in records)} answers each"] if records[0].repeats > 1 else []
            lines.append(f"  {row.name}: {', '.join(parts)}")
        return lines

    def summary(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "run": self.spec.run_name,
            "models": list(self.backends),
            "tasks": [task.record.model_dump() for task in self.prepared.tasks],
            "answers_per_model": self.prepared.num_samples,
            "prompt_tokens_per_model": self.prepared.prompt_tokens,
            "notes": list(self.prepared.notes),
            "gate": gate_summary(self.gate, self.prepared.rows) if self.gate else None,
            "forecast": self.power_summary(),
        }

    def power_summary(self) -> dict[str, Any]:
        """The forecast for a program: scores and flips are fractions, drops and limits in percent or points."""
        return {
            "run": self.spec.run_name,
            "confidence": self.confidence,
            "power": ASSUMED_POWER,
            "rows": [one.summary() for one in self.forecasts],
            "warnings": [] if self.spec.sequential else warnings(self.forecasts),
        }


def with_demo_defaults(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Without a baseline the bundled demo model is compared with its compressed variants, on the demo tasks, which are
    that model's where none are named."""
    if "baseline" in flags:
        return ({"tasks": ["demo"]} if flags["baseline"] == DEMO else {}) | dict(flags)
    if "compressed" in flags and any(not str(model).startswith(DEMO) for model in flags["compressed"]):
        raise UserError("--compressed needs --baseline: the model it is compared with. Without both, the demo is run.")
    schemes = () if "sweep" in flags else DEMO_SCHEMES
    demo = {"baseline": DEMO, "compressed": [f"{DEMO}:{scheme}" for scheme in schemes], "tasks": ["demo"]}
    return demo | dict(flags)


def plan_run(spec: RunSpec, progress: Progress, asks_power: bool = False) -> Plan:
    """Resolve tasks, prompts, models and the gate; raises UserError for everything a user can fix.

    asks_power: only the forecast is wanted, so that a confidence without any limit has a meaning.
    """
    from evalcard.tasks.files.select import select

    for root in spec.reuse:
        if not Path(root).is_dir():
            raise UserError(f"--reuse {root}: there is no such folder. Give a results root of another run.")
    gate = gate_of(spec, asks_power)
    select(spec.tasks)  # light, so that a misspelt name fails at once; prepare resolves the names again, from the cache
    backends = dict(zip(slugs(spec), make_backends(spec, progress), strict=True))
    # Only now: a backend in a process of its own loads while this one does.
    from evalcard.tasks.prepare import prepare

    identified = Identified(spec.models, list(backends.values()))
    if not all(model.is_local for model in spec.models):
        identified.take()  # before their tokenizers are looked for on the Hub, in other words and with other advice
    try:
        _refuse_beyond_positions(spec)
        prepared = prepare(spec, progress, meanwhile=identified.take_known)
    except UserError:
        identified.take()  # a model that is refused is what has to be mended first
        raise
    import evalcard.run  # noqa: F401, PLC0415 - needed next; until then there may be an engine's process to wait for

    identities = identified.take()
    _refuse_without_mean(prepared.tasks)
    tasks = {task.name: task.record for task in prepared.tasks}
    if gate is not None:
        refuse_unfit_limits(gate, prepared.rows, tasks)
    if spec.sequential:
        from evalcard.early import check_sequential

        check_sequential(spec, gate, prepared)
    return Plan(spec, prepared, backends, gate, _forecasts(spec, gate, prepared.rows, tasks, identities))


def _forecasts(
    spec: RunSpec,
    gate: GateSpec | None,
    rows: Sequence[RowRecord],
    tasks: Mapping[str, TaskRecord],
    identities: Sequence[Identity],
) -> tuple[RowForecast, ...]:
    """From stored runs of the same weights where there are any."""
    baseline, *compressed = [identity.weights_digest for identity in identities]
    priors = {}
    if baseline is not None:
        sought = Sought(baseline, list(zip(compressed, [model.scheme for model in spec.compressed], strict=True)))
        priors = find_priors([Path(spec.out), *map(Path, spec.reuse)], rows, list(tasks.values()), sought)
    return tuple(forecast(rows, tasks, priors, gate, spec.confidence))


def _refuse_beyond_positions(spec: RunSpec) -> None:
    """Our engine gives a model no position that its config does not have; other backends decide for themselves."""
    from evalcard.tasks.prompts.tokenizer import shared_tokenizer, tokenizer_source

    if spec.max_model_len is None or spec.backend != "evalcard":
        return
    for model in spec.models:
        positions = shared_tokenizer(*tokenizer_source(spec, model)).num_positions
        if positions is not None and spec.max_model_len > positions:
            raise UserError(
                f"--max-model-len {spec.max_model_len} is beyond the {positions} positions that the config of "
                f"{model.name} states. Give at most {positions}, or leave it out."
            )


def _refuse_without_mean(tasks: Sequence["PreparedTask"]) -> None:
    """Two models are paired item by item, so a score that is no mean over items cannot be compared."""
    refused = [f"{task.name} ({task.scoring.metric})" for task in tasks if not task.scoring.is_mean]
    if refused:
        raise UserError(
            f"these tasks have no metric that is a mean over items: {', '.join(refused)}. Leave them out, or measure "
            "one model with `python -m evalcard.lm_eval --model evalcard`."
        )


def slugs(spec: RunSpec) -> list[str]:
    """Folder names: last path part and scheme, with 4 hex of the model where two clash."""
    plain = [_slug(model.label) for model in spec.models]
    return [
        # The role is part of it: a model may be compared with itself.
        f"{slug}-{sha256((str(number == 0) + model.model_dump_json()).encode()).hexdigest()[:4]}"
        if plain.count(slug) > 1
        else slug
        for number, (slug, model) in enumerate(zip(plain, spec.models, strict=True))
    ]


def _slug(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", label.rsplit("/", 1)[-1]).strip("-.") or "model"


def _count(selected: int, total: int) -> str:
    return str(total) if selected == total else f"{selected} of {total}"


def _measure(record: TaskRecord) -> str:
    """What a task is judged by; the filter only where it has a name that says something."""
    return record.metric if record.filter == "none" else f"{record.metric} ({record.filter})"


def _each(texts: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(texts))
