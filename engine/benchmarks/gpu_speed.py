"""A model of Llama-3.1-8B's shape with random weights made on the device: tokens a second as shares of the roof, beside
transformers' ``generate`` and its continuous batching in the same run."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gpu_bench import Bench, Roof, measured_roof

from evalcard_engine.attention.hook import register
from evalcard_engine.building import empty_module, is_linear
from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.families import FAMILIES
from evalcard_engine.layer_modules import hook_modules, triton_functions
from evalcard_engine.loading import scheme_of
from evalcard_engine.models import ModelInfo, PreparedModel
from evalcard_engine.planning import ModelPlan
from evalcard_engine.quant.held import held_bytes
from evalcard_engine.quant.linear import plain_linear, quantized_linear
from evalcard_engine.quant.quantize import quantize
from evalcard_engine.quant.scheme import Scheme, parse_scheme
from evalcard_engine.request import Generate, Request, Score

SHAPE = {
    "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}  # fmt: skip
TINY = SHAPE | {
    "vocab_size": 61, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16,
}  # fmt: skip
SCHEMES = {"plain": "bf16", "fp8": "fp8", "w8a8": "int8", "w4a16": "bf16"}
"""And what their products multiply."""
SEQUENCES = (1, 16, 64, 256)
PROMPT_LEN = 128
ANSWER_LENS = (8, 72)
"""Two runs; the difference of their times is that of decoding alone."""
PREFILL = (16, 2048)
"""Prompts, and their length."""
PEER_SHARE = 0.4
"""Of the time there is, kept for the peers."""
GOALS = "goals: decode >= 75 % of the roof at 1 to 64, prefill >= 60 %; >= 5x generate, >= 1.5x continuous batching"


@dataclass
class Row:
    """One measurement."""

    engine: str
    scheme: str
    what: str
    """decode or prefill."""
    sequences: int
    tokens_s: float
    share: float | None
    """Of the roof: what the step's bytes or operations take at least, over what it took; None without a roof."""
    graph_steps: int
    note: str = ""


def speeds(
    bench: Bench, deadline: float, schemes: str | None, on_row: Callable[[Row], None]
) -> tuple[list[Row], list[str]]:
    """Every part until its share of the time is spent; a row goes to ``on_row`` as soon as it is measured."""
    start, rows = time.monotonic(), list[Row]()
    ours = start + (1 - PEER_SHARE) * (deadline - start)
    roof = measured_roof(bench)
    print(f"{'engine':20} {'scheme':8} {'what':8} {'sequences':>9} {'tokens/s':>10} {'of roof':>8} {'replayed':>8}")
    names = schemes.split(",") if schemes else list(SCHEMES)
    for number, scheme in enumerate(names):
        # What one scheme does not need is left to the next.
        stop = time.monotonic() + (ours - time.monotonic()) / (len(names) - number)
        rows += _told(_guarded("evalcard", scheme, lambda: _ours(bench, roof, scheme, stop)), on_row)  # noqa: B023
    for row in _told(_guarded("transformers", "plain", lambda: _peers(bench, roof, deadline)), on_row):
        rows.append(row)
    print(*ratios(rows), GOALS, sep="\n")
    return rows, [f"{row.engine} {row.scheme}: {row.note}" for row in rows if row.engine == "evalcard" and row.note]


def _told(rows: Iterator[Row], on_row: Callable[[Row], None]) -> Iterator[Row]:
    for row in rows:
        share = "" if row.share is None else f"{row.share:.0%}"
        print(f"{row.engine:20} {row.scheme:8} {row.what:8} {row.sequences:9d} {row.tokens_s:10.1f} {share:>8} "
              f"{row.graph_steps:8d}  {row.note}", flush=True)  # fmt: skip
        on_row(row)
        yield row


def _guarded(engine: str, scheme: str, rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """What fails is a row that says why, and the next part still has its turn."""
    try:
        yield from rows()
    except Exception as error:
        note = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        yield Row(engine, scheme, "failed", 0, 0.0, None, 0, note)


def ratios(rows: list[Row]) -> list[str]:
    """Plain decoding over each peer's at the same number of sequences."""
    rates = {(row.engine, row.sequences): row.tokens_s for row in rows if (row.scheme, row.what) == ("plain", "decode")}
    return [
        f"evalcard is {rates['evalcard', count] / rate:.2f} times as fast as {engine} at {count} sequences"
        for (engine, count), rate in rates.items()
        if engine != "evalcard" and ("evalcard", count) in rates
    ]


def _config(bench: Bench) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**(TINY if bench.is_rehearsal else SHAPE), pad_token_id=None)


def make_model(bench: Bench, name: str) -> PreparedModel:
    """The shape in one scheme, by kernels, in bfloat16; a linear at a time exists twice."""
    register()
    scheme = None if name == "plain" else parse_scheme("w4a16-g32" if bench.is_rehearsal and name == "w4a16" else name)
    config, dtype, family = _config(bench), torch.bfloat16, FAMILIES["llama"]
    module = empty_module(config, dtype, bench.device, None)
    for path, part in list(module.named_modules()):
        if is_linear(part):
            made = _linear(bench, path, part, scheme)
            parent, _, leaf = path.rpartition(".")
            setattr(module.get_submodule(parent), leaf, made)
        else:
            for leaf, parameter in part._parameters.items():
                if parameter is not None:
                    values = (
                        1 + 0.1 * bench.randn(*parameter.shape)
                        if parameter.dim() == 1
                        else bench.randn(*parameter.shape)
                    )
                    part._parameters[leaf] = torch.nn.Parameter(values.to(dtype), requires_grad=False)
    hook_modules(module, family, triton_functions())
    held = sum(held_bytes(part) for path, part in module.named_modules() if is_ours(part))
    info = ModelInfo(
        path=Path(), model_type="llama", vocab_size=config.vocab_size, max_positions=config.max_position_embeddings,
        short_positions=None, weights_digest="", weights="random", scheme=name, bits_per_weight=0.0, num_parameters=0,
        weight_bytes=held, dtype="bfloat16", device=bench.device, kv_cache="bfloat16", linear_form="packed",
        linear_bytes=held,
    )  # fmt: skip
    nothing: Any = None
    plan = ModelPlan(
        nothing, family, config, dtype, bench.device, scheme, "random", module, nothing, None, kv_dtype=dtype,
        kernels=True, is_compiled=False, not_compiled="", long_rope=None,
    )  # fmt: skip
    return PreparedModel(module, info, plan)


def is_ours(part: torch.nn.Module) -> bool:
    """Whether a module is one of the engine's linears."""
    return type(part).__module__.startswith("evalcard_engine.quant")


def _linear(bench: Bench, path: str, owner: Any, scheme: Scheme | None) -> torch.nn.Module:
    weight = bench.randn(owner.out_features, owner.in_features).mul_(owner.in_features**-0.5)
    applied = scheme_of(path, scheme)
    if applied is None:
        return plain_linear(weight, None)
    return quantized_linear(quantize(weight, applied, path), None, torch.bfloat16, kernels=True)


def _ours(bench: Bench, roof: Roof, scheme: str, stop: float) -> Iterator[Row]:
    """Answers, then prompts, until the clock stops."""
    model = make_model(bench, scheme)
    is_small = bench.is_rehearsal
    config = EngineConfig(
        device=bench.device, kv_memory=1 << 20 if is_small else None, page_size=16 if is_small else 256
    )
    with Engine(model, config.resolve(bench.device, 512 if is_small else 8192)) as engine:
        token_bytes = model.page_bytes(1)
        for count in (2,) if is_small else SEQUENCES:
            if time.monotonic() > stop:
                return
            before = engine.stats.graph_steps
            prompt_len, lens = (3, (1, 4)) if is_small else (PROMPT_LEN, ANSWER_LENS)
            step = _decode_seconds(lambda length: _answers(bench, engine, count, prompt_len, length), lens)  # noqa: B023
            num_bytes = model.info.linear_bytes + count * (prompt_len + sum(lens) / 2) * token_bytes
            best = roof.seconds(SCHEMES[scheme], 2 * count * _linear_weights(bench), num_bytes)
            replayed = engine.stats.graph_steps - before
            note = engine.stats.graph_fault or ""
            yield Row("evalcard", scheme, "decode", count, count / step, best and best / step, replayed, note)
        count, length = (1, 5) if is_small else PREFILL
        if time.monotonic() > stop:
            return
        seconds = [_prompts(bench, engine, count, length) for _ in range(2)][-1]
        operations = 2 * count * length * _linear_weights(bench)
        best = roof.seconds(SCHEMES[scheme], operations, model.info.linear_bytes)
        yield Row("evalcard", scheme, "prefill", count, count * length / seconds, best and best / seconds, 0)


def _linear_weights(bench: Bench) -> int:
    """Numbers that a token is multiplied with in the decoder's linears; the head's come to 7 % more of bytes alone."""
    config = _config(bench)
    attention = config.hidden_size * config.head_dim * 2 * (config.num_attention_heads + config.num_key_value_heads)
    mlp = 3 * config.hidden_size * config.intermediate_size
    return int(config.num_hidden_layers * (attention + mlp))


def _decode_seconds(run: Callable[[int], float], lens: tuple[int, int]) -> float:
    """Seconds a step: of longer answers less those of shorter ones, once both were run to warm up."""
    run(lens[1])
    short, long = run(lens[0]), run(lens[1])
    # Where prompts drown the difference, as in a rehearsal, the whole is what can be said.
    return (long - short) / (lens[1] - lens[0]) if long > short else long / lens[1]


def _ids(bench: Bench, length: int) -> tuple[int, ...]:
    vocab = TINY["vocab_size"] if bench.is_rehearsal else SHAPE["vocab_size"]
    return tuple(bench.integers(3, int(vocab), length).tolist())


def _answers(bench: Bench, engine: Engine, count: int, prompt_len: int, length: int) -> float:
    return _seconds(engine, [Generate(f"{n}", _ids(bench, prompt_len), max_tokens=length) for n in range(count)])


def _prompts(bench: Bench, engine: Engine, count: int, length: int) -> float:
    return _seconds(engine, [Score(f"{n}", _ids(bench, length), (5,)) for n in range(count)])


def _seconds(engine: Engine, requests: list[Any]) -> float:
    asked: list[Request] = requests
    start = time.perf_counter()
    answers = list(engine.run(asked))
    assert len(answers) == len(asked) and all(answer.finish != "error" for answer in answers), answers[:1]
    return time.perf_counter() - start


def _peers(bench: Bench, roof: Roof, deadline: float) -> Iterator[Row]:
    """transformers' model of the same shape in bfloat16: ``generate`` of a batch, and continuous batching."""
    from transformers import LlamaForCausalLM

    with torch.device(bench.device):
        torch.set_default_dtype(torch.bfloat16)
        try:
            model = LlamaForCausalLM(_config(bench)).eval()
        finally:
            torch.set_default_dtype(torch.float32)
    for name, run in (("generate", _generate), ("continuous batching", _batched)):
        for count in (2,) if bench.is_rehearsal else SEQUENCES[::-1]:
            if time.monotonic() > deadline:
                return
            prompt_len, lens = (3, (1, 4)) if bench.is_rehearsal else (PROMPT_LEN, ANSWER_LENS)
            ids = [list(_ids(bench, prompt_len)) for _ in range(count)]
            try:
                step = _decode_seconds(lambda length: run(model, ids, length), lens)  # noqa: B023
            except Exception as error:
                yield Row(name, "plain", "failed", count, 0.0, None, 0, f"{type(error).__name__}: {str(error)[:200]}")
                break
            yield Row(name, "plain", "decode", count, count / step, None, 0)


def _generate(model: Any, ids: list[list[int]], length: int) -> float:
    given = torch.tensor(ids, device=model.device)
    start = time.perf_counter()
    with torch.inference_mode():
        made = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=length,
                              min_new_tokens=length, do_sample=False, eos_token_id=None)  # fmt: skip
    assert made.shape == (len(ids), len(ids[0]) + length), made.shape
    made.cpu()
    return time.perf_counter() - start


def _batched(model: Any, ids: list[list[int]], length: int) -> float:
    from transformers import GenerationConfig

    how = GenerationConfig(max_new_tokens=length, do_sample=False, eos_token_id=-1, pad_token_id=0)
    more = {}
    if model.device.type == "cpu":
        # Left alone it takes a share of all memory for the cache.
        from transformers import ContinuousBatchingConfig

        more = {"continuous_batching_config": ContinuousBatchingConfig(num_blocks=16, max_batch_tokens=64)}
    start = time.perf_counter()
    results = model.generate_batch(ids, generation_config=how, **more)
    counts = [len(result.generated_tokens) for result in results.values()]
    assert counts == [length] * len(ids), counts
    return time.perf_counter() - start
