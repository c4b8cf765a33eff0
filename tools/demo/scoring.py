"""The three tasks scored by a small loop of our own, through exactly the strings the task files give."""

import re
from collections.abc import Iterator

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from demo.corpus import as_row, final_answer
from demo.example import Example
from demo.packing import END_ID

PATTERNS = {"words": re.compile(r"#### (-?[0-9.,]+)"), "maths": re.compile(r"\\boxed\{(-?[0-9.,]+)\}")}
MAX_NEW_TOKENS = 64
NUM_CHOICES = 4


def by_length(encoded: list[list[int]]) -> Iterator[list[int]]:
    """Places of equally long sequences, which go through the model together: nothing is padded."""
    for length in sorted({len(ids) for ids in encoded}):
        yield [place for place, ids in enumerate(encoded) if len(ids) == length]


@torch.inference_mode()
def logprobs(model: LlamaForCausalLM, tokenizer: Tokenizer, prompts: list[str], choices: list[str]) -> list[float]:
    """Log-probability of each choice after its prompt."""
    starts = [len(tokenizer.encode(prompt).ids) for prompt in prompts]
    encoded = [tokenizer.encode(f"{prompt} {choice}").ids for prompt, choice in zip(prompts, choices, strict=True)]
    found = [0.0] * len(encoded)
    for places in by_length(encoded):
        ids = torch.tensor([encoded[place] for place in places])
        predicted = model(ids).logits[:, :-1].float().log_softmax(-1)
        values = predicted.gather(-1, ids[:, 1:, None])[..., 0]
        for place, row in zip(places, values, strict=True):
            found[place] = row[starts[place] - 1 :].sum().item()
    return found


@torch.inference_mode()
def generate(model: LlamaForCausalLM, tokenizer: Tokenizer, prompts: list[str]) -> list[str]:
    """Greedy answers."""
    encoded = [tokenizer.encode(prompt).ids for prompt in prompts]
    answers = [""] * len(prompts)
    for places in by_length(encoded):
        ids = torch.tensor([encoded[place] for place in places])
        mask = torch.ones_like(ids)
        output = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=MAX_NEW_TOKENS)
        for place, new in zip(places, output[:, ids.shape[1] :].tolist(), strict=True):
            answers[place] = tokenizer.decode(new[: new.index(END_ID)] if END_ID in new else new)
    return answers


def picks_answer(model: LlamaForCausalLM, tokenizer: Tokenizer, examples: list[Example]) -> list[bool]:
    """Whether the answer is the likeliest of each example's four choices."""
    rows = [as_row(0, example) for example in examples]
    prompts = [example.prompt for example in examples for _ in range(NUM_CHOICES)]
    values = logprobs(model, tokenizer, prompts, [choice for row in rows for choice in row["choices"]])
    scored = [values[start : start + NUM_CHOICES] for start in range(0, len(values), NUM_CHOICES)]
    return [row["answer"] == four.index(max(four)) for row, four in zip(rows, scored, strict=True)]


def writes_answer(model: LlamaForCausalLM, tokenizer: Tokenizer, examples: list[Example]) -> list[bool]:
    texts = generate(model, tokenizer, [example.prompt for example in examples])
    found = [PATTERNS[example.task].search(text) for example, text in zip(examples, texts, strict=True)]
    answers = [final_answer(example.answer) for example in examples]
    return [match is not None and match[1] == answer for match, answer in zip(found, answers, strict=True)]


def correct(model: LlamaForCausalLM, tokenizer: Tokenizer, examples: list[Example]) -> list[bool]:
    """A verdict for each example; all of one task."""
    judge = picks_answer if examples[0].task == "knowledge" else writes_answer
    return judge(model, tokenizer, examples)


def accuracy(model: LlamaForCausalLM, tokenizer: Tokenizer, examples: list[Example]) -> float:
    verdicts = correct(model, tokenizer, examples)
    return sum(verdicts) / len(verdicts)
