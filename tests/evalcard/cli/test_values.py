"""Sizes and key=value lists."""

import click
import pytest

from evalcard.cli.values import ByteCount, KeyValues


@pytest.mark.parametrize(
    ("text", "count"),
    [("1073741824", 2**30), ("4GiB", 2**32), ("4gib", 2**32), ("500MB", 5 * 10**8), ("1.5k", 1500), (" 2 TiB ", 2**41)],
)
def test_sizes(text: str, count: int):
    assert ByteCount().convert(text, None, None) == count


@pytest.mark.parametrize("text", ["", "-1", "0", "GiB", "4XB", "1e9"])
def test_no_sizes(text: str):
    with pytest.raises(click.BadParameter):
        ByteCount().convert(text, None, None)


def test_key_values():
    assert KeyValues().convert("a=1, b=x=y", None, None) == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize("text", ["", "a", "=1", "a=1,,b=2"])
def test_no_key_values(text: str):
    with pytest.raises(click.BadParameter):
        KeyValues().convert(text, None, None)
