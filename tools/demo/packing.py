"""Examples to rows of tokens: several examples a row, each seeing itself only."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor

from demo.corpus import stream
from demo.example import Example

ROW_LEN = 192
END_ID = 0
IGNORED = -100


class Batch(NamedTuple):
    """All int64 of shape [rows, ROW_LEN], but `visible` [rows, 1, ROW_LEN, ROW_LEN] bool."""

    ids: Tensor
    labels: Tensor
    """The next token where it belongs to an answer or statement, else IGNORED."""
    positions: Tensor
    visible: Tensor


def encode(tokenizer: Tokenizer, examples: list[Example]) -> Iterator[tuple[list[int], list[int]]]:
    """Ids with the end token, and labels already shifted by one."""
    prompts = tokenizer.encode_batch_fast([example.prompt for example in examples])
    answers = tokenizer.encode_batch_fast([example.continuation for example in examples])
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = [*prompt.ids, *answer.ids, END_ID]
        skipped = max(len(prompt.ids) - 1, 0)
        yield ids, [IGNORED] * skipped + ids[skipped + 1 :] + [IGNORED]


def pack(
    encoded: Iterable[tuple[list[int], list[int]]], num_open: int = 8
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Fills `num_open` rows first-fit, yields one when it has to make room, drops those still open at the end."""
    rows: list[list] = [[] for _ in range(num_open)]
    used = [0] * num_open
    for ids, labels in encoded:
        fits = [row for row in range(num_open) if used[row] + len(ids) <= ROW_LEN]
        row = fits[0] if fits else used.index(max(used))
        if not fits:
            yield rows[row]
            rows[row], used[row] = [], 0
        rows[row].append((ids, labels))
        used[row] += len(ids)


def collate(rows: list[list[tuple[list[int], list[int]]]]) -> Batch:
    shape = len(rows), ROW_LEN
    ids, positions, owners = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
    labels = torch.full(shape, IGNORED)
    for row, parts in enumerate(rows):
        start = 0
        for owner, (part_ids, part_labels) in enumerate(parts, 1):
            span = slice(start, start + len(part_ids))
            ids[row, span], labels[row, span] = torch.tensor(part_ids), torch.tensor(part_labels)
            positions[row, span], owners[row, span] = torch.arange(len(part_ids)), owner
            start = span.stop
    causal = torch.ones(ROW_LEN, ROW_LEN, dtype=torch.bool).tril()
    visible = (owners[:, :, None] == owners[:, None, :]) & causal
    return Batch(ids, labels, positions, visible[:, None])


def batches(tokenizer: Tokenizer, rows_per_batch: int, first_chunk: int = 0) -> Iterator[tuple[int, Batch]]:
    """(chunks taken so far, batch), without end."""
    rows: list = []
    for taken, examples in enumerate(stream(first_chunk), first_chunk + 1):
        for row in pack(encode(tokenizer, examples)):
            rows.append(row)
            if len(rows) == rows_per_batch:
                yield taken, collate(rows)
                rows = []
