"""Whole models by kernels in Triton's interpreter, held against the same models as the CPU runs them.

kernels/test_interpreter.py runs this file, in a process where Triton interprets.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("run by kernels/test_interpreter.py, in a process of its own", allow_module_level=True)

from evalcard_engine import layer_modules
from evalcard_engine.attention import paged_plan
from evalcard_engine.batch import Batch, Span
from evalcard_engine.config import EngineConfig
from evalcard_engine.engine import Engine
from evalcard_engine.kernels.dispatch import versions
from evalcard_engine.models import PreparedModel, open_model
from evalcard_engine.quant.kernel_linear import KernelLinear
from evalcard_engine.quant.scheme import parse_scheme
from evalcard_engine.request import Generate, Score

VOCAB, PAGE_SIZE = 61, 4
COMMON = {
    "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512, "initializer_range": 0.2,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
}  # fmt: skip
WINDOWED = ["sliding_attention", "full_attention"]
FAMILIES = {
    "llama": {"attention_bias": True},
    "mistral": {"sliding_window": 3},
    "qwen2": {"use_sliding_window": True, "sliding_window": 3, "layer_types": WINDOWED},
    "qwen3": {"num_key_value_heads": 1},
    "gemma3_text": {"sliding_window": 3, "layer_types": WINDOWED, "query_pre_attn_scalar": 20},
}
WEIGHTS_ONLY = ["w4a16-g32", "w4a16_asym-g32", "w8a16+head=w8", "nf4", "nvfp4a16", "mxfp4a16"]
ROUNDED = ["w8a8", "fp8", "fp8_block"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a small random model of a family, norms and biases too."""
    from transformers import AutoConfig, AutoModelForCausalLM

    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            torch.manual_seed(len(name))
            config = AutoConfig.for_model(name, **(COMMON | FAMILIES[name]))
            model = AutoModelForCausalLM.from_config(config)
            for key, parameter in model.named_parameters():
                if parameter.dim() == 1:
                    torch.nn.init.normal_(parameter, mean=0.0 if "bias" in key else 1.0, std=0.2)
            made[name] = tmp_path_factory.mktemp(name)
            model.save_pretrained(made[name])
        return made[name]

    return make


def opened(folder: Path, scheme: str | None, *, kernels: bool, dtype: str = "float32") -> PreparedModel:
    parsed = parse_scheme(scheme) if scheme else None
    return open_model(str(folder), dtype=dtype, device="cpu", scheme=parsed, kernels=kernels)


def tokens(length: int) -> torch.Tensor:
    return torch.randint(3, VOCAB, (length,), generator=torch.Generator().manual_seed(length))


def steps(model: PreparedModel, sequences: list[torch.Tensor], chunk: int) -> list[torch.Tensor]:
    """All logits of sequences that are run side by side, so many tokens of each a step, their pages interleaved."""
    count = -(-max(map(len, sequences)) // PAGE_SIZE)
    pages = [tuple(range(number, count * len(sequences), len(sequences))) for number in range(len(sequences))]
    pool = model.make_pool(count * len(sequences), PAGE_SIZE)
    found: list[list[torch.Tensor]] = [[] for _ in sequences]
    for start in range(0, max(map(len, sequences)), chunk):
        spans, places, slots, ids, numbers = [], [], [], [], []
        for number, sequence in enumerate(sequences):
            if start < len(sequence):
                place = torch.arange(start, min(start + chunk, len(sequence)))
                used = pages[number][: -(-(start + len(place)) // PAGE_SIZE)]
                spans.append(Span(sum(map(len, ids)), len(place), start, used))
                slots.append(torch.tensor(pages[number])[place // PAGE_SIZE] * PAGE_SIZE + place % PAGE_SIZE)
                places.append(place)
                ids.append(sequence[place])
                numbers.append(number)
        rows = torch.arange(sum(map(len, ids)))
        batch = Batch(torch.cat(ids), torch.cat(places), torch.cat(slots), rows, tuple(spans), PAGE_SIZE)
        parts = model.forward(batch, pool).split([span.query_len for span in spans])
        for number, part in zip(numbers, parts, strict=True):
            found[number].append(part)
    return [torch.cat(parts) for parts in found]


def logits(model: PreparedModel) -> torch.Tensor:
    """Of prompts of odd lengths, in chunks: float32 [rows, vocab]."""
    return torch.cat(steps(model, [tokens(7), tokens(1), tokens(5)], 4))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_computes_what_its_modules_do(family: str, checkpoint) -> None:
    model = opened(checkpoint(family), None, kernels=True)
    gates = () if "gemma" in family else ("gates",)
    assert (
        f"kernels {versions()} for {', '.join(('attention', 'norms', *gates, 'rotary and cache writes'))};"
        in model.numerics
    )
    expected = logits(opened(checkpoint(family), None, kernels=False))
    torch.testing.assert_close(logits(model), expected, rtol=0, atol=2e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("scheme", WEIGHTS_ONLY)
def test_packed_weights_give_the_logits_of_expanded_ones(scheme: str, checkpoint) -> None:
    model = opened(checkpoint("llama"), scheme, kernels=True)
    linears = [linear for linear in model._module.modules() if isinstance(linear, KernelLinear)]
    assert len(linears) == 14 + ("head" in scheme) and f"{scheme} by kernels" in model.numerics
    assert "quantized linears in exact tiles" in model.numerics
    expected = logits(opened(checkpoint("llama"), scheme, kernels=False))
    torch.testing.assert_close(logits(model), expected, rtol=0, atol=2e-5 * float(expected.abs().max()))


def assert_close_but_for_ties(found: torch.Tensor, expected: torch.Tensor, plain: torch.Tensor) -> None:
    """Where inputs are rounded, their last bit may decide which way, once in many thousand: most logits are as good
    as equal, and the rest are nearer by far than what the rounding itself does."""
    error = (found - expected).abs()
    assert float(error.median()) <= 2e-6 * float(expected.abs().max())
    assert float(error.max()) <= 0.1 * float((plain - expected).abs().max())


@pytest.mark.parametrize("scheme", ROUNDED)
def test_rounded_inputs_give_the_logits_of_the_cpu(scheme: str, checkpoint) -> None:
    found, expected = (logits(opened(checkpoint("llama"), scheme, kernels=kernels)) for kernels in (True, False))
    assert_close_but_for_ties(found, expected, logits(opened(checkpoint("llama"), None, kernels=False)))


@pytest.mark.parametrize("cache", ["kv=fp8", "kv=int8"])
def test_a_cache_of_codes_gets_the_rotated_keys(cache: str, checkpoint) -> None:
    found, expected = (logits(opened(checkpoint("llama"), cache, kernels=kernels)) for kernels in (True, False))
    assert_close_but_for_ties(found, expected, logits(opened(checkpoint("llama"), None, kernels=False)))


def test_half_precision_rounds_where_transformers_does(checkpoint) -> None:
    found, expected = (
        logits(opened(checkpoint("llama"), "w4a16-g32", kernels=kernels, dtype="bfloat16")) for kernels in (True, False)
    )
    # Sums in another order land on the other side of a bfloat16 now and then, and the layers after it carry that on.
    assert float((found - expected).abs().max()) <= 8 * 2**-8 * float(expected.abs().max())


@pytest.fixture
def act_order(checkpoint, tmp_path: Path) -> Path:
    """The llama with random linears as AutoGPTQ stores them: eight codes of four bits to an int32 down the columns of
    qweight [in / 8, out], scales [groups, out], zero points less one in qzeros [groups, out / 8], g_idx [in]."""
    source = checkpoint("llama")
    generator = torch.Generator().manual_seed(4)
    tensors = load_file(source / "model.safetensors")
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        out, width = tensors.pop(name).shape
        stem, groups = name.removesuffix("weight"), width // 32
        tensors |= {
            f"{stem}qweight": torch.randint(-(2**31), 2**31, (width // 8, out), generator=generator).int(),
            f"{stem}qzeros": torch.full((groups, out // 8), 0x77777777, dtype=torch.int32),
            f"{stem}scales": (torch.rand(groups, out, generator=generator) * 0.03 + 0.01).half(),
            f"{stem}g_idx": (torch.arange(width) // 32)[torch.randperm(width, generator=generator)].int(),
        }
    save_file(tensors, tmp_path / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_act_order(act_order: Path) -> None:
    model = opened(act_order, None, kernels=True)
    held = next(linear for linear in model._module.modules() if isinstance(linear, KernelLinear))
    assert held.weight.group_index is None and held._held.column_order is not None
    expected = logits(opened(act_order, None, kernels=False))
    torch.testing.assert_close(logits(model), expected, rtol=0, atol=2e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("scheme", ["w4a16-g32", "fp8"])
def test_an_answer_does_not_depend_on_its_company(scheme: str, checkpoint) -> None:
    model = opened(checkpoint("llama"), scheme, kernels=True)
    alone = steps(model, [tokens(9)], 9)[0]
    for sequences, chunk in (([tokens(9)], 4), ([tokens(3), tokens(9), tokens(11)], 11)):
        (found,) = [part for part in steps(model, sequences, chunk) if len(part) == 9]
        assert torch.equal(found, alone), (scheme, chunk)


@pytest.mark.parametrize(("family", "page_size"), [("llama", 16), ("gemma3_text", 256)])
def test_engines_agree_where_prompts_share_blocks(
    family: str, page_size: int, checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts longer than a block with one beginning, scored and continued beside each other."""
    made = []
    plain = paged_plan.readings

    def recorded(*arguments):
        made.extend(plain(*arguments))
        return plain(*arguments)

    monkeypatch.setattr(paged_plan, "readings", recorded)
    prefix = tokens(300).tolist()
    asked = [Score(f"s{n}", (*prefix, *tokens(n + 1).tolist()), (5 + n, 9)) for n in range(3)]
    asked += [Generate(f"g{n}", (*prefix, 40 + n), max_tokens=3) for n in range(3)]
    config = EngineConfig(device="cpu", kv_memory=8 << 20, page_size=page_size)
    answers = []
    for kernels in (True, False):
        model = opened(checkpoint(family), None, kernels=kernels)
        with Engine(model, config.resolve("cpu", 512)) as engine:
            answers.append({answer.id: answer for answer in engine.run(asked)})
    found, expected = answers
    for number in range(3):
        assert found[f"g{number}"].token_ids == expected[f"g{number}"].token_ids
        torch.testing.assert_close(found[f"s{number}"].logprobs, expected[f"s{number}"].logprobs, rtol=0, atol=1e-4)
    together = [reading for reading in made if len(reading.spans) > 2]
    assert together and all((reading.key_start, reading.key_stop) == (0, 256) for reading in together)


def test_a_fault_is_still_found_in_its_module(checkpoint) -> None:
    model = opened(checkpoint("llama"), "w4a16-g32", kernels=True)
    model._module.get_parameter("model.layers.1.post_attention_layernorm.weight").data[5] = torch.inf
    with model.watched() as fault:
        logits(model)
    assert fault.found == "layer 1, post_attention_layernorm: output not finite"


def hooks_of(part: torch.nn.Module) -> set[str]:
    """The modules whose functions a module's forward was given."""
    forward = getattr(vars(part).get("forward"), "__func__", None)
    given = getattr(forward, "keywords", {}).values()
    return {function.__module__ for function in given if callable(function)}


def is_hooked(part: torch.nn.Module) -> bool:
    return any(name.startswith("evalcard_engine.kernels.") for name in hooks_of(part))


def test_other_models_of_the_process_keep_their_modules(checkpoint) -> None:
    expected = logits(opened(checkpoint("qwen3"), None, kernels=False))
    model = opened(checkpoint("qwen3"), None, kernels=True)
    again = opened(checkpoint("qwen3"), None, kernels=False)
    assert torch.equal(logits(again), expected) and "kernels gpu" not in again.numerics
    assert is_hooked(model._module.get_submodule("model.norm"))
    assert not any(map(is_hooked, again._module.modules()))


@pytest.fixture
def unknown_family(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delitem(layer_modules.NORM_ADDS_ONE, "llama")
    yield


@pytest.mark.usefixtures("unknown_family")
def test_a_family_without_a_rule_keeps_its_modules_and_says_so(checkpoint) -> None:
    model = opened(checkpoint("llama"), None, kernels=True)
    assert not any(map(is_hooked, model._module.modules()))
    assert f"kernels {versions()} for attention;" in model.numerics
    packed = opened(checkpoint("llama"), "w8a8", kernels=True)
    assert f"kernels {versions()} for attention, quantized linears in exact tiles;" in packed.numerics
