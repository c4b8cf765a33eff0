"""What models are called in one run's tables."""

from typing import Any

import pytest

from evalcard.card.labels import model_labels
from evalcard.results.records import ModelRecord


def model(name: str, slug: str, scheme: str | None = None, role: str = "compressed") -> ModelRecord:
    absent: Any = dict.fromkeys(("hub_id", "revision", "weights_digest", "template_digest", "numerics"))
    return ModelRecord(slug=slug, role=role, name=name, scheme=scheme, tokenizer_digest="t", **absent)


BASELINE = model("M", "M", role="baseline")


@pytest.mark.parametrize(
    ("compressed", "labels"),
    [
        ([model("M", "M-w8a8", "w8a8"), model("M", "M-fp8", "fp8")], ["w8a8", "fp8"]),
        # What was compressed in its files keeps its name, whatever is done to it beside that.
        ([model("M-w4a16", "M-w4a16-kv-fp8", "kv=fp8"), model("M-fp8", "M-fp8")], ["M-w4a16-kv-fp8", "M-fp8"]),
        ([model("N", "N-w8a8", "w8a8"), model("M", "M-w8a8", "w8a8")], ["N-w8a8", "w8a8"]),
        ([model("M", "M-w8a8", "w8a8"), model("M", "M-w8a8-1a2b", "w8a8")], ["M-w8a8", "M-w8a8-1a2b"]),
    ],
)
def test_the_shortest_name_that_tells_models_apart(compressed: list[ModelRecord], labels: list[str]) -> None:
    found = model_labels([BASELINE, *compressed])
    assert [found[one.slug] for one in compressed] == labels
