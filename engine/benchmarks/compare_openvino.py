"""evalcard against OpenVINO GenAI's continuous batching on a GGUF of the same model: whole commands, the same prompts.

    python engine/benchmarks/compare_openvino.py --peer-python ENV/bin/python --gguf FILE.gguf --model DIR
        --data-root DIR [--tasks gsm8k|gsm8k_cot] [--schemes w8a8,bf16,fp32] [--limit N|all]
        [--csv results/benchmarks.csv]

The peer lives in an environment of its own: ``python -m venv ENV; ENV/bin/pip install openvino-genai``. It reads the
GGUF itself. Both sides get the token ids that evalcard renders, its stop strings and longest answer, and decode
greedily; evalcard's own filters and metrics score all answers. The peer's command loads the model, answers and ends;
evalcard's builds prompts, loads, rounds the weights, answers, grades and writes the card. The peer gives no
log-probabilities of given continuations, so only tasks that generate can be compared.

Weights and head are not of one precision on the two sides, which is printed: the peer's as the file stores them, the
head of evalcard's schemes in float32 unless the scheme names it (w8a8+head=w8). So answers differ by compression, too.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import rendered_match  # noqa: E402
from peer_lm_eval import versions  # noqa: E402
from rendered import render, script_side  # noqa: E402
from suites import SUITES, common_options, limit_of, resolved  # noqa: E402

PEER = "OpenVINO GenAI"


def precisions(gguf: Path) -> str:
    """How the file stores its matrices and its head, which is the embedding where it has none of its own."""
    from gguf import GGUFReader

    matrices = [tensor for tensor in GGUFReader(str(gguf)).tensors if len(tensor.shape) > 1]
    kinds = {tensor.name: tensor.tensor_type.name for tensor in matrices}
    head = kinds.get("output.weight") or f"{kinds['token_embd.weight']} (tied)"
    blocks = Counter(kind for name, kind in kinds.items() if name.startswith("blk."))
    return f"weights {'/'.join(kind for kind, _ in blocks.most_common())}, head {head}"


def parse() -> argparse.Namespace:
    parser = common_options(__doc__, ("gsm8k", "gsm8k_cot"), "gsm8k")
    parser.add_argument("--peer-python", required=True, help="interpreter of the environment that has openvino-genai")
    parser.add_argument("--gguf", type=Path, required=True, help="the same model as --model, as the peer reads it")
    parser.add_argument(
        "--schemes",
        type=rendered_match.schemes,
        default=["w8a8", "bf16", "fp32"],
        help="of evalcard; bf16 and fp32: the model as it is",
    )
    parser.add_argument("--cache-gib", type=int, default=4, help="memory of the peer's KV cache")
    args = resolved(parser.parse_args())
    args.gguf = args.gguf.resolve()
    if not args.gguf.is_file():
        raise SystemExit(f"--gguf {args.gguf} is no file; give the model as one GGUF file.")
    return args


def main() -> None:
    args = parse()
    version = versions(args.peer_python, "openvino-genai", "openvino")
    limit = limit_of(args, SUITES[args.tasks])
    rendered = render(args, SUITES[args.tasks], limit)
    script = Path(__file__).with_name("peer_openvino.py")
    command = [args.peer_python, str(script), str(args.gguf), str(args.cache_gib)]
    env = {"OMP_NUM_THREADS": str(args.threads), "PYTHONPATH": ""}
    peer = script_side(rendered, command, env)
    setting = f"{args.gguf.name}: {precisions(args.gguf)}; prefix caching"
    rendered_match.compare(args, rendered, args.schemes, PEER, version, setting, peer)


if __name__ == "__main__":
    main()
