"""Where a text may be cut so that the pieces' tokens, joined, are the whole text's tokens.

A cut lies between a letter or digit (ASCII) and a newline. It is safe for byte-pair tokenizers none of whose tokens
holds such a pair: merges only ever build tokens of the vocabulary, so none crosses a cut, and those on either side go
on as if the other side were not there. Pre-tokenizers keep the two characters apart for the same reason. What a
normalizer or a prefix space could change is excluded here or found by the caller's probes.

A wide cut may also follow punctuation, for tokenizers none of whose tokens joins any punctuation with a newline. Where
one does, the pre-tokenizer takes a newline after punctuation for itself (as GPT-4's pattern does, and GPT-2's does
not), so that a cut there would change what the rest of the blank space is joined with.
"""

import re
from typing import Any

_CUT = re.compile(r"(?=\n)(?<=[A-Za-z0-9])")
_WIDE_CUT = re.compile(r"(?=\n)(?<=[!-~])")
_SPANNING = re.compile(r"[A-Za-z0-9](?:\n|\u010a|<0x0A>)")
_WIDE_SPANNING = re.compile(r"[!-~](?:\n|\u010a|<0x0A>)")
"""\u010a is the newline of byte-level vocabularies."""
_LOCAL_NORMALIZERS = {"NoneType", "NFC"}
"""Neither joins a newline with what stands before it."""


def cut(text: str, wide: bool = False) -> list[str]:
    """The pieces of a text, at least one."""
    return (_WIDE_CUT if wide else _CUT).split(text)


def last_cut(text: str, wide: bool = False) -> int:
    """Where the last piece begins: ``len(text) - len(cut(text, wide)[-1])``, found from the end."""
    newline = text.rfind("\n")
    while newline > 0 and not _ends_piece(text[newline - 1], wide):
        newline = text.rfind("\n", 0, newline)
    return max(newline, 0)


def _ends_piece(character: str, wide: bool) -> bool:
    return "!" <= character <= "~" if wide else character.isascii() and character.isalnum()


def may_cut(tokenizer: Any, backend: Any) -> bool:
    """Whether ``cut`` keeps the tokens. backend: the ``tokenizers.Tokenizer`` inside, None for slow tokenizers."""
    if backend is None or type(backend.model).__name__ != "BPE":
        return False
    if type(backend.normalizer).__name__ not in _LOCAL_NORMALIZERS:
        return False
    plain, special = backend.encode("a", add_special_tokens=False).ids, backend.encode("a", add_special_tokens=True).ids
    if special[len(special) - len(plain) :] != plain:
        return False  # something is added at the end, which would land in the middle
    return not any(_SPANNING.search(token) for token in tokenizer.get_vocab())


def may_cut_wide(tokenizer: Any) -> bool:
    """Whether wide cuts keep the tokens, too, of a tokenizer that may be cut."""
    return not any(_WIDE_SPANNING.search(token) for token in tokenizer.get_vocab())
