"""Compressed schemes on this CPU beside the float32 baseline: bytes in memory, prefill, decode, and linears alone.

    python engine/benchmarks/schemes.py MODEL [--schemes w8a8,w4a16] [--weights packed,expanded] [--csv FILE]

MODEL is a folder with an uncompressed checkpoint. The baseline stays open beside one compressed model at a time, and
the two take turns, so that a busy moment of the machine meets both. A ratio is the median over rounds of baseline
seconds by compressed seconds of the same round: above 1 the scheme is faster. The last column is the load average
before; where other work took part in it, the figures are not worth keeping.
"""

import argparse
import ctypes
import gc
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from schemes_table import MEASURES, Row, append_rows, check_table, header, line  # beside this file

from evalcard_engine.arithmetic.cpu_plans import cpu_features, cpu_plan
from evalcard_engine.building import decoder_layers
from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.models import PreparedModel, open_model
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.request import Generate, Request, Score

INT8_PRODUCTS = "packed (int8 products)"


@dataclass(frozen=True)
class Work:
    """What is timed."""

    prompt_tokens: tuple[int, ...] = (512, 1024)
    one_tokens: int = 16
    """New tokens of one sequence."""
    many_tokens: int = 6
    """New tokens of each of 32 sequences."""
    linear_rows: int = 1024
    rounds: int = 3


class Opened:
    """A model and its engine, with the work that is timed on it."""

    def __init__(self, folder: Path, scheme: str | None, weights: str, work: Work) -> None:
        before = _own_memory()
        parsed = parse_scheme(scheme) if scheme else None
        self.model = open_model(str(folder), dtype="float32", device="cpu", scheme=parsed, weights=weights)
        self.memory_bytes = _own_memory() - before
        config = EngineConfig(device="cpu", dtype="float32", kv_memory=2 << 30, prefix_cache=False)
        self.engine = Engine(self.model, config.resolve("cpu", cpu_plan().step_tokens))
        requests = dict(_requests(work, self.model.info.vocab_size))
        self.tasks: dict[str, Callable[[], None]] = {
            name: lambda requests=asked: self._answer(requests) for name, asked in requests.items()
        }
        self.tasks["linears"] = linears_once(self.model, work.linear_rows)
        self.tokens = {name: sum(map(_computed, asked)) for name, asked in requests.items()}
        self.tokens["linears"] = work.linear_rows

    def _answer(self, requests: list[Request]) -> None:
        answers = list(self.engine.run(requests))
        assert len(answers) == len(requests) and not any(answer.finish == "error" for answer in answers)

    def close(self) -> None:
        self.engine.close()
        del self.engine, self.model, self.tasks
        _own_memory()


def _requests(work: Work, vocab: int) -> Iterator[tuple[str, list[Request]]]:
    """Random tokens; a decoding sequence begins with one, so that every step but its first is a decode step."""
    generator = torch.Generator().manual_seed(0)

    def draw(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(0, vocab, (count,), generator=generator).tolist())

    yield "prefill", [Score(f"p{number}", draw(count), draw(1)) for number, count in enumerate(work.prompt_tokens)]
    yield "decode_1", [Generate("one", draw(1), work.one_tokens)]
    yield "decode_32", [Generate(f"d{number}", draw(1), work.many_tokens) for number in range(32)]


def _computed(request: Request) -> int:
    return len(request.context) if isinstance(request, Score) else request.max_tokens


def linears_once(model: PreparedModel, rows: int) -> Callable[[], None]:
    """Every linear of every layer once, as a forward pass runs them: inputs are shared, and an MLP goes through its own
    forward, in blocks where it does so, with nothing done between its linears."""
    layers = decoder_layers(model._module)
    generator = torch.Generator().manual_seed(0)
    attention = layers[0].self_attn
    hidden, heads = (
        torch.randn(rows, width, generator=generator)
        for width in (attention.config.hidden_size, _width_of_heads(attention))
    )

    @torch.inference_mode()
    def run() -> None:
        for layer in layers:
            for name in ("q_proj", "k_proj", "v_proj"):
                getattr(layer.self_attn, name)(hidden)
            layer.self_attn.o_proj(heads)
            vars(layer.mlp.act_fn).update(gate=lambda gate, up, spare: up, forward=lambda gate: gate)
            layer.mlp(hidden)
            for name in ("gate", "forward"):
                del vars(layer.mlp.act_fn)[name]

    return run


def _width_of_heads(attention: torch.nn.Module) -> int:
    return attention.config.num_attention_heads * attention.head_dim


def measure(folder: Path, scheme: str, weights: str, baseline: Opened, work: Work) -> Row:
    """A compressed model against the baseline, in rounds that take turns."""
    load = os.getloadavg()[0]
    opened = Opened(folder, scheme, weights, work)
    info = opened.model.info
    bf16 = baseline.model.info.linear_bytes // 2
    row = Row(scheme, info.linear_form, info.linear_bytes, bf16, opened.memory_bytes, opened.tokens, round(load, 2))
    for task in opened.tasks.values():
        task()
    for number in range(work.rounds):
        for name in MEASURES:
            order = [(baseline, row.baseline), (opened, row.seconds)]
            for which, seconds in order if number % 2 == 0 else reversed(order):
                seconds[name].append(_timed(which.tasks[name]))
    opened.close()
    return row


def run(folder: Path, schemes: list[str], forms: list[str], work: Work, say: Callable[[str], None]) -> list[Row]:
    """All schemes in all forms, but int8 products once: they run on codes whatever is asked."""
    baseline = Opened(folder, None, "auto", work)
    for task in baseline.tasks.values():
        task()
    say(header(baseline.model.info.linear_bytes, baseline.memory_bytes))
    rows: list[Row] = []
    for scheme in schemes:
        for form in forms:
            if any(row.scheme == scheme and row.form == INT8_PRODUCTS for row in rows):
                continue
            rows.append(measure(folder, scheme, form, baseline, work))
            say(line(rows[-1]))
    baseline.close()
    return rows


def _timed(task: Callable[[], None]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def _own_memory() -> int:
    """Bytes of this process that no file backs, after the allocator gave back what is free; 0 where /proc is not."""
    gc.collect()
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    ctypes.CDLL(None).malloc_trim(0)
    fields = dict(entry.split(":", 1) for entry in status.read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--schemes", default="w8a8,w4a16,w8a16,fp8,nf4")
    parser.add_argument("--weights", default="packed,expanded", help="forms to measure")
    parser.add_argument("--prompt-tokens", default="512,1024")
    parser.add_argument("--linear-rows", type=int, default=Work.linear_rows)
    parser.add_argument("--rounds", type=int, default=Work.rounds)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    return parser.parse_args()


def main() -> None:
    args = parse()
    if args.csv:
        check_table(args.csv)
    torch.set_num_threads(args.threads)
    prompts = tuple(int(count) for count in args.prompt_tokens.split(","))
    work = Work(prompt_tokens=prompts, linear_rows=args.linear_rows, rounds=args.rounds)
    print(f"load average {os.getloadavg()[0]:.2f}, {args.threads} threads, {cpu_features()}", flush=True)
    rows = run(args.model, args.schemes.split(","), args.weights.split(","), work, lambda text: print(text, flush=True))
    if args.csv:
        append_rows(args.csv, args.model.name, args.threads, work.rounds, rows)


if __name__ == "__main__":
    main()
