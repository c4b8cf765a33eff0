"""Run by an interpreter that has llm-compressor, as a script: a job as JSON in, a compressed checkpoint out.

It imports nothing of evalcard, and nothing but the standard library before it has a job.
"""

import importlib
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("llmcompressor", "compressed-tensors", "transformers", "torch")


def versions() -> dict[str, str | None]:
    """Of the packages that calibrate; None for what is missing."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def token_rows(job: dict[str, Any], tokenizer: Any) -> list[list[int]]:
    """Token ids of every sample, at most max_seq_len each; a whole text is cut into windows of that length."""
    limit = job["max_seq_len"]
    if "whole" in job:
        ids = tokenizer(job["whole"], add_special_tokens=False)["input_ids"]
        windows = [ids[begin : begin + limit] for begin in range(0, len(ids), limit)]
        # The last window is short; it counts only where it is all there is.
        full = [window for window in windows if len(window) == limit] or windows
        step = max(1, len(full) // job["samples"])
        return full[::step][: job["samples"]]
    rows = []
    for sample in job["texts"]:
        is_chat = isinstance(sample, list)
        text = tokenizer.apply_chat_template(sample, tokenize=False) if is_chat else sample
        rows.append(tokenizer(text, add_special_tokens=not is_chat)["input_ids"][:limit])
    return [row for row in rows if row]


def recipe(job: dict[str, Any]) -> list[Any]:
    """llm-compressor's modifiers of a method."""
    modifiers = "llmcompressor.modifiers"
    settings = {"config_groups": job["config_groups"], "ignore": job["ignore"]}
    method = job["method"]
    if method == "awq":
        awq = importlib.import_module(f"{modifiers}.transform.awq").AWQModifier()
        return [awq, importlib.import_module(f"{modifiers}.quantization").QuantizationModifier(**settings)]
    gptq = importlib.import_module(f"{modifiers}.gptq").GPTQModifier(**settings)
    if method == "gptq":
        return [gptq]
    assert method == "smoothquant", method
    smooth = importlib.import_module(f"{modifiers}.transform.smoothquant").SmoothQuantModifier
    return [smooth(smoothing_strength=job["smoothing"]), gptq]


def leave_memory_unpinned(torch: Any) -> None:
    """AWQ of llm-compressor 0.14 pins memory for a GPU even where there is none, which torch refuses; it changes no
    number."""
    if not torch.accelerator.is_available():
        torch.Tensor.pin_memory = lambda tensor, *_: tensor


def run(job: dict[str, Any]) -> dict[str, int]:
    """Compress and save; returns what it was calibrated with."""
    transformers = importlib.import_module("transformers")
    llmcompressor = importlib.import_module("llmcompressor")
    dataset = importlib.import_module("datasets").Dataset
    leave_memory_unpinned(importlib.import_module("torch"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["model"])
    model = transformers.AutoModelForCausalLM.from_pretrained(job["model"], dtype="auto")
    rows = token_rows(job, tokenizer)
    data = dataset.from_list([{"input_ids": row, "attention_mask": [1] * len(row)} for row in rows])
    llmcompressor.oneshot(
        model=model,
        recipe=recipe(job),
        dataset=data,
        max_seq_length=job["max_seq_len"],
        num_calibration_samples=len(rows),
    )
    model.save_pretrained(job["out"], save_compressed=True)
    return {"samples": len(rows), "tokens": sum(map(len, rows))}


def main(arguments: list[str]) -> None:
    if arguments == ["--versions"]:
        print(json.dumps(versions()))
        return
    job = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    Path("done.json").write_text(json.dumps(run(job)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
