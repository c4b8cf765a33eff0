"""The peer's side of compare_openvino.py, run by an interpreter that has openvino-genai and need not have evalcard.

    ENV/bin/python peer_openvino.py GGUF CACHE_GIB PROMPTS ANSWERS      (files as rendered.py describes them)

All prompts are handed over in one call, as ids, so that both sides read the same tokens; prefix caching is on, which is
to the peer's advantage where shots are shared.
"""

import json
import sys
from pathlib import Path


def answers_of(gguf: str, cache_gib: int, asked: dict) -> list[dict]:
    """One answer for each prompt, in order: its text and the number of tokens that were generated."""
    import numpy
    import openvino
    import openvino_genai as genai

    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = cache_gib
    scheduler.enable_prefix_caching = True
    pipeline = genai.ContinuousBatchingPipeline(gguf, scheduler, "CPU", {})
    config = genai.GenerationConfig()
    config.max_new_tokens = asked["max_new_tokens"]
    config.stop_strings = set(asked["until"])
    config.stop_token_ids = set(asked["stop_ids"])
    config.do_sample = False
    inputs = [openvino.Tensor(numpy.array([one["ids"]], dtype=numpy.int64)) for one in asked["prompts"]]
    results = pipeline.generate(inputs, [config] * len(inputs))
    tokenizer = pipeline.get_tokenizer()
    found = []
    for result in sorted(results, key=lambda result: result.m_request_id):
        (ids,) = result.m_generation_ids
        found.append({"text": tokenizer.decode(ids), "tokens": len(ids)})
    assert len(found) == len(inputs), (len(found), len(inputs))
    return found


def main() -> None:
    gguf, cache_gib, prompts, answers = sys.argv[1:]
    asked = json.loads(Path(prompts).read_text(encoding="utf-8"))
    found = answers_of(gguf, int(cache_gib), asked)
    Path(answers).write_text(json.dumps({"answers": found}), encoding="utf-8")


if __name__ == "__main__":
    main()
