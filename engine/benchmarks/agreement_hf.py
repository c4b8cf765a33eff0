"""Does evalcard say what lm-eval's ``hf`` model says in float32, item by item?

    python engine/benchmarks/agreement_hf.py --model DIR --data-root DIR --limit 40

For MMLU the chosen letters and log-probabilities are compared, for GSM8K the greedy texts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from peer_lm_eval import PeerRun, read_samples, run_peer  # noqa: E402

MMLU = ["mmlu_abstract_algebra", "mmlu_anatomy", "mmlu_marketing"]


@dataclass(frozen=True)
class Agreement:
    """Counts over the items of the scored and of the generated tasks."""

    scored_items: int
    same_choice: int
    largest_difference: float
    """Largest absolute difference of a log-probability, nats."""
    generated_items: int
    same_text: int
    other_texts: tuple[tuple[int, str, str], ...]
    """(item, ours, theirs) where the texts differ."""


def our_samples(model: Path, tasks: list[str], data_root: Path, out: Path, limit: int, threads: int) -> dict:
    """Run the whole command with the baseline alone; samples by task, in document order."""
    command = [
        sys.executable, "-m", "evalcard", "run", "--baseline", str(model), "--tasks", ",".join(tasks),
        "--num-fewshot", "5", "--limit-per-subtask", str(limit), "--data-root", str(data_root), "--out", str(out),
        "--dtype", "float32", "--threads", str(threads), "--quiet",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    if done.returncode:
        raise RuntimeError(f"evalcard failed with {done.returncode}:\n{done.stderr[-3000:]}")
    return {task: read_ours(out, task) for task in tasks}


def read_ours(out: Path, task: str) -> list[dict]:
    (path,) = out.glob(f"*/samples/*/{task}.jsonl")
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    return sorted(samples, key=lambda sample: sample["item_id"])


def agreement(ours: dict[str, list[dict]], theirs: PeerRun) -> Agreement:
    """Pair by document; an item that one side lacks is an error."""
    scored = same_choice = generated = same_text = 0
    largest, others = 0.0, []
    for task, samples in ours.items():
        peers = theirs.samples[task]
        assert [s["item_id"] for s in samples] == [s["doc_id"] for s in peers], task
        for mine, peer in zip(samples, peers, strict=True):
            if mine["choices"] is None:
                text = peer["resps"][0][0]
                generated, same_text = generated + 1, same_text + (text == mine["text"])
                others += [] if text == mine["text"] else [(mine["item_id"], mine["text"], text)]
                continue
            mine_logprobs = [choice["logprob"] for choice in mine["choices"]]
            peer_logprobs = [float(response[0][0]) for response in peer["resps"]]
            scored += 1
            same_choice += best(mine_logprobs) == best(peer_logprobs)
            pairs = zip(mine_logprobs, peer_logprobs, strict=True)
            largest = max(largest, *(abs(a - b) for a, b in pairs))
    return Agreement(scored, same_choice, largest, generated, same_text, tuple(others))


def best(values: list[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def explain(ours: str, theirs: str) -> str:
    """Where two texts part."""
    same = os.path.commonprefix([ours, theirs])
    return (f"equal for {len(same)} of {len(ours)} and {len(theirs)} characters, then {ours[len(same) :][:40]!r} "
            f"against {theirs[len(same) :][:40]!r}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=40, help="items a task")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--peer-out", type=Path, nargs="*", default=[], help="finished output folders of the peer")
    parser.add_argument("--our-out", type=Path, help="a finished results root")
    args = parser.parse_args()
    tasks = [*MMLU, "gsm8k"]
    with tempfile.TemporaryDirectory() as scratch:
        if args.our_out:
            ours = {task: read_ours(args.our_out, task) for task in tasks}
        else:
            out = Path(scratch) / "ours"
            ours = our_samples(args.model, tasks, args.data_root, out, args.limit, args.threads)
        theirs = peer_results(args, tasks, Path(scratch))
    report(agreement(ours, theirs))


def peer_results(args: argparse.Namespace, tasks: list[str], scratch: Path) -> PeerRun:
    if not args.peer_out:
        options = {"batch": 8, "limit": args.limit, "threads": args.threads}
        return run_peer(args.model, tasks, args.data_root, scratch / "peer", **options)
    samples = {}
    for task in tasks:
        (folder,) = {p.parent for out in args.peer_out for p in out.rglob(f"samples_local_{task}_*.jsonl")}
        samples[task] = read_samples(folder, task)
    return PeerRun(samples)


def report(found: Agreement) -> None:
    print(f"scored items: {found.scored_items}, same choice {found.same_choice}, "
          f"largest log-probability difference {found.largest_difference:.2e}")  # fmt: skip
    print(f"generated items: {found.generated_items}, same text {found.same_text}")
    for item, ours, theirs in found.other_texts:
        print(f"  item {item}: {explain(ours, theirs)}")


if __name__ == "__main__":
    main()
