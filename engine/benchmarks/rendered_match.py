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

PLAIN = {"fp32": "float32", "bf16": "bfloat16"}
"""The model as it is, and the dtype it is computed in; schemes are computed in what evalcard finds best."""


def schemes(text: str) -> list[str]:
    """Schemes of evalcard separated by commas, or names of PLAIN; an unknown one is an argument's error."""
    found = [part.strip().lower() for part in text.split(",") if part.strip()]
    for name in found:
        if name not in PLAIN:
            try:
                parse_scheme(name)
            except EngineError as error:
                raise argparse.ArgumentTypeError(f"{error} {' and '.join(PLAIN)} are the model as it is.") from None
    if not found:
        raise argparse.ArgumentTypeError("no scheme is named; give some, such as w8a8,fp32")
    return list(dict.fromkeys(found))


def head_of(name: str) -> str:
    """The precision of evalcard's output head under a scheme, on a CPU."""
    bits = None if name in PLAIN else parse_scheme(name).head_bits
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
    ours = {
        f"evalcard {name}": evalcard_side(args, suite, limit, dtype=PLAIN[name])
        if name in PLAIN
        else evalcard_side(args, suite, limit, name)
        for name in names
    }
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
