"""``evalcard footprint``: what a model takes in memory, told by its config."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from evalcard.errors import UserError

if TYPE_CHECKING:
    from evalcard.footprint.report import Asked

T = TypeVar("T")
_MOST_TOKENS = 1_000_000_000


@click.command("footprint")
@click.argument("model")
@click.option(
    "--gpu",
    default="h100-80",
    show_default=True,
    metavar="CARD",
    help="a100-80, h100-80, h200, l40s, or one card's memory: a number counts GiB, with GB after it 10^9 bytes.",
)
@click.option(
    "--gpu-share",
    type=float,
    default=0.9,
    show_default=True,
    metavar="SHARE",
    help="Of each card's memory, what may be used.",
)
@click.option("--gpus", type=click.IntRange(1, 100_000), metavar="N", help="Cards; without it the fewest that do.")
@click.option(
    "--requests",
    type=click.IntRange(1, 1_000_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Requests at once that the cards have to hold.",
)
@click.option(
    "--context",
    metavar="N,...",
    help="Tokens of a request, prompt and answer. [default: 2k,8k,32k,128k up to the model's maximum, and that]",
)
@click.option("--scheme", metavar="S,...", help="Schemes of the weights. [default: bf16,w8a8,w4a16]")
@click.option("--kv-cache", metavar="D,...", help="Of bf16, fp8 and int8. [default: bf16,fp8]")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON: bytes and counts, nothing rounded.")
def command(
    model: str,
    gpu: str,
    gpu_share: float,
    gpus: int | None,
    requests: int,
    context: str | None,
    scheme: str | None,
    kv_cache: str | None,
    as_json: bool,
) -> int:
    """Parameters, weights, KV cache, GPUs and requests at once of MODEL: a folder, a config.json or a Hub id.

    Nothing but the config is read (of a folder the headers of its weights too); of a Hub id config.json is fetched.
    """
    from evalcard.footprint import report as told
    from evalcard.footprint.footprint import footprint_of
    from evalcard.footprint.source import read_source
    from evalcard.footprint.stored import stored_as

    asked = _asked(gpu, gpu_share, gpus, requests, context, scheme, kv_cache)
    source = read_source(model)
    if source.scheme and source.scheme not in asked.schemes:
        asked = told.with_scheme(asked, source.scheme)
    try:
        footprint, stored = footprint_of(source.config), stored_as(source.config)
    except UserError as error:
        raise UserError(f"{source.origin}: {error}") from None
    found = told.report_of(source.name, footprint, asked, stored, source.measured)
    if as_json:
        import json

        click.echo(json.dumps(told.as_json(found), indent=2))
        return 0
    from evalcard.cli.footprinttables import print_report

    print_report(found)
    return 0


def _asked(
    gpu: str,
    share: float,
    gpus: int | None,
    requests: int,
    context: str | None,
    scheme: str | None,
    kv_cache: str | None,
) -> "Asked":
    """Read before anything is fetched."""
    from evalcard.footprint import report as told
    from evalcard.footprint.cache import kv_dtype
    from evalcard.footprint.gpus import Room, parse_gpu, parse_share
    from evalcard.footprint.weights import PLAIN, scheme_of

    def canonical(text: str) -> str:
        found = scheme_of(text)
        return found.name if found else PLAIN

    return told.Asked(
        Room(parse_gpu(gpu), parse_share(share)),
        _each("--scheme", scheme, canonical, told.SCHEMES),
        _each("--kv-cache", kv_cache, kv_dtype, told.KV_DTYPES),
        None if context is None else _each("--context", context, _tokens, ()),
        gpus,
        requests,
    )


def _each(option: str, text: str | None, read: Callable[[str], T], default: Sequence[T]) -> tuple[T, ...]:
    """The parts between commas, each once."""
    if text is None:
        return tuple(default)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UserError(f"{option} is empty; give values with commas between them, or leave it out.")
    return tuple(dict.fromkeys(read(part) for part in parts))


def _tokens(text: str) -> int:
    """``8192``, or ``8k`` for 8 * 1024."""
    number = text.lower().removesuffix("k")
    scale = 1024 if number != text.lower() else 1
    if not number.isdecimal() or not 0 < int(number[:12]) * scale <= _MOST_TOKENS:
        raise UserError(f"--context {text!r} is no number of tokens; give such as 2048,8192 or 2k,8k.")
    return int(number) * scale
