"""A whole comparison with one of lm-eval's models, from the probe to the rows; compare_hf.py and compare_vllm.py."""

import argparse
import sys
from collections.abc import Callable, Sequence

from ab_rounds import Referee, Round  # beside this file
from benchmark_rows import Facts, check_table, keeper
from peer_lm_eval import Peer, lm_eval_side, versions
from report_rounds import check_scores, report
from suites import SUITES, Suite, evalcard_side, limit_of, limits_of

Choose = Callable[[argparse.Namespace, Suite, Referee], Peer]


def compare(
    args: argparse.Namespace, name: str, packages: Sequence[str], choose: Choose, spread_items: int | None
) -> None:
    """Let both sides take turns and print the ratio; with ``spread_items`` the last round alone is on all items."""
    if args.csv:
        check_table(args.csv)
    version = versions(getattr(args, "peer_python", sys.executable), *packages)
    suite, referee = SUITES[args.tasks], Referee(limits_of(args), lambda text: print(text, flush=True))
    peer = choose(args, suite, referee)
    print(f"{suite.title}: evalcard against {name} ({peer.setting}; {version})", flush=True)

    def play(limit: int | None, rounds: int) -> list[Round]:
        ours = {"evalcard": evalcard_side(args, suite, limit)}
        facts = Facts(
            f"{suite.title}, whole commands", name, version, peer.setting, args.threads, args.model.name,
            limit or "all", peer.batch,
        )  # fmt: skip
        their = lm_eval_side(args, peer, suite, limit, getattr(args, "cap", None))
        done = referee.rounds(ours, name, their, rounds, keeper(args.csv, facts))
        check_scores(done)
        report(done, f"{suite.title}, {limit or 'all'} items a task", name)
        return done

    limit = limit_of(args, suite)
    if spread_items:
        play(spread_items, args.rounds)
    play(limit, 1 if spread_items else args.rounds)
