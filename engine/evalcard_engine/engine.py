"""The facade: open a model, run requests, take answers as they finish, close."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import torch

from evalcard_engine import memory, rows, sampler
from evalcard_engine.answers import GenerateSequence, ScoreSequence
from evalcard_engine.arithmetic.cpu_plans import cpu_plan
from evalcard_engine.config import EngineConfig
from evalcard_engine.errors import EngineError, OutOfMemory
from evalcard_engine.faults import FaultFinder
from evalcard_engine.intake import check_requests, sequences_of
from evalcard_engine.plan import Plan, input_len, tokens_to_compute, working_pages
from evalcard_engine.readout import Readout
from evalcard_engine.request import Answer, Generate, Request
from evalcard_engine.run_cache import RunCache
from evalcard_engine.runner import Model, PlanningModel
from evalcard_engine.stats import Stats
from evalcard_engine.step import Limits, Step
from evalcard_engine.step_memory import StepMemory, is_out_of_memory, pieces, without_copies
from evalcard_engine.stopping import Detokenize

_CUDA_STEP_TOKENS = 8192
_DRAFT_ROWS = 32
"""Where few answers are left a step is bound by reading weights, and rows of drafts cost little; in a full one a right
draft saves no more than its row costs, and a wrong one is lost. The best of 16, 24 and 32 on one CPU: 64 answers to
gsm8k_cot take 8 % less than with 64 drafts in any step."""


def numerics_name(model_numerics: str) -> str:
    """The engine's numerics string, given the model's: everything here that could change an answer's last digit."""
    return f"{model_numerics}; {rows.NUMERICS}; {sampler.NUMERICS}"


class Engine:
    """Answers lists of requests with one model. Not for several threads; several engines may share a process."""

    def __init__(self, model: Model, config: EngineConfig) -> None:
        """``config`` is resolved. Most callers want ``Engine.open``."""
        assert config.step_tokens and config.max_sequences and config.device != "auto", config
        self.config = config
        self._model: Model | None = model
        self._info = model.info
        self._numerics = numerics_name(model.numerics)
        self._limits = Limits(
            page_size=config.page_size,
            step_tokens=config.step_tokens,
            step_logits=config.step_logits(model.info.vocab_size),
            max_sequences=config.max_sequences,
            draft_rows=_DRAFT_ROWS if config.drafts and _may_draft(model) else 0,
        )
        if config.device == "cpu":
            memory.keep_freed_memory()
        self._page_bytes = model.page_bytes(config.page_size)
        self._budget_bytes = config.kv_memory or memory.kv_budget(config.device)
        self._memory = StepMemory(config.step_tokens, config.device)
        self._cache: RunCache | None = None
        self._stats = Stats(forward_tokens=config.step_tokens)
        self._is_running = False

    @classmethod
    def open(
        cls,
        model: str,
        config: EngineConfig = EngineConfig(),  # noqa: B008 - frozen
        *,
        revision: str | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> "Engine":
        """Load a checkpoint folder or Hub id; ``on_progress(done, total)`` follows its tensors.

        Raises EngineError and its kinds. ``config.threads`` sets torch's thread count for the whole process.
        """
        from evalcard_engine.models import open_model  # transformers takes seconds to import

        device = _device(config.device)
        config = config.resolve(device, cpu_plan().step_tokens if device == "cpu" else _CUDA_STEP_TOKENS)
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        prepared = open_model(
            model,
            dtype=config.dtype,
            device=device,
            scheme=config.scheme,
            revision=revision,
            on_progress=on_progress,
            weights=config.weights,
        )
        return cls(prepared, config)

    @property
    def info(self) -> Any:
        """What the model is (models.ModelInfo)."""
        return self._info

    @property
    def weights(self) -> str:
        """The weights that were read, named as `models.identify` names them: compare the two before answering."""
        weights: str = self._info.weights
        return weights

    @property
    def numerics(self) -> str:
        """Equal strings promise equal answers to equal requests."""
        return self._numerics

    @property
    def stats(self) -> Stats:
        return self._stats

    def plan(self, requests: Iterable[Request]) -> Plan:
        """What ``requests`` would cost; computes nothing. Raises what ``run`` would raise for them."""
        requests = tuple(requests)
        sequences = self._sequences(requests, detokenize=None, has_detokenizer=True)
        pages = self._num_pages(sequences)
        return Plan(
            requests=len(requests),
            computations=len(sequences),
            prompt_tokens=sum(map(input_len, requests)),
            tokens_to_compute=tokens_to_compute(sequences, self.config.prefix_cache),
            max_new_tokens=sum(request.max_tokens for request in requests if isinstance(request, Generate)),
            pages=pages,
            kv_bytes=pages * self._page_bytes,
        )

    def run(self, requests: Iterable[Request], *, detokenize: Detokenize | None = None) -> Iterator[Answer]:
        """Answers in the order in which they finish, each request's exactly once.

        All requests are checked before this returns; work begins with the first ``next``. ``detokenize`` turns
        token ids into text and is needed for stop strings. Closing the iterator abandons what is unfinished.
        Raises EngineError for a request that cannot be answered as asked, OutOfMemory for one that cannot fit.
        """
        requests = tuple(requests)
        sequences = self._sequences(requests, detokenize, has_detokenizer=detokenize is not None)
        return self._stream(requests, sequences)

    def close(self) -> None:
        """Free the weights and the KV cache; the engine answers no more. Closing twice is fine."""
        self._model = None
        self._cache = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _sequences(
        self, requests: tuple[Request, ...], detokenize: Detokenize | None, has_detokenizer: bool
    ) -> list[GenerateSequence | ScoreSequence]:
        """Requests checked and merged; nothing has happened yet if this raises."""
        self._open_model()
        check_requests(
            requests,
            vocab_size=self._info.vocab_size,
            max_positions=self._info.max_positions,
            has_detokenizer=has_detokenizer,
        )
        sequences = sequences_of(requests, detokenize, self._info.short_positions)
        for sequence in sequences:
            needed = self._limits.pages_for(sequence.max_len)
            if needed > self._budget_pages:
                raise OutOfMemory(self._memory_message(sequence, needed))
        return sequences

    def _memory_message(self, sequence: GenerateSequence | ScoreSequence, needed: int) -> str:
        request = sequence.request if isinstance(sequence, GenerateSequence) else sequence.requests[0]
        return (
            f"request {request.id!r} needs {sequence.max_len} tokens of KV cache, {needed * self._page_bytes:,} bytes; "
            f"the whole budget is {self._budget_bytes:,} bytes, {self._budget_pages * self._limits.page_size} tokens. "
            f"Raise kv_memory, shorten the prompt or ask for fewer new tokens."
        )

    def _pool_message(self, needed: int) -> str:
        return (
            f"a KV cache of {needed * self._page_bytes:,} bytes cannot be had, "
            f"{memory.free_memory(self.config.device):,} bytes are free. Give it less (kv_memory); sequences then wait."
        )

    @property
    def _budget_pages(self) -> int:
        return self._budget_bytes // self._page_bytes

    def _num_pages(self, sequences: list[GenerateSequence | ScoreSequence]) -> int:
        """Pages of the pool these sequences get: no more than they can use, no more than the budget."""
        return min(self._budget_pages, working_pages(sequences, self._limits))

    def _open_model(self) -> Model:
        if self._model is None:
            raise EngineError("this engine is closed; open another one with Engine.open.")
        return self._model

    def _stream(
        self, requests: tuple[Request, ...], sequences: list[GenerateSequence | ScoreSequence]
    ) -> Iterator[Answer]:
        if not sequences:
            return
        if self._is_running:
            raise EngineError("another run of this engine is under way; exhaust or close its iterator first.")
        cache = self._cache_for(sequences)
        self._is_running = True
        try:
            self._stats = self._stats.after_input(requests, sequences)
            cache.scheduler.add(sequences)
            faults = FaultFinder(self._open_model(), self._limits, self.config.device)
            while cache.scheduler.has_work:
                yield from self._step(cache, faults)
        finally:
            cache.scheduler.abort()
            self._is_running = False

    def _cache_for(self, sequences: list[GenerateSequence | ScoreSequence]) -> RunCache:
        """The present pool if it is large enough; it keeps the prefixes of earlier runs."""
        needed = self._num_pages(sequences)
        model = self._open_model()
        if self._cache is None or self._cache.num_pages < needed:
            self._cache = None  # free the old pool before the new one is made
            try:
                self._cache = RunCache(model, self.config, self._limits, needed)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                raise OutOfMemory(self._pool_message(needed)) from error
            self._stats = replace(self._stats, kv_bytes=needed * self._page_bytes)
        return self._cache

    def _step(self, cache: RunCache, faults: FaultFinder) -> Iterator[Answer]:
        """One step of the scheduler and the answers it completes: one forward pass, or as many as memory asks for."""
        self._open_model()
        waiting = deque(pieces(cache.scheduler.next_step(), self._memory.tokens))
        while waiting:
            piece = waiting.popleft()
            going = self._forward(cache, piece, is_whole=not waiting)
            if going is not None:
                yield from self._answers(cache, faults, piece, going)
                continue
            again = (without_copies(piece), *waiting)
            waiting = deque(smaller for one in again for smaller in pieces(one, self._memory.tokens))

    def _forward(self, cache: RunCache, piece: Step, is_whole: bool) -> Readout | None:
        """Compute a piece of a step; None where memory ended, which has then halved what a forward takes."""
        try:
            going = Readout(*cache.runner.run(piece))
            if is_whole:
                # The device has its work now; what the host can do meanwhile comes before the wait.
                cache.runner.prepare_ahead(piece)
            cache.scheduler.complete(piece)
            going.collect()
            return going
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            self._memory.halve(piece, error, self._stats.kv_bytes)
            self._stats = self._stats.with_memory(self._memory.halvings, self._memory.tokens)
            return None

    def _answers(self, cache: RunCache, faults: FaultFinder, piece: Step, going: Readout) -> list[Answer]:
        answers: list[Answer] = []
        for ended in going.finish():
            answers.extend(faults.explain(ended))
            cache.scheduler.finish(ended.sequence)
        self._stats = self._stats.after_step(piece, answers, cache.allocator.peak_used, going.drafted, going.accepted)
        if (graphs := cache.graphs) is not None:
            self._stats = self._stats.with_graphs(graphs.steps, graphs.num_graphs, graphs.num_bytes, graphs.fault)
        return answers


def _may_draft(model: Model) -> bool:
    """Not where rows know their company, as an answer would depend on its drafts, nor where steps are replayed, which
    have one token for each answer."""
    is_replayable = isinstance(model, PlanningModel) and model.is_replayable
    return "rows exact" in model.numerics and not is_replayable


def _device(asked: str) -> str:
    """ "auto" resolved."""
    return ("cuda" if torch.cuda.is_available() else "cpu") if asked == "auto" else asked
