"""Parameter types of the command line."""

import re

import click

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


class ByteCount(click.ParamType):
    """A size such as 4GiB, 500MB or 1073741824, as a count of bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", str(value), re.IGNORECASE)
        if not match or float(match[1]) <= 0:
            self.fail(f"{value!r} is no size. Write a positive number with an optional unit: 4GiB, 500MB.", param, ctx)
        return int(float(match[1]) * _UNITS[(match[2] or "").lower()])


class KeyValues(click.ParamType):
    """``a=1,b=two`` as a mapping."""

    name = "key=value"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        pairs = {}
        for part in str(value).split(","):
            key, equals, text = part.partition("=")
            if not equals or not key.strip():
                self.fail(f"{part!r} is not key=value. Write arguments as a=1,b=two.", param, ctx)
            pairs[key.strip()] = text.strip()
        return pairs
