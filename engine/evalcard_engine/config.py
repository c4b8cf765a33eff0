"""How an engine is set up: frozen, checked when made, resolved once against the device. No torch."""

from dataclasses import dataclass, replace

from evalcard_engine.errors import EngineError
from evalcard_engine.quant.scheme import Scheme

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICES = ("auto", "cpu", "cuda")
WEIGHTS = ("auto", "packed", "expanded")
ATTENTION_BLOCK = 256
"""Tokens of one attention block; a page must divide it, so that no block straddles pages of different sharing."""

_LOGITS_BYTES = 256 << 20
"""Bound of one step's float32 logits while scoring."""
_MAX_SEQUENCES = {"cpu": 64, "cuda": 256}


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What a caller may choose. Of all this only dtype, device and scheme may change an answer."""

    dtype: str = "auto"
    """Of activations, and of the KV cache where nothing quantizes it. "auto" leaves it to the checkpoint and, on the
    CPU, to the machine's plan."""
    device: str = "auto"
    """"auto" is the GPU where there is one."""
    scheme: Scheme | None = None
    """Quantize the linears when the model is opened, the KV cache, or both; None leaves the checkpoint as it is."""
    weights: str = "auto"
    """Whether quantized linears stay at their compressed size in memory (packed) or are dequantized once (expanded).
    On the CPU no answer depends on it; "auto" is what is faster while it fits (weights_choice.py). On a GPU kernels
    decide."""
    kv_memory: int | None = None
    """Bytes the KV cache may take; None is a share of what is free once the weights are loaded (memory.py).

    Engines that run side by side each take their share of the same memory: name it for both.
    """
    page_size: int = ATTENTION_BLOCK
    """Tokens of a page."""
    step_tokens: int | None = None
    """Query tokens of one forward pass."""
    max_sequences: int | None = None
    """Sequences in flight at one time."""
    prefix_cache: bool = True
    """Compute a prefix that several requests share only once."""
    drafts: bool = True
    """Check in one step several tokens that a greedy answer may say next, where no answer can depend on it: on a CPU
    whose rows are exact."""
    cuda_graphs: bool = True
    """Replay steps of answers as captured CUDA graphs, on a GPU and where the model allows it."""
    threads: int | None = None
    """CPU threads. torch has one setting for the whole process, so the engine opened last decides for all."""

    def __post_init__(self) -> None:
        _check_choice("dtype", self.dtype, DTYPES)
        _check_choice("device", self.device, DEVICES)
        _check_choice("weights", self.weights, WEIGHTS)
        for name in ("kv_memory", "step_tokens", "max_sequences", "threads"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise EngineError(f"{name} is {value!r}; it must be a positive whole number, or None for the default.")
        if not isinstance(self.page_size, int) or self.page_size < 1 or ATTENTION_BLOCK % self.page_size:
            raise EngineError(f"page_size is {self.page_size!r}; it must divide {ATTENTION_BLOCK}, as 16 and 256 do.")

    def resolve(self, device: str, step_tokens: int) -> "EngineConfig":
        """Device, step_tokens and max_sequences filled in; ``step_tokens`` is the device's own default."""
        assert device in DEVICES[1:], device
        tokens = self.step_tokens or step_tokens
        sequences = self.max_sequences or min(_MAX_SEQUENCES[device], tokens)
        if sequences > tokens:
            raise EngineError(
                f"max_sequences is {sequences} and step_tokens is {tokens}; each sequence in flight needs one token "
                f"of every step. Raise step_tokens to at least {sequences} or lower max_sequences."
            )
        return replace(self, device=device, step_tokens=tokens, max_sequences=sequences)

    def step_logits(self, vocab_size: int) -> int:
        """Rows of logits of one step, of a resolved configuration."""
        assert self.max_sequences is not None, self
        return max(self.max_sequences, _LOGITS_BYTES // (4 * vocab_size))


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise EngineError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
