"""Text -> token ids, equal to what the harness's hf model makes, each distinct piece encoded once."""

import itertools
from collections.abc import Sequence
from typing import Any

from evalcard.errors import UserError
from evalcard.tasks.prompts.segments import cut, last_cut, may_cut, may_cut_wide

Ids = tuple[int, ...]


class Encoder:
    """inner: a transformers tokenizer; prefix_id: what stands in for an empty context (BOS, else EOS); add_bos: what
    the tokenizer's configuration says of BOS, None where it says nothing."""

    def __init__(self, inner: Any, prefix_id: int | None, add_bos: bool | None = None):
        self.inner = inner
        self.prefix_id = prefix_id
        self.backend = inner.backend_tokenizer if getattr(inner, "is_fast", False) else None
        """The ``tokenizers.Tokenizer`` inside; None for slow ones."""
        if self.backend is not None:
            self.backend.no_truncation()
            self.backend.no_padding()
        self._prefix_text = None if prefix_id is None else inner.decode([prefix_id])
        self.may_cut = may_cut(inner, self.backend)
        self.is_wide = self.may_cut and may_cut_wide(inner)
        bos = inner.bos_token_id
        adds_bos = bos is not None and self._special_ids("a")[:1] == [bos]
        self.added_bos: int | None = bos if add_bos is True and not adds_bos else None
        """BOS where the configuration asks for it and the tokenizer as it was loaded puts none: transformers 5 looks at
        ``add_bos_token`` for a few model families only."""
        self.dropped_bos: int | None = bos if add_bos is False and adds_bos else None
        """BOS where the configuration forbids it and the tokenizer puts one."""

    def encode_many(self, texts: Sequence[str], special: bool | None = None) -> list[Ids]:
        """Ids of each text. ``special`` None adds the tokenizer's own special tokens, except before a text that
        already begins with the BOS text: there is exactly one.

        Texts are cut where the tokenizer cannot join tokens, and each distinct piece is encoded once: the shots of a
        task are the same in all its prompts. A few texts are checked against whole encoding every time.
        """
        plans = [self._plan(text, special) for text in texts]
        known = self._encode_pieces({piece for plan in plans for piece in plan})
        found = [_joined(plan, known) for plan in plans]
        if self.may_cut:
            probes = range(0, len(texts), max(1, len(texts) // 3))
            whole = self._encode_pieces({(texts[i], self._is_special(texts[i], special)) for i in probes})
            if any(whole[texts[i], self._is_special(texts[i], special)] != found[i] for i in probes):
                self.may_cut = False
                return self.encode_many(texts, special)
        return found

    def _is_special(self, text: str, special: bool | None) -> bool:
        if special is not None:
            return special
        return not (self._prefix_text and text.startswith(self._prefix_text))

    def _plan(self, text: str, special: bool | None) -> list[tuple[str, bool]]:
        pieces = cut(text, self.is_wide) if self.may_cut else [text]
        return [(piece, index == 0 and self._is_special(text, special)) for index, piece in enumerate(pieces)]

    def _encode_pieces(self, wanted: set[tuple[str, bool]]) -> dict[tuple[str, bool], Ids]:
        known: dict[tuple[str, bool], Ids] = {}
        for special in (True, False):
            batch = [text for text, flag in wanted if flag is special]
            if not batch:
                continue
            try:
                rows = self._encode_batch(batch, special)
            except (TypeError, UnicodeEncodeError):
                _refuse_surrogates(batch)
                raise
            known |= {(text, special): tuple(ids) for text, ids in zip(batch, rows, strict=True)}
        return known

    def _encode_batch(self, batch: list[str], special: bool) -> list[list[int]]:
        if self.backend is not None:
            rows = [one.ids for one in self.backend.encode_batch_fast(batch, add_special_tokens=special)]
        else:
            rows = [self.inner.encode(text, add_special_tokens=special) for text in batch]
        if special and self.added_bos is not None:
            return [[self.added_bos, *row] for row in rows]
        if special and self.dropped_bos is not None:
            return [row[1:] if row[:1] == [self.dropped_bos] else row for row in rows]
        return rows

    def _special_ids(self, text: str) -> list[int]:
        if self.backend is not None:
            return self.backend.encode(text, add_special_tokens=True).ids
        return self.inner.encode(text, add_special_tokens=True)

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[Ids, Ids, bool]]:
        """(context ids, continuation ids, merged) of each (context, continuation), as the harness splits them.

        Spaces at the end of the context belong to the continuation. The ids are those of the whole text, parted at
        the context's length. Where one token spans the border and nothing is left for the continuation, it is encoded
        by itself and ``merged`` is true. An empty context becomes the BOS (or EOS) id.
        """
        moved = [_move_spaces(context, continuation) for context, continuation in pairs]
        contexts = list(dict.fromkeys(context for context, _ in moved if context))
        context_ids = dict(zip(contexts, self.encode_many(contexts), strict=True))
        wholes = self._encode_tails([(c, t) for c, t in moved if c], context_ids)
        alone = self.encode_many([t for _, t in moved], special=False) if any(not c for c, _ in moved) else []
        found = []
        position = 0
        for index, (context, continuation) in enumerate(moved):
            if not context:
                found.append((*self._after_prefix(alone[index]), False))
                continue
            ids = wholes[position]
            position += 1
            merged = not ids
            found.append((context_ids[context], ids or self.encode_many([continuation], special=False)[0], merged))
        return found

    def _encode_tails(self, pairs: list[tuple[str, str]], context_ids: dict[str, Ids]) -> list[Ids]:
        """Continuation ids of pairs with a context: only what follows the context's last cut is encoded again."""
        texts, firsts = [], []
        starts = {context: last_cut(context, self.is_wide) if self.may_cut else 0 for context in context_ids}
        for context, continuation in pairs:
            start = starts[context]
            special = self._is_special(context + continuation, None) if start == 0 else False
            texts.append((context[start:] + continuation, special))
            firsts.append((context[start:], self._is_special(context, None) if start == 0 else False))
        plans = [self._plan(text, special) for text, special in texts]
        known = self._encode_pieces({piece for plan in plans for piece in plan} | set(firsts))
        return [_joined(plan, known)[len(known[first]) :] for plan, first in zip(plans, firsts, strict=True)]

    def _after_prefix(self, ids: Ids) -> tuple[Ids, Ids]:
        if self.prefix_id is None:
            raise UserError("the tokenizer has neither BOS nor EOS, which an empty context needs.")
        if ids and ids[0] == self.prefix_id and len(ids) > 1:
            return ids[:1], ids[1:]
        return (self.prefix_id,), ids


def _refuse_surrogates(texts: Sequence[str]) -> None:
    """Raise UserError for a text with half of a surrogate pair; no encoding has bytes for it."""
    for text in texts:
        place = next((i for i, char in enumerate(text) if "\ud800" <= char <= "\udfff"), None)
        if place is not None:
            raise UserError(
                f"a prompt holds {ascii(text[place])}, half of a surrogate pair, which is no character: "
                f"...{ascii(text[max(0, place - 20) : place + 20])}... Correct --system, or the task's documents."
            )


def _joined(plan: list[tuple[str, bool]], known: dict[tuple[str, bool], Ids]) -> Ids:
    if len(plan) == 1:
        return known[plan[0]]
    return tuple(itertools.chain.from_iterable(map(known.__getitem__, plan)))


def _move_spaces(context: str, continuation: str) -> tuple[str, str]:
    stripped = context.rstrip()
    return (stripped, context[len(stripped) :] + continuation) if stripped else (context, continuation)
