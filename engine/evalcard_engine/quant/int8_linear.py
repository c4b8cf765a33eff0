"""w8a8 on the CPU: tokens quantized as they come, an exact integer product, then both scales and the bias.

Both ends are native/rowwise.c's where it serves, and torch's to the same bits where it does not. Products are scaled in
blocks of rows, in memory that is used again at once, so that integers never leave the processor's cache; no row knows
its block, so blocks change no bit. ``torch._int_mm`` with passes of ours over a block is as fast as oneDNN's fused
quantized linear, and leaves the order of the multiplications to us.
"""

import torch
from torch import nn

from evalcard_engine.arithmetic.int8 import int8_product
from evalcard_engine.native import rowwise
from evalcard_engine.quant.weight import QuantizedWeight
from evalcard_engine.quant.workspace import Workspace

BLOCK_ROWS = 1024
"""Of a product: few enough that its integers are still near the processor when they are scaled."""

_LEAST_TOP = 2.0**-118
"""Largest magnitude of a row from which on its scale is a normal float32, and no value / scale rounds beyond 127."""


class Int8Linear(nn.Module):
    """y = (codes(x) codes(W)^T) * scale of the token * scale of the output + bias, float32 and in this order."""

    codes: torch.Tensor
    """int8 [out, in]: turned for the product, which reads it faster than a copy that lies turned in memory."""
    scales: torch.Tensor
    """float32 [1, out]"""

    def __init__(self, weight: QuantizedWeight, bias: torch.Tensor | None) -> None:
        super().__init__()
        assert serves_int8(weight), weight.scheme
        self.register_buffer("codes", weight.codes.clone(memory_format=torch.contiguous_format))
        self.register_buffer("scales", weight.scales.float().view(1, -1))
        self.bias = None if bias is None else bias.float()
        self._tokens = TokenCodes(1)
        self._workspace = Workspace()

    def share(self, tokens: "TokenCodes", workspace: Workspace) -> None:
        """Take the codes of inputs from ``tokens``, which other linears of the same inputs do too, and put what lies
        between into ``workspace``, which other linears of the model use before and after."""
        self._tokens, self._workspace = tokens, workspace

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes, scales = self._tokens(x, self._workspace)
        out = x.new_empty(codes.shape[0], self.codes.shape[0])
        for part, rows, into in zip(*(each.split(BLOCK_ROWS) for each in (codes, scales, out)), strict=True):
            self.scaled(part, rows, into)
        return out.view(*x.shape[:-1], out.shape[1])

    def scaled(self, codes: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """The linear of one block of quantized tokens, int8 [rows, in] and float32 [rows, 1], into out [rows, out]."""
        integers = self.integers(codes, "product")
        if rowwise.serves(out.dtype) and out.is_contiguous():
            rowwise.scale_rows(integers, scales, self.scales, self.bias, out)
            return out
        # In place: an integer and its float32 are both of four bytes, and each is read before it is overwritten.
        product = integers.view(torch.float32).copy_(integers).mul_(scales)
        if self.bias is None:
            return torch.mul(product, self.scales, out=out)
        return torch.add(product.mul_(self.scales), self.bias, out=out)

    def integers(self, codes: torch.Tensor, purpose: str) -> torch.Tensor:
        """The product of quantized tokens int8 [rows, in], not scaled yet: int32 [rows, out], in the workspace."""
        integers = self._workspace.take(purpose, codes.shape[0], self.codes.shape[0], torch.int32)
        return int8_product(codes, self.codes.t(), out=integers)


class TokenCodes:
    """Quantized inputs, made once for ``num_users`` linears that get the same tensor one after the other.

    The same tensor is the same object: whoever changes it between two of the linears must not share its codes. Nothing
    is kept once the last linear has been served.
    """

    def __init__(self, num_users: int) -> None:
        self._num_users = num_users
        self._left = 0
        self._x: torch.Tensor | None = None
        self._made: tuple[torch.Tensor, torch.Tensor] | None = None

    def __call__(self, x: torch.Tensor, workspace: Workspace) -> tuple[torch.Tensor, torch.Tensor]:
        """x [..., width] -> int8 [rows, width] and float32 scales [rows, 1], as `quantize_tokens` defines them."""
        made = self._made
        if made is None or self._x is not x:
            made = quantize_rows(x.reshape(-1, x.shape[-1]), workspace)
            self._left = self._num_users
        self._left -= 1
        self._x, self._made = (x, made) if self._left else (None, None)
        return made


def quantize_rows(x: torch.Tensor, workspace: Workspace) -> tuple[torch.Tensor, torch.Tensor]:
    """`quantize_tokens` to the last bit, in fewer passes: x [rows, width] -> int8 [rows, width] and float32 scales
    [rows, 1]. What lies between is put into the ``workspace``, as "spare"."""
    codes = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scales = torch.empty(x.shape[0], 1, device=x.device)
    if rowwise.serves(x.dtype) and x.is_contiguous():
        rowwise.quantize_rows(x, codes, scales)
        return codes, scales
    for block, code, scale in zip(*(each.split(BLOCK_ROWS) for each in (x, codes, scales)), strict=True):
        if len(block):
            _quantize(block.float(), code, scale, workspace.take("spare", len(block), block.shape[1], torch.float32))
    return codes, scales


def _quantize(rows: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, spare: torch.Tensor) -> None:
    """float32 rows, at least one, into codes and scales."""
    # Two reductions read the rows; abs would write a copy of them first.
    top = torch.maximum(rows.amax(dim=-1, keepdim=True), rows.amin(dim=-1, keepdim=True).neg_())
    torch.div(top, 127, out=scales)
    # Nearly always true, and then neither a row of zeros nor a value beyond 127 has to be looked for.
    is_plain = float(top.amin()) >= _LEAST_TOP
    if not is_plain:  # so, too, where a row is not a number
        scales.masked_fill_(top == 0, 1.0)
    values = torch.div(rows, scales, out=spare).round_()
    if not is_plain:
        values.clamp_(-127, 127)
    codes.copy_(values)


def serves_int8(weight: QuantizedWeight) -> bool:
    """Whether the integer product gives this weight's linear: int8, symmetric, one scale a row; tokens likewise."""
    acts = weight.activations
    plain = weight.zero_points is None and weight.offsets is None and weight.group_index is None and not weight.is_flat
    return (
        plain
        and weight.element.name == "int8"
        and weight.scales.shape == (weight.out_features, 1)
        and acts is not None
        and (acts.element, acts.per) == ("int8", "token")
        and acts.outliers is None
    )
