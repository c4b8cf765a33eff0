"""evalcard against lm-eval's ``hf`` model: whole commands, the same items, taking turns in one run.

    python engine/benchmarks/compare_hf.py --model DIR --data-root DIR [--tasks mmlu|gsm8k|gsm8k_cot]
        [--limit N|all] [--spread-items N] [--csv results/benchmarks.csv]

The peer's best dtype and batch size are looked for first, on a few items: all dtypes at the middle batch size, then the
other batch sizes in the best dtype. Then the commands take turns for --rounds rounds, and the median of the ratios
counts. With --spread-items the rounds are on that many items of each task, which tells the spread cheaply, and one more
round on all that --limit allows is the figure that counts.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import lm_eval_match  # noqa: E402
from ab_rounds import Referee  # noqa: E402
from peer_lm_eval import Peer, lm_eval_side  # noqa: E402
from suites import SUITES, Suite, common_options, limit_of, resolved  # noqa: E402


def best_peer(args: argparse.Namespace, suite: Suite, referee: Referee) -> Peer:
    """The fastest setting on the first items of each task; not probed where there is only one."""
    seconds: dict[Peer, float] = {}
    batches = args.batches or list(suite.batches)
    middle = batches[len(batches) // 2]

    def fastest(candidates: list[Peer]) -> Peer:
        for peer in candidates:
            if peer not in seconds:
                seconds[peer] = referee.run(lm_eval_side(args, peer, suite, probe_items)).seconds
                print(f"lm_eval hf, {peer.setting}, {probe_items} items a task: {seconds[peer]:7.1f} s", flush=True)
        return min(candidates, key=seconds.__getitem__)

    if len(batches) == len(args.dtypes) == 1:
        return Peer(batch=batches[0], dtype=args.dtypes[0])
    limit = limit_of(args, suite)
    probe_items = min(args.probe_items or suite.probe_items, limit or sys.maxsize)
    dtype = fastest([Peer(batch=middle, dtype=dtype) for dtype in args.dtypes]).dtype
    return fastest([Peer(batch=batch, dtype=dtype) for batch in batches])


def parse() -> argparse.Namespace:
    parser = common_options(__doc__, tuple(SUITES), "mmlu")
    parser.add_argument("--batches", type=lambda text: [int(part) for part in text.split(",")], help="to be probed")
    parser.add_argument("--dtypes", type=lambda text: text.split(","), default=["float32", "bfloat16"])
    parser.add_argument("--probe-items", type=int, help="items of each task for finding the peer's best setting")
    parser.add_argument("--spread-items", type=int, help="items of each task in the rounds for the spread")
    return resolved(parser.parse_args())


def main() -> None:
    args = parse()
    lm_eval_match.compare(args, "lm_eval hf", ("lm_eval", "transformers"), best_peer, args.spread_items)


if __name__ == "__main__":
    main()
