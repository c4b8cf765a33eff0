"""evalcard against transformers' own continuous batching (``model.generate_batch``), both in float32: whole commands.

    python engine/benchmarks/compare_cb.py --model DIR --data-root DIR [--tasks gsm8k|gsm8k_cot] [--limit N|all]
        [--cap SECONDS] [--csv results/benchmarks.csv]

The peer gets the token ids that evalcard renders and its longest answer, decodes greedily, and is scored by evalcard's
own filters and metrics. It knows no stop strings, so it writes on where evalcard stops; the tokens of both are printed.
On a CPU it is slow: beyond --cap seconds it is ended, and the ratio is stated as "at least".
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import rendered_match  # noqa: E402
from peer_lm_eval import versions  # noqa: E402
from rendered import render, script_side  # noqa: E402
from suites import SUITES, common_options, limit_of, resolved  # noqa: E402

PEER = "transformers generate_batch"


def parse() -> argparse.Namespace:
    parser = common_options(__doc__, ("gsm8k", "gsm8k_cot"), "gsm8k")
    parser.add_argument("--cap", type=float, default=900.0, help="seconds after which the peer is ended")
    args = resolved(parser.parse_args())
    if args.cap <= 0:
        raise SystemExit(f"--cap is {args.cap:g} seconds; it must be more than 0.")
    return args


def main() -> None:
    args = parse()
    rendered = render(args, SUITES[args.tasks], limit_of(args, SUITES[args.tasks]))
    script = Path(__file__).with_name("peer_cb.py")
    command = [sys.executable, str(script), str(args.model), str(args.threads)]
    env = {"OMP_NUM_THREADS": str(args.threads), "HF_HUB_OFFLINE": "1"}
    peer = script_side(rendered, command, env, args.cap)
    version = versions(sys.executable, "transformers", "torch")
    rendered_match.compare(args, rendered, ["fp32"], PEER, version, "float32, no stop strings", peer)


if __name__ == "__main__":
    main()
