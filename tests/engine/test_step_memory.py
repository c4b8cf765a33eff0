"""Memory ends in the middle of a run: half as many tokens to a forward, the same answers, and nothing lost."""

from dataclasses import replace

import pytest
import torch

from evalcard_engine.errors import OutOfMemory
from evalcard_engine.request import Generate, Sampling, Score
from evalcard_engine.sequence import Sequence
from evalcard_engine.step import Chunk, Copy, Step
from evalcard_engine.step_memory import is_out_of_memory, pieces

CPU_ERROR = (
    "[enforce fail at alloc_cpu.cpp:128] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "4096 bytes. Error code 12 (Cannot allocate memory)"
)
ERRORS = [
    MemoryError(),
    RuntimeError(CPU_ERROR),
    RuntimeError("could not create a primitive"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"),
]


def requests() -> list[Generate | Score]:
    """Greedy, sampled and scored ones with a shared beginning, which is copied from page to page."""
    stem = tuple(i % 7 for i in range(10))
    made: list[Generate | Score] = []
    for i in range(12):
        prompt = (*stem, *(j % 5 for j in range(i)), i)
        made.append(Generate(f"g{i}", prompt, 6))
        made.append(Generate(f"s{i}", prompt, 6, sampling=Sampling(temperature=0.8, seed=1, item_key=i)))
        made.append(Score(f"c{i}", prompt, (3, 1, 4)))
    return made


def by_id(answers) -> dict:
    return {answer.id: replace(answer, cached_tokens=0) for answer in answers}


def limited(model, most: int, error: Exception):
    """Raises, after half of the keys and values are written, in any forward of more than ``most`` tokens."""

    def check(batch) -> None:
        if len(batch.token_ids) > most:
            half = len(batch.token_ids) // 2
            model.pools[-1].tokens.view(-1)[batch.slots[:half]] = batch.token_ids[:half]
            raise error

    model.on_forward = check
    return model


@pytest.mark.parametrize("error", ERRORS, ids=["python", "torch cpu", "onednn", "torch cuda"])
@pytest.mark.parametrize("most", [9, 3, 1])
def test_the_answers_are_the_same_and_none_is_lost(open_fake, fake_model, most, error):
    expected = by_id(open_fake().run(requests()))
    engine = open_fake(limited(fake_model(), most, error))
    assert by_id(engine.run(requests())) == expected and len(expected) == 36
    assert most // 2 < engine.stats.forward_tokens <= most
    assert engine.stats.memory_halvings >= 1


def test_what_was_learned_of_memory_is_kept(open_fake, fake_model):
    model = limited(fake_model(), 5, MemoryError())
    engine = open_fake(model)
    first = by_id(engine.run(requests()))
    halvings = engine.stats.memory_halvings
    assert by_id(engine.run(requests())) == first
    assert engine.stats.memory_halvings == halvings > 0


def test_without_trouble_nothing_is_halved(open_fake):
    engine = open_fake()
    list(engine.run(requests()))
    assert (engine.stats.memory_halvings, engine.stats.forward_tokens) == (0, 16)


def test_books_balance_with_pieces_too(open_fake, fake_model):
    engine = open_fake(limited(fake_model(), 5, MemoryError()), kv_memory=8 * 4 * 400)
    answers = by_id(engine.run(requests())).values()
    stats = engine.stats
    fed_back = sum(len(answer.token_ids) - 1 for answer in answers if hasattr(answer, "token_ids"))
    assert stats.preemptions == 0
    assert stats.computed_tokens + stats.cached_tokens + stats.merged_tokens == stats.prompt_tokens + fed_back


def test_where_halving_ends_the_figures_are_told_and_answers_are_out(open_fake, fake_model):
    model, calls = fake_model(), []

    def fail_later(batch) -> None:
        calls.append(len(batch.token_ids))
        if len(calls) > 30:
            raise RuntimeError(CPU_ERROR)

    model.on_forward = fail_later
    engine, answered = open_fake(model), []
    with pytest.raises(OutOfMemory, match=r"forward of one token.*can't allocate.*cache takes [\d,]+ bytes and [\d,]+"):
        for answer in engine.run(requests()):
            answered.append(answer)  # noqa: PERF402 - those before the error count
    assert answered and calls[30:] == [calls[30] >> n for n in range(len(calls[30:]))] and calls[-1] == 1
    model.on_forward = lambda batch: None
    expected = by_id(open_fake().run(requests()))
    assert by_id(answered).items() <= expected.items()
    assert by_id(engine.run(requests())) == expected


def test_a_kv_cache_that_cannot_be_had(open_fake, fake_model):
    model = fake_model()

    def refuse(num_pages: int, page_size: int):
        raise RuntimeError(CPU_ERROR)

    engine, model.make_pool = open_fake(model), refuse
    with pytest.raises(OutOfMemory, match=r"KV cache of [\d,]+ bytes cannot be had, [\d,]+ bytes are free"):
        list(engine.run(requests()))


def test_no_memory_to_look_for_a_fault_in(open_fake, fake_model):
    model = fake_model()
    model.change = lambda history, logits: logits * float("nan")

    def check(batch) -> None:
        if len(model.pools) > 1:
            raise RuntimeError(CPU_ERROR)

    model.on_forward = check
    (answer,) = open_fake(model).run([Generate("a", (1, 2), 2)])
    assert answer.finish == "error" and "no memory left to find out" in answer.fault


def test_other_errors_are_not_taken_for_it(open_fake, fake_model):
    engine = open_fake(limited(fake_model(), 3, RuntimeError("shapes cannot be multiplied")))
    with pytest.raises(RuntimeError, match="shapes"):
        list(engine.run(requests()))
    assert engine.stats.memory_halvings == 0
    assert all(map(is_out_of_memory, ERRORS)) and not is_out_of_memory(ValueError("out of memory"))


def test_drafts_go_where_they_do_not_fit():
    sequence = Sequence((1, 2, 3), 2, 20)
    step = Step(0, 0, chunks=[Chunk(sequence, 2, 3, 2, (4, 5, 6))])
    assert step.num_tokens == 1 and step.num_rows == 4
    for most in range(1, 6):
        (piece,) = pieces(step, most)
        assert piece.chunks == [Chunk(sequence, 2, 3, 2, (4, 5, 6) if most >= 4 else ())]


def test_pieces_hold_every_token_once_in_order_and_copies_first():
    sequences = [Sequence(tuple(range(length)), length - 2, length) for length in (7, 1, 9)]
    chunks = [Chunk(one, 0, one.num_tokens, max(0, one.next_logits)) for one in sequences]
    step = Step(0, 0, chunks=chunks, copies=[Copy(0, 1, 2)], cached_tokens=5, preemptions=1)
    for most in range(1, 20):
        found = pieces(step, most)
        assert [(id(c.sequence), p) for piece in found for c in piece.chunks for p in range(c.start, c.stop)] == [
            (id(c.sequence), p) for c in chunks for p in range(c.start, c.stop)
        ]
        rows = [(id(c.sequence), p) for piece in found for c in piece.chunks for p in range(c.logits_start, c.stop)]
        assert rows == [(id(c.sequence), p) for c in chunks for p in range(c.logits_start, c.stop)]
        assert all(0 < piece.num_tokens <= most for piece in found) and len(found) == -(-17 // most)
        assert found[0].copies == step.copies and not any(piece.copies for piece in found[1:])
        assert sum(piece.cached_tokens for piece in found) == 5 and sum(piece.preemptions for piece in found) == 1
