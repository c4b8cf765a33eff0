"""Where a text may be cut so that the pieces' tokens, joined, are the whole text's tokens.

A cut lies between a letter or digit (ASCII) and a newline. It is safe for byte-pair tokenizers none of whose tokens
holds such a pair: merges only ever build tokens of the vocabulary, so none crosses a cut, and those on either side go
on as if the other side were not there. Pre-tokenizers keep the two characters apart for the same reason. What a
normalizer or a prefix space could change is excluded here or found by the caller's probes.
"""

import re
from typing import Any

_CUT = re.compile(r"(?<=[A-Za-z0-9])(?=\n)")
_SPANNING = re.compile(r"[A-Za-z0-9](?:\n|\u010a|<0x0A>)")
"""\u010a is the newline of byte-level vocabularies."""
_LOCAL_NORMALIZERS = {"NoneType", "NFC"}
"""Neither joins a newline with what stands before it."""


def cut(text: str) -> list[str]:
    """The pieces of a text, at least one."""
    return _CUT.split(text)


def last_cut(text: str) -> int:
    """Where the last piece begins: ``len(text) - len(cut(text)[-1])``, found from the end."""
    newline = text.rfind("\n")
    while newline > 0 and not (text[newline - 1].isascii() and text[newline - 1].isalnum()):
        newline = text.rfind("\n", 0, newline)
    return max(newline, 0)


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
