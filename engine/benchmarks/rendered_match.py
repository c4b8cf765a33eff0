"""A whole comparison with a peer that answers evalcard's prompts; compare_openvino.py and compare_cb.py."""

import argparse
from collections.abc import Sequence

from ab_rounds import Referee, Side  # beside this file
from benchmark_rows import Facts, check_table, keeper
from rendered import Rendered
from report_rounds import check_scores, report
from suites import SUITES, evalcard_side, limit_of, limits_of

from evalcard_engine.errors import EngineError
from evalcard_engine.quant.scheme import parse_scheme

PLAIN = "fp32"
"""The model as it is, in float32 arithmetic."""


def schemes(text: str) -> list[str]:
    """Schemes of evalcard separated by commas, or fp32; an unknown one is an argument's error."""
    found = [part.strip().lower() for part in text.split(",") if part.strip()]
    for name in found:
        if name != PLAIN:
            try:
                parse_scheme(name)
            except EngineError as error:
                raise argparse.ArgumentTypeError(f"{error} {PLAIN} is the model as it is.") from None
    if not found:
        raise argparse.ArgumentTypeError(f"no scheme is named; give some, such as w8a8,{PLAIN}")
    return list(dict.fromkeys(found))


def head_of(name: str) -> str:
    """The precision of evalcard's output head under a scheme, on a CPU."""
    bits = None if name == PLAIN else parse_scheme(name).head_bits
    return "float32" if bits is None else f"int{bits}"


def compare(
    args: argparse.Namespace,
    rendered: Rendered,
    names: Sequence[str],
    peer_name: str,
    version: str,
    setting: str,
    peer: Side,
) -> None:
    """Let evalcard's schemes and the peer take turns; print table, scores and ratios, and append the rows."""
    if args.csv:
        check_table(args.csv)
    suite, limit = SUITES[args.tasks], limit_of(args, SUITES[args.tasks])
    title = f"{suite.title}, {len(rendered.items)} items, {rendered.prompt_tokens} prompt tokens"
    print(f"{title}: evalcard against {peer_name} ({setting}; {version})", flush=True)
    ours = {f"evalcard {name}": evalcard_side(args, suite, limit, None if name == PLAIN else name) for name in names}
    print("; ".join(f"evalcard {name}: head {head_of(name)}" for name in names), flush=True)
    referee = Referee(limits_of(args), lambda text: print(text, flush=True))
    heads = ", ".join(f"evalcard {name} {head_of(name)}" for name in names)
    facts = Facts(
        f"{suite.title}, whole commands", peer_name, version, f"{setting}; heads: {heads}", args.threads,
        args.model.name, limit or "all",
    )  # fmt: skip
    done = referee.rounds(ours, peer_name, peer, args.rounds, keeper(args.csv, facts))
    check_scores(done)
    report(done, title, peer_name)
