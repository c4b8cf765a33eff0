"""A model folder by kernels in several schemes: its logits beside the CPU's float32 ones, and tokens a second."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from gpu_bench import Bench

from evalcard_engine.batch import Batch, Span
from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.models import PreparedModel, open_model
from evalcard_engine.quant.kernel_linear import KernelLinear
from evalcard_engine.quant.scheme import Scheme, parse_scheme
from evalcard_engine.request import Generate, Score

SCHEMES = "plain,w4a16,w8a8,fp8,nf4"
EXACT_ALLOWED = 1e-4
"""Of the logits' standard deviation: float32 sums in another order, through all layers."""
ROUNDED_ALLOWED = 0.15
"""Likewise where inputs are rounded: a last bit decides now and then which way, and every layer carries that on. At
least this, and three times what a change of 1e-7 in the embedding does to the CPU's own logits (0.09 of a model of 30
layers in w8a8)."""
HALF_AGREEMENT = 0.75
"""Least share of positions at which bfloat16 on the GPU names the CPU's most likely token, of random prompts."""
PAGE_SIZE = 16


@dataclass
class Row:
    """One scheme. Errors are root mean squares of logits, over their standard deviation."""

    scheme: str
    linears: str
    """How quantized linears are held."""
    linear_bytes: int
    error: float
    """float32 by kernels against float32 on the CPU."""
    allowed: float
    half_agreement: float
    """Share of positions whose most likely token is the same in bfloat16 as in float32 on the CPU."""
    prefill_tokens_s: float
    decode_tokens_s: float

    @property
    def faults(self) -> list[str]:
        found = []
        if not self.error <= self.allowed:
            found.append(f"{self.scheme}: logits are off by {self.error:.1e}, allowed are {self.allowed:.1e}")
        if not self.half_agreement >= HALF_AGREEMENT:
            found.append(f"{self.scheme}: bfloat16 agrees at {self.half_agreement:.0%} of positions")
        return found


def models(bench: Bench, deadline: float, folder: Path | None, schemes: str | None) -> tuple[list[Row], list[str]]:
    """Every scheme until the clock stops; the faults come in words."""
    rows = list[Row]()
    with _model_folder(folder) as path:
        if schemes is None:
            is_compressed = '"quantization_config"' in (path / "config.json").read_text()
            schemes = "plain" if is_compressed else SCHEMES.replace("w4a16", "w4a16-g32") if folder is None else SCHEMES
        print(f"{'scheme':12} {'MiB':>7} {'error':>8} {'allowed':>8} {'bf16 agrees':>11} {'prefill tok/s':>13} "
              f"{'decode tok/s':>12}  linears")  # fmt: skip
        for name in schemes.split(","):
            row = _row(bench, path, name, *_expected(bench, path, name))
            rows.append(row)
            print(f"{name:12} {row.linear_bytes / 2**20:7.1f} {row.error:8.1e} {row.allowed:8.1e} "
                  f"{row.half_agreement:11.0%} {row.prefill_tokens_s:13.0f} {row.decode_tokens_s:12.0f}  {row.linears}"
                  f"{'  WRONG' if row.faults else ''}", flush=True)  # fmt: skip
            if time.monotonic() > deadline:
                print(f"stopped by --seconds after {name}; what follows was not run")
                break
    return rows, [fault for row in rows for fault in row.faults]


@contextmanager
def _model_folder(folder: Path | None) -> Iterator[Path]:
    """The folder asked for, or that of a tiny random llama."""
    if folder is not None:
        yield folder
        return
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=61, hidden_size=64, intermediate_size=96, num_hidden_layers=1,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                         initializer_range=0.2)  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        LlamaForCausalLM(config).save_pretrained(name)
        yield Path(name)


def _row(bench: Bench, path: Path, name: str, expected: torch.Tensor, spread: float) -> Row:
    full = _by_kernels(bench, path, name, "float32")
    found = _logits(full, bench)
    acts = (part.weight.activations for part in full._module.modules() if isinstance(part, KernelLinear))
    allowed = EXACT_ALLOWED
    if any(how is not None for how in acts):
        allowed = max(ROUNDED_ALLOWED, 3 * spread)
    del full
    half = _by_kernels(bench, path, name, "bfloat16")
    agreement = float((_logits(half, bench).argmax(-1) == expected.argmax(-1)).float().mean())
    prefill, decode = _speeds(bench, half)
    info = half.info
    return Row(name, info.linear_form or "plain", info.linear_bytes, _error(found, expected), allowed, agreement,
               prefill, decode)  # fmt: skip


def _scheme(name: str) -> Scheme | None:
    return None if name == "plain" else parse_scheme(name)


def _by_kernels(bench: Bench, path: Path, name: str, dtype: str) -> PreparedModel:
    kernels = True if bench.is_rehearsal else None
    return open_model(str(path), dtype=dtype, device=bench.device, scheme=_scheme(name), kernels=kernels)


def _expected(bench: Bench, path: Path, name: str) -> tuple[torch.Tensor, float]:
    """The CPU's logits, and how far they go from themselves when the embedding changes by its last bits."""
    model = open_model(str(path), dtype="float32", device="cpu", scheme=_scheme(name), kernels=False)
    expected = _logits(model, bench)
    embedding = model._module.get_submodule("model.embed_tokens").get_parameter("weight").data
    embedding.mul_(1 + 1e-7 * torch.randn(embedding.shape, generator=torch.Generator().manual_seed(0)))
    return expected, _error(_logits(model, bench), expected)


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).square().mean().sqrt() / expected.std())


def _tokens(model: PreparedModel, length: int, seed: int) -> torch.Tensor:
    return torch.randint(3, model.info.vocab_size, (length,), generator=torch.Generator().manual_seed(seed))


def _logits(model: PreparedModel, bench: Bench) -> torch.Tensor:
    """Of prompts of odd lengths, packed into one step: float32 [tokens, vocab] on the CPU."""
    lengths = (5, 1, 3) if bench.is_rehearsal else (7, 1, 131, 64)
    prompts = [_tokens(model, length, length) for length in lengths]
    spans, places, slots, page = [], [], [], 0
    for prompt in prompts:
        count = -(-len(prompt) // PAGE_SIZE)
        spans.append(Span(sum(map(len, places)), len(prompt), 0, tuple(range(page, page + count))))
        places.append(torch.arange(len(prompt)))
        slots.append(places[-1] + page * PAGE_SIZE)
        page += count
    packed = [torch.cat(parts).to(model.info.device) for parts in (prompts, places, slots)]
    rows = torch.arange(len(packed[0]), device=model.info.device)
    batch = Batch(*packed, rows, tuple(spans), PAGE_SIZE)
    return model.forward(batch, model.make_pool(page, PAGE_SIZE)).cpu()


def _speeds(bench: Bench, model: PreparedModel) -> tuple[float, float]:
    """Tokens a second of prompts, and of answers beside each other; both warmed up, on prompts never seen before."""
    prompts, prompt_len, answers, answer_len = (1, 5, 1, 2) if bench.is_rehearsal else (32, 1024, 64, 128)
    memory = 1 << 20 if bench.is_rehearsal else 8 << 30
    config = EngineConfig(device=bench.device, kv_memory=memory, page_size=PAGE_SIZE)
    with Engine(model, config.resolve(bench.device, 64 if bench.is_rehearsal else 8192)) as engine:
        rates = []
        for seed in (1,) if bench.is_rehearsal else (1, 2):
            ids = [tuple(_tokens(model, prompt_len, 1000 * seed + number).tolist()) for number in range(prompts)]
            scores = [Score(f"s{number}", tokens[:-1], tokens[-1:]) for number, tokens in enumerate(ids)]
            seconds = _seconds(engine, scores)
            ids = [tuple(_tokens(model, 32, 9000 * seed + number).tolist()) for number in range(answers)]
            asked = [Generate(f"g{number}", tokens, max_tokens=answer_len) for number, tokens in enumerate(ids)]
            rates.append((prompts * prompt_len / seconds, answers * answer_len / _seconds(engine, asked)))
    return rates[-1]


def _seconds(engine: Engine, requests: list[Score] | list[Generate]) -> float:
    start = time.perf_counter()
    answers = list(engine.run(requests))
    assert len(answers) == len(requests) and all(answer.finish != "error" for answer in answers), answers[:1]
    return time.perf_counter() - start
