"""A quantized linear whose weight stays packed and meets its inputs inside a Triton kernel."""

import torch
from torch import nn

from evalcard_engine.kernels import dispatch
from evalcard_engine.quant.weight import QuantizedWeight


class KernelLinear(nn.Module):
    """y = r(x) W^T + b, r as weight.activations says, in the dtype of x; a row of y depends on its own row of x alone.

    Where kernels.dispatch.serves says so: on CUDA, and in Triton's interpreter for tests.
    """

    def __init__(self, weight: QuantizedWeight, bias: torch.Tensor | None) -> None:
        super().__init__()
        self._held = dispatch.prepare(weight)
        self.bias = bias

    @property
    def weight(self) -> QuantizedWeight:
        """What is held: codes and scales, the columns of act-order sorted by group."""
        return self._held.weight

    @property
    def num_bytes(self) -> int:
        """Of everything that is held."""
        others = (self._held.column_order, self.bias)
        return self.weight.num_bytes + sum(part.nbytes for part in others if part is not None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = dispatch.linear(x, self._held, self.bias, exact=True)
        assert out is not None, f"no kernel serves {x.dtype} on {x.device}"
        return out

    def extra_repr(self) -> str:
        weight = self.weight
        return f"{weight.scheme or weight.element.name}, {weight.in_features}, {weight.out_features}"
