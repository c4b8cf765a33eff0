"""A whole checkpoint of every format answers as transformers does with the dequantized weights, in float32."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def test_logits_are_those_of_the_dequantized_weights(
    kind: Any,
    whole: tuple[Any, dict[str, torch.Tensor]],
    save_whole: Callable[[Any], Path],
    run_folder: Callable[[Path], Any],
) -> None:
    llama, weights = whole
    assert len(weights) == 14
    ran = run_folder(save_whole(llama))
    rounded = None if kind.rounded is None else lambda name, rows: kind.rounded(rows)
    plain = llama.reference({name: llama.linears[name].clone() for name in weights})
    expected = llama.reference(weights, rounded, ran)
    torch.testing.assert_close(ran.logits, expected, atol=1e-4, rtol=0)
    off = float((ran.logits - expected).abs().max())
    assert float((plain - expected).abs().max()) > max(1e-3, 30 * off), "compression changed nothing"
