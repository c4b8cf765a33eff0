"""Our own engine as a backend: items become requests, all in one run; answers stream back by request id."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from evalcard.backends.backend import (
    ChoiceAnswer,
    Description,
    GenerateRequest,
    Identity,
    Item,
    ItemAnswer,
    ScoreRequest,
)
from evalcard.backends.faults import as_user_error
from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec
from evalcard.progress import Progress, Silent
from evalcard.spec import RunSpec
from evalcard.tasks.prompts.tokenizer import Tokenizer, shared_tokenizer, tokenizer_source
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.request import Completion, Generate, Request, Sampling, Score, Scored

if TYPE_CHECKING:
    from evalcard_engine.engine import Engine
    from evalcard_engine.plan import Plan
    from evalcard_engine.stats import Stats

_ARGUMENTS = {"tokenizer": str, "max_sequences": int, "page_size": int}
"""What ``--model-args`` may say to this backend; everything else has a flag of its own."""

PLANNED = ("planned_prompt_tokens", "planned_tokens_to_compute", "planned_max_new_tokens", "planned_pages")
"""What facts say of the plan: of all calls together, of pages the most."""


class EmbeddedBackend:
    """One model in our engine. Nothing is loaded before ``answer``."""

    def __init__(self, spec: RunSpec, model: ModelSpec, progress: Progress | None = None) -> None:
        """Raises UserError for arguments this backend does not know."""
        self._spec = spec
        self._model = model
        self._progress = progress or Silent()
        self._options = _options(spec.model_args | model.args)
        self._engine: Engine | None = None
        self._tokenizer_lock = threading.Lock()
        self._auto_dtype: str | None = None
        """Of the run's baseline, once it was asked for."""
        self._identity: Identity | None = None
        self._facts: dict[str, float | int | str | None] = {}
        self._planned = dict.fromkeys(PLANNED, 0)
        self._has_said_halved = False

    def identity(self) -> Identity:
        """Hashes the checkpoint's files; the numerics are those the engine will state once it is open.

        Raises UserError for a model, scheme or device the engine refuses.
        """
        if self._identity is None:
            with as_user_error():
                self._identity = self._identify()
            for note in self._identity.described.notes:
                self._progress.say(f"{self._model.label}: {note}")
        return self._identity

    def _identify(self) -> Identity:
        from evalcard_engine.engine import numerics_name
        from evalcard_engine.models import identify

        device, dtype = self._resolved()
        scheme = parse_scheme(self._model.scheme) if self._model.scheme else None
        found = identify(
            self._model.location,
            dtype=dtype,
            device=device,
            scheme=scheme,
            revision=self._model.revision,
            weights=self._spec.weights,
        )
        return Identity(found.weights, numerics_name(found.numerics), *self._looked_into())

    def _resolved(self) -> tuple[str, str]:
        """(device, dtype) as the engine resolves them when it opens, but that "auto" is for every model of a run what
        it is for the baseline: a difference of arithmetic would be taken for one of compression."""
        import torch

        from evalcard_engine.planning import auto_dtype

        spec, baseline = self._spec, self._spec.baseline
        device = spec.device if spec.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
        if spec.dtype == "auto" and self._auto_dtype is None:
            self._auto_dtype = auto_dtype(baseline.location, device, baseline.revision)
        return device, self._auto_dtype or spec.dtype

    def _looked_into(self) -> tuple[str | None, Description]:
        """How the files are compressed, where nothing else is done to them, and what they say of themselves."""
        from evalcard.backends.inspect import look_into

        return look_into(self._model)

    @property
    def tokenizer(self) -> Tokenizer:
        with self._tokenizer_lock:
            return shared_tokenizer(*tokenizer_source(self._spec, self._model))

    def _load_tokenizer(self) -> None:
        """For a thread of its own; what goes wrong is met again by who needs it."""
        with contextlib.suppress(Exception):
            _ = self.tokenizer

    def answer(self, items: Sequence[Item], on_answer: Callable[[Item, ItemAnswer], None]) -> None:
        """All requests go to the engine in one call: it knows best in which order they share most."""
        if not items:
            return
        requests = [request for number, item in enumerate(items) for request in _requests(number, item)]
        parts: dict[int, dict[int, ChoiceAnswer | Completion]] = {}
        finished = 0
        with as_user_error():
            engine = self._open()
            self._note_plan(engine.plan(requests))
            # Where it is not here yet, the first stop string waits for it, and not the first prompt.
            threading.Thread(target=self._load_tokenizer, daemon=True).start()
            for answer in engine.run(requests, detokenize=lambda ids: self.tokenizer.decode(ids)):
                self._say_halved(engine.stats)
                number, _, part = answer.id.partition(".")
                item, got = items[int(number)], parts.setdefault(int(number), {})
                assert int(part) not in got, ("answered twice", answer.id)
                got[int(part)] = _choice(answer) if isinstance(answer, Scored) else answer
                if len(got) == len(item.requests):
                    on_answer(item, _item_answer(parts.pop(int(number))))
                    finished += 1
            self._facts = _facts(engine) | self._planned
        assert finished == len(items) and not parts, (finished, len(items), list(parts)[:3])

    def _open(self) -> "Engine":
        if self._engine is None:
            from evalcard_engine.engine import Engine

            with self._progress.step(f"Loading {self._model.label}", unit="tensors") as bar:
                done = 0

                def on_progress(now: int, total: int) -> None:
                    nonlocal done
                    bar.advance(now - done)
                    done = now

                self._engine = Engine.open(
                    self._model.location, self._config(), revision=self._model.revision, on_progress=on_progress
                )
            self._planned = dict.fromkeys(PLANNED, 0)  # the engine counts from here on, too
            self._check_same(self._engine)
            self._say_form(self._engine)
        return self._engine

    def _note_plan(self, plan: "Plan") -> None:
        """Add to the facts what the answers will cost, and say it where they are the first."""
        is_first = not any(self._planned.values())
        tokens = (plan.prompt_tokens, plan.tokens_to_compute, plan.max_new_tokens)
        for name, value in zip(PLANNED[:3], tokens, strict=True):
            self._planned[name] += value
        self._planned["planned_pages"] = max(self._planned["planned_pages"], plan.pages)
        if is_first:
            self._progress.say(f"{self._model.label}: {_plan_words(plan)}")

    def _say_halved(self, stats: "Stats") -> None:
        if stats.memory_halvings and not self._has_said_halved:
            self._has_said_halved = True
            self._progress.say(
                f"{self._model.label}: memory ran out in a step; it goes on with {stats.forward_tokens} tokens a step. "
                "No answer is lost or changed. --kv-memory leaves more room for the rest."
            )

    def _say_form(self, engine: "Engine") -> None:
        info = engine.info
        if info.not_compiled:
            self._progress.say(
                f"{self._model.label}: torch computes what compiled code would in about half of the time "
                f"({info.not_compiled}). Install a C compiler, such as gcc."
            )
        if info.linear_form:
            size = f"{info.linear_bytes / 2**20:.0f} MiB in memory"
            self._progress.say(f"{self._model.label}: compressed linears {info.linear_form}, {size}")

    def _check_same(self, engine: "Engine") -> None:
        """What was opened is what the keys name; a folder may change between planning and loading."""
        stated = self.identity()
        assert engine.numerics == stated.numerics, ("numerics changed", stated.numerics, engine.numerics)
        if engine.weights != stated.weights_digest:
            self.close()
            raise UserError(
                f"the weights of {self._model.label} changed after this run was planned. Nothing of them was "
                "evaluated; give the same command again once the folder is settled."
            )

    def _config(self) -> Any:
        from evalcard_engine.config import EngineConfig

        spec = self._spec
        return EngineConfig(
            dtype=self._resolved()[1],
            device=spec.device,
            scheme=parse_scheme(self._model.scheme) if self._model.scheme else None,
            weights=spec.weights,
            kv_memory=spec.kv_memory,
            step_tokens=spec.step_tokens,
            threads=spec.threads,
            **self._options,
        )

    def facts(self) -> dict[str, float | int | str | None]:
        """Sizes of the model and counts of the engine, after an ``answer``; empty before."""
        return dict(self._facts)

    def close(self) -> None:
        """Free weights and KV cache; a later ``answer`` would load them again."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def _options(arguments: dict[str, str]) -> dict[str, Any]:
    unknown = sorted(set(arguments) - set(_ARGUMENTS))
    if unknown:
        raise UserError(
            f"the evalcard backend knows no model argument {', '.join(unknown)}; it knows {', '.join(_ARGUMENTS)}. "
            "dtype, device, KV memory and threads have flags of their own."
        )
    try:
        return {name: _ARGUMENTS[name](text) for name, text in arguments.items() if name != "tokenizer"}
    except ValueError as error:
        raise UserError(f"a model argument is no whole number: {error}.") from None


def _requests(number: int, item: Item) -> Iterator[Request]:
    """The engine's requests for an item, named ``<number>.<part>``."""
    for part, request in enumerate(item.requests):
        name = f"{number}.{part}"
        if isinstance(request, ScoreRequest):
            yield Score(name, request.context_ids, request.continuation_ids)
        elif isinstance(request, GenerateRequest):
            decoding = request.decoding
            stops = frozenset(request.stop_ids)
            sampling = None if decoding.is_greedy else _sampling(item, request)
            yield Generate(name, request.prompt_ids, decoding.max_tokens, stops, decoding.until, sampling)


def _sampling(item: Item, request: GenerateRequest) -> Sampling:
    """Noise is addressed by the item's hash, so two models draw the same for the same item."""
    decoding = request.decoding
    assert decoding.temperature is not None, decoding
    return Sampling(
        temperature=decoding.temperature,
        seed=decoding.seed,
        item_key=int(item.item_hash[:16], 16),
        repeat=item.repeat,
        top_p=decoding.top_p,
        top_k=decoding.top_k,
        min_p=decoding.min_p,
    )


def _choice(answer: Scored) -> ChoiceAnswer:
    logprob = None if answer.finish == "error" else float(sum(answer.logprobs))
    return ChoiceAnswer(logprob, len(answer.logprobs), answer.is_greedy, answer.fault)


def _item_answer(parts: dict[int, ChoiceAnswer | Completion]) -> ItemAnswer:
    ordered = [parts[part] for part in sorted(parts)]
    first = ordered[0]
    if isinstance(first, Completion):
        assert len(ordered) == 1, ordered
        return ItemAnswer(
            first.finish, first.text, first.token_ids, output_tokens=len(first.token_ids), fault=first.fault
        )
    choices = tuple(one for one in ordered if isinstance(one, ChoiceAnswer))
    fault = next((one.fault for one in choices if one.fault is not None), None)
    failed = any(one.logprob is None for one in choices)
    return ItemAnswer("error" if failed else "stop", choices=choices, fault=fault)


def _plan_words(plan: "Plan") -> str:
    share = f" ({plan.tokens_to_compute / plan.prompt_tokens:.1%})"
    new = f", up to {plan.max_new_tokens:,} new ones" if plan.max_new_tokens else ""
    return (
        f"{plan.prompt_tokens:,} prompt tokens asked, {plan.tokens_to_compute:,} to compute{share}{new}; "
        f"{plan.pages:,} pages of KV cache, {plan.kv_bytes / 2**20:,.0f} MiB"
    )


def _facts(engine: "Engine") -> dict[str, float | int | str | None]:
    info, stats = engine.info, engine.stats
    sizes = ("bits_per_weight", "weight_bytes", "num_parameters", "dtype", "device")
    counts = {name: getattr(stats, name) for name in stats.__slots__}
    return {name: getattr(info, name) for name in sizes} | counts
