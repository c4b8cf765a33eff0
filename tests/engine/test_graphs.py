"""Steps of answers replayed on fixed buffers are the steps launched kernel by kernel, bit for bit.

kernels/test_interpreter.py runs this file, in a process where Triton interprets. What captures is a stand-in for CUDA:
it runs the captured work again, on the tensors that it had, and fails where these have moved.
"""

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("run by kernels/test_interpreter.py, in a process of its own", allow_module_level=True)

from evalcard_engine import engine as engine_module
from evalcard_engine import graphs, kernels, run_cache
from evalcard_engine.arithmetic import exact_linear
from evalcard_engine.attention import triton
from evalcard_engine.attention.paged_plan import host_plan
from evalcard_engine.batch import Batch, Span
from evalcard_engine.cache.pool import KVPool, KVShape
from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.graph_rooms import pad_plan, room_for
from evalcard_engine.kernels import launch as launching
from evalcard_engine.kernels.launch import Tile
from evalcard_engine.models import PreparedModel, open_model
from evalcard_engine.quant.kernel_linear import KernelLinear
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.request import Generate, Sampling, Score

VOCAB = 61
COMMON = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 1024, "initializer_range": 0.2,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
}  # fmt: skip
WINDOWED = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 3}
FAMILIES = {
    "llama": {},
    "qwen2": WINDOWED | {"use_sliding_window": True},
    "gemma2": WINDOWED | {"query_pre_attn_scalar": 20},
    "gpt_oss": WINDOWED | {"num_local_experts": 2, "num_experts_per_tok": 1},
}


class RecordedModel:
    """A model that remembers where the tensors lie that it is given."""

    def __init__(self, model: PreparedModel) -> None:
        self._model = model
        self.places: list[int] = []

    def __getattr__(self, name: str):
        return getattr(self._model, name)

    @property
    def is_replayable(self) -> bool:
        return self._model.is_replayable

    def plan_attention(self, spans, pool):
        return self._model.plan_attention(spans, pool)

    def forward(self, batch, pool, plans=None):
        tensors = [batch.token_ids, batch.positions, batch.slots, batch.logits_rows]
        for plan in (plans or {}).values():
            tensors += [items.table for items in plan.items]
            tensors += [plan.rows.tokens, plan.rows.firsts, plan.rows.lasts, plan.rows.pages]
            tensors += [plan.merged_tokens, plan.merge_starts, plan.merge_order]
        self.places = [tensor.data_ptr() for tensor in tensors] + [tensor.numel() for tensor in tensors]
        return self._model.forward(batch, pool, plans)


class Repeated:
    """Captures by running, replays by running again: on the same tensors, at the same places, of the same sizes."""

    def __init__(self, model: RecordedModel) -> None:
        self._model = model
        self.num_bytes = 0
        self.captured = 0

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        work()
        places = self._model.places
        self.captured += 1

        def replay() -> None:
            work()
            assert self._model.places == places

        return replay


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RecordedModel]:
    """A small random model by kernels, by family and scheme."""
    from transformers import AutoConfig, AutoModelForCausalLM

    folders: dict[str, Path] = {}

    def make(family: str = "llama", scheme: str | None = None) -> RecordedModel:
        if family not in folders:
            torch.manual_seed(1)
            folders[family] = tmp_path_factory.mktemp(family)
            config = AutoConfig.for_model(family, **(COMMON | FAMILIES[family]))
            AutoModelForCausalLM.from_config(config).save_pretrained(folders[family])
        parsed = parse_scheme(scheme) if scheme else None
        model = open_model(str(folders[family]), dtype="float32", device="cpu", scheme=parsed, kernels=True)
        return RecordedModel(model)

    return make


def tokens(length: int) -> tuple[int, ...]:
    return tuple(torch.randint(3, VOCAB, (length,), generator=torch.Generator().manual_seed(length)).tolist())


def asked() -> list[Generate | Score]:
    """Answers of several lengths, so that steps of five sequences to one follow, greedy ones beside drawn ones."""
    found: list[Generate | Score] = [
        Generate(f"g{n}", tokens(2 + n), max_tokens=3 + 2 * n, sampling=Sampling(1.0, 1, n) if n % 2 else None)
        for n in range(4)
    ]
    return [*found, Score("s", tokens(3), (5, 9, 11))]


def answers(
    model: RecordedModel, monkeypatch: pytest.MonkeyPatch, backend: object | None, requests=None, **config
) -> tuple[dict, Engine]:
    monkeypatch.setattr(run_cache, "graph_capture", lambda *_: backend)
    how = EngineConfig(device="cpu", page_size=4, kv_memory=1 << 20, **config)
    with Engine(model, how.resolve("cpu", 512)) as engine:
        return {answer.id: answer for answer in engine.run(requests or asked())}, engine


@pytest.mark.parametrize(
    ("family", "scheme"),
    [("llama", None), ("qwen2", None), ("llama", "w4a16-g32"), ("llama", "w8a8+kv=int8"), ("llama", "kv=fp8")],
)
def test_replayed_answers_are_the_launched_ones(family, scheme, opened, monkeypatch) -> None:
    model = opened(family, scheme)
    expected, plain = answers(model, monkeypatch, None)
    backend = Repeated(model)
    found, engine = answers(model, monkeypatch, backend)
    assert found == expected
    stats = engine.stats
    assert stats.graph_fault is None and stats.num_graphs == backend.captured > 1 and plain.stats.graph_steps == 0
    # Each size is launched once before it is captured; nothing else is launched but prompts.
    assert stats.graph_steps >= 4 and stats.steps == plain.stats.steps


@pytest.mark.parametrize("num_rows", [1, 3, 9])
def test_padding_changes_no_bit_of_a_row(num_rows: int, opened, monkeypatch) -> None:
    """Logits themselves, of every step, at sizes above the number of rows."""
    model = opened()
    requests = [Generate(f"{n}", tokens(2 + n % 3), max_tokens=4) for n in range(num_rows)]
    seen: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    plain = engine_module.Readout
    for replays, found in seen.items():

        def kept(rows, logits, found=found):
            found.append(logits.clone())
            return plain(rows, logits)

        monkeypatch.setattr(engine_module, "Readout", kept)
        _, engine = answers(model, monkeypatch, Repeated(model) if replays else None, requests)
        assert bool(engine.stats.graph_steps) == replays
    assert all(torch.equal(*pair) for pair in zip(seen[True], seen[False], strict=True)) and len(seen[True]) >= 4


def test_rows_of_padding_write_to_nobodys_page_alone(opened, monkeypatch) -> None:
    model = opened()
    pools = []
    make = model._model.make_pool

    def marked(*how):
        pools.append(make(*how))
        for part in (*pools[-1].keys, *pools[-1].values):
            part[-1] = 5.0
        return pools[-1]

    monkeypatch.setattr(model._model, "make_pool", marked)
    requests = [Generate(f"{n}", tokens(2 + n), max_tokens=4) for n in range(3)]
    for backend in (None, Repeated(model)):
        answers(model, monkeypatch, backend, requests, prefix_cache=False)
    plain, padded = pools
    assert padded.num_pages == plain.num_pages + 1
    for one, other in zip((*plain.keys, *plain.values), (*padded.keys, *padded.values), strict=True):
        assert torch.equal(one[:-1], other[:-2]), "the last of the plain pool's pages is marked, and never used"
        assert bool((other[-1, :, 0] != 5).all()) and bool((other[-1, :, 1:] == 5).all())


def test_what_cannot_be_captured_is_launched_and_said(opened, monkeypatch) -> None:
    class Refuses:
        num_bytes = 0
        asked = 0

        def capture(self, work):
            self.asked += 1
            work()
            raise RuntimeError("operation not permitted\nwhen stream is capturing")

    model, backend = opened(), Refuses()
    requests = [Generate(f"{n}", tokens(2), max_tokens=4) for n in range(2)]
    expected, _ = answers(model, monkeypatch, None, requests)
    found, engine = answers(model, monkeypatch, backend, requests)
    assert found == expected and backend.asked == 1 and engine.stats.graph_steps == 0
    assert engine.stats.graph_fault == "RuntimeError: operation not permitted when stream is capturing"


def test_memory_and_number_are_bounded(opened, monkeypatch) -> None:
    model, requests = opened(), [Generate(f"{n}", tokens(2), max_tokens=4 + 3 * n) for n in range(2)]
    expected, _ = answers(model, monkeypatch, None, requests)
    full = Repeated(model)
    full.num_bytes = graphs.MOST_BYTES
    assert answers(model, monkeypatch, full, requests)[0] == expected and full.captured == 0
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 1)
    few = Repeated(model)
    found, engine = answers(model, monkeypatch, few, requests)
    assert found == expected and engine.stats.num_graphs == 1 < few.captured
    assert engine.stats.graph_bytes >= graphs.STATIC_BYTES
    monkeypatch.setattr(graphs, "STATIC_BYTES", 64)
    small = Repeated(model)
    assert answers(model, monkeypatch, small, requests)[0] == expected and small.captured == 0


def test_experts_are_launched(opened) -> None:
    assert opened().is_replayable and not opened("gpt_oss").is_replayable


@pytest.mark.parametrize("scheme", [None, "w4a16-g32", "w8a8", "fp8", "fp8_block", "nf4", "kv=int8", "kv=fp8"])
@pytest.mark.parametrize("family", ["llama", "gemma2", "qwen2"])
def test_a_step_asks_the_device_for_nothing(family: str, scheme: str | None, opened, monkeypatch) -> None:
    """On meta, where tensors have no numbers, a whole step goes through: no shape and no launch depends on any, so it
    can be captured. Kernels are not started there."""
    model = opened(family, scheme)._model
    # What is loaded while launches are replaced would keep the replacement.
    for one in pkgutil.iter_modules(kernels.__path__):
        importlib.import_module(f"{kernels.__name__}.{one.name}")
    started: list[object] = []
    real = launching.launch
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("evalcard_engine.") and vars(module).get("launch") is real:
            monkeypatch.setattr(module, "launch", lambda *given, **how: started.append(given[0]))
    monkeypatch.setattr("evalcard_engine.kernels.dispatch.serves", lambda device, dtype: True)
    # Where there is a GPU, plain linears are torch's.
    monkeypatch.setattr(exact_linear, "linear", lambda x, weight, bias: x.new_empty(*x.shape[:-1], weight.out_features))
    to_meta(model)
    pool = KVPool(model._shapes, 5, 16, torch.float32, "meta", model._codes)
    wanted = Span(0, 1, 5, (0,)), Span(1, 1, 20, (1, 2))
    plans = {reach: plan.received([torch.from_numpy(one).to("meta") for one in plan.arrays])
             for reach, plan in model.plan_attention(wanted, pool).items()}  # fmt: skip
    ids = torch.zeros(2, dtype=torch.int64, device="meta")
    batch = Batch(ids, ids, ids, ids, wanted, 16)
    assert model.forward(batch, pool, plans).shape == (2, VOCAB) and len(started) >= len(model._rules)


def to_meta(model: PreparedModel) -> None:
    def moved(value):
        if isinstance(value, torch.Tensor):
            return value.to("meta")
        if hasattr(value, "__dataclass_fields__"):
            return replace(value, **{one.name: moved(getattr(value, one.name)) for one in fields(value) if one.init})
        return value

    for part in model._module.modules():
        if isinstance(part, KernelLinear):
            part._held = moved(part._held)
            part.bias = moved(part.bias)
    model._module.to("meta")


@pytest.mark.parametrize("window", [None, 40])
def test_padded_plans_attend_alike(window: int | None) -> None:
    """Prefixes in common, keys in parts, sinks; rows of padding see one token of the page after the last."""
    common = tuple(range(32))
    spans = [Span(n, 1, 512 + 9 * n, (*common, 32 + 6 * n, 33 + 6 * n, 34 + 6 * n, 35 + 6 * n)) for n in range(3)]
    spans += [Span(3, 1, 7, (60,)), Span(4, 1, 300, tuple(range(61, 80)))]
    pool = KVPool([KVShape(1, 16, 16)], 81, 16, torch.float32, "cpu")
    generator = torch.Generator().manual_seed(0)
    numbers = [torch.randn(81 * 16, 1, 16, generator=generator) for _ in range(2)]
    pool.write(0, pool.slot_rows(torch.arange(81 * 16)), *numbers)
    query, sinks = torch.randn(8, 2, 16, generator=generator), torch.tensor([0.5, -1.0])
    plan = host_plan(spans, 16, 2, 1, window, (Tile(4, 16, 32, 4, 1), Tile(16, 16, 32, 4, 1)), programs=8)
    assert (plan.num_parts > 0 and len(plan.tables[1]) > 0) == (window is None)
    plain = plan.received([torch.from_numpy(one) for one in plan.arrays])
    expected = triton.attend(query[:5], pool, 0, plain, scale=0.3, sinks=sinks)
    room = room_for(plan, 8, 5)
    views = [torch.from_numpy(one) for one in pad_plan(plan, room, 8, 5)]
    pages = torch.cat((torch.from_numpy(plan.pages), torch.tensor([80, 9999], dtype=torch.int32)))
    found = triton.attend(query, pool, 0, room.static_plan(plan.tiles, views, pages), scale=0.3, sinks=sinks)
    assert torch.equal(found[:5], expected)
    weight = torch.sigmoid((query[5:] * pool.keys[0][80, 0, 0]).sum(-1) * 0.3 - sinks)
    torch.testing.assert_close(found[5:], weight[..., None] * pool.values[0][80, 0, 0].expand(3, 2, 16))


def test_rooms_are_few_for_long_answers() -> None:
    """From 1 to 4096 tokens of context, 64 sequences: a handful of shapes, none more than twice too wide."""
    rooms = set()
    for context in range(0, 4096, 37):
        spans = [Span(n, 1, context + n % 5, tuple(range(n * 20, n * 20 + 20))) for n in range(61)]
        plan = host_plan(spans, 256, 32, 8, None, (Tile(16, 64, 0), Tile(128, 64, 0)))
        room = room_for(plan, 64, 61)
        rooms.add(room)
        assert len(plan.tables[0]) + 3 <= room.few < 2 * max(64, len(plan.tables[0]) + 3)
        assert plan.num_parts <= room.parts and len(plan.tokens) + 3 <= room.places
    assert len(rooms) <= 6
    assert np.all([room.many == 0 for room in rooms])
