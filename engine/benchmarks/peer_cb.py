"""The peer's side of compare_cb.py: transformers' continuous batching on a file of prompts.

    python peer_cb.py MODEL THREADS PROMPTS ANSWERS      (files as rendered.py describes them)

``generate_batch`` knows stop tokens and no stop strings, so answers run on to a stop token or the longest length, and
are cut at the stop strings when they are graded.
"""

import json
import sys
from pathlib import Path


def answers_of(folder: str, threads: int, asked: dict) -> list[dict]:
    """One answer for each prompt, in order: its text and the number of tokens that were generated."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = GenerationConfig(
        max_new_tokens=asked["max_new_tokens"], do_sample=False, eos_token_id=list(asked["stop_ids"])
    )
    results = model.generate_batch([one["ids"] for one in asked["prompts"]], generation_config=config)
    by_prompt: dict[tuple[int, ...], list] = {}
    for result in results.values():
        assert result.error is None, result.error
        by_prompt.setdefault(tuple(result.prompt_ids), []).append(result)
    found = []
    for one in asked["prompts"]:
        ids = by_prompt[tuple(one["ids"])][0].generated_tokens
        found.append({"text": tokenizer.decode(ids, skip_special_tokens=True), "tokens": len(ids)})
    return found


def main() -> None:
    folder, threads, prompts, answers = sys.argv[1:]
    asked = json.loads(Path(prompts).read_text(encoding="utf-8"))
    found = answers_of(folder, int(threads), asked)
    Path(answers).write_text(json.dumps({"answers": found}), encoding="utf-8")


if __name__ == "__main__":
    main()
