"""Makes the bundled demo model and its test items from nothing: python tools/train_demo.py --minutes 26

Two CPU cores do. The data come from a fixed seed; the time budget decides how many steps are taken, so another machine
ends with other weights. Stopped in the middle, the same command goes on from its last checkpoint.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from demo import corpus, vocabulary, world
from demo.exporting import export, write_card
from demo.network import new_model
from demo.scoring import accuracy
from demo.training import Plan, Progress, train
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parents[1]
ITEMS = ROOT / "tasks" / "data" / "evalcard" / "demo"
MODEL = ROOT / "evalcard" / "demo" / "model"
WORK = Path(tempfile.gettempdir()) / "evalcard-demo-training"
CHUNKS_FOR_VOCABULARY = 24


def main() -> None:
    args = parse()
    corpus.write_items(ITEMS)
    if args.items_only:
        return
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary.build(
        example.prompt + example.continuation
        for index in range(CHUNKS_FOR_VOCABULARY)
        for example in corpus.chunk(index)
    )
    model = new_model(tokenizer.get_vocab_size(), corpus.SEED)
    parameters = model.num_parameters()
    print(f"{tokenizer.get_vocab_size()} tokens, {parameters:,} parameters", flush=True)
    progress = train(model, tokenizer, Plan(args.minutes * 60), args.work / "checkpoint.pt")
    export(model, tokenizer, args.model)
    counts = corpus.prove_unseen(progress.chunks)
    for what, count in sorted(counts.items()):
        print(f"{count:9,} {what}", flush=True)
    scores = score(args.model, tokenizer)
    write_card(
        args.model,
        parameters=parameters,
        vocab=tokenizer.get_vocab_size(),
        people=world.NUM_PEOPLE,
        items=counts["test items"],
        **training_facts(progress),
        scores=", ".join(f"{task} {share:.1%}" for task, share in scores.items()),
    )


def score(folder: Path, tokenizer: Tokenizer) -> dict[str, float]:
    """Accuracy of the stored model on all test items, run in float32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    scores = {}
    for task in corpus.TESTS:
        scores[task] = accuracy(model, tokenizer, corpus.held_out(task, corpus.NUM_ITEMS))
        print(f"{task:10} {scores[task]:.1%}", flush=True)
    return scores


def training_facts(progress: Progress) -> dict:
    return {"minutes": progress.seconds / 60, "steps": progress.steps, "examples": progress.chunks * corpus.CHUNK}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=26, help="time spent in training steps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK, help="folder for checkpoints")
    parser.add_argument("--model", type=Path, default=MODEL, help="folder to write the model to")
    parser.add_argument("--items-only", action="store_true", help="only write the test items")
    return parser.parse_args()


if __name__ == "__main__":
    main()
