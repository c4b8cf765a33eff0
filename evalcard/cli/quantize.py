"""``evalcard quantize``: write a compressed model, by round to nearest or calibrated by llm-compressor."""

from pathlib import Path
from typing import Any

import click

from evalcard.card import numbers


@click.command("quantize")
@click.argument("model")
@click.option("--scheme", required=True, metavar="S", help="w8a8, w8a16, w4a16, w4a16-g64, fp8, nvfp4a16, ...")
@click.option(
    "--method",
    type=click.Choice(["rtn", "gptq", "awq", "smoothquant"]),
    default="rtn",
    show_default=True,
    help="rtn: round to nearest, our own. The others are calibrated, by llm-compressor.",
)
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="FILE", help="Texts to calibrate with: .jsonl or .txt."
)
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    metavar="N",
    help="Samples to calibrate with.",
)
@click.option(
    "--max-seq-len",
    type=click.IntRange(min=8),
    default=2048,
    show_default=True,
    metavar="N",
    help="Tokens of a sample.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="PATTERN",
    help="Linear that stays as it is: its whole name, or re: and a pattern. May be given several times.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="New folder to write.")
@click.option("--python", metavar="PATH", help="Interpreter of an environment that has llm-compressor.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def command(model: str, quiet: bool, **given: Any) -> int:
    """Compress MODEL and write it to --out as a compressed-tensors checkpoint, which vLLM and transformers read too.

    The folder appears whole or not at all, with a recipe that says how it was made.
    """
    from evalcard.cli.progress import make_progress
    from evalcard.modelspec import parse_model
    from evalcard.quantize import Job, quantize

    job = Job(model=parse_model(model), **given)
    found = quantize(job, make_progress(quiet), None if quiet else _show)
    bits = found.bits_per_weight
    size = f"{found.num_bytes / 1e6:,.1f} MB" + ("" if bits is None else f", {numbers.bits(bits)} bits per weight")
    click.echo(f"{job.out}: {found.scheme_words}; {size}")
    return 0


def _show(text: str) -> None:
    click.echo(text, nl=False, err=True)
