"""What a reasoning model thought, taken off before its answer is judged. Light: the standard library only.

Decisions:

- The first closing tag ends the thinking; later ones are text. Where a block's own closing tag never comes, the first
  of another name in the same brackets ends it (``<think>...</thinking>``). A block of which the reply shows only the
  end (the prompt opened it) counts when no tag stands before that end.
- Thinking opens at the start of the reply, right after another block, or with a tag that begins its line. A tag within
  a line of the answer, or one in quotes or backticks, is quoted material and swallows nothing.
- A block that never closes means that no answer was reached, also where earlier text looks like one.
- gpt-oss with its special tokens dropped reads ``analysis...assistantfinal...``; the answer follows the first
  ``assistantfinal``. A reply that runs ``analysis`` into a capital letter and never gets there is unfinished thinking.
"""

import re

_NAMES = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "seed:think")
_TAGS = (
    *((f"<{name}>", f"</{name}>") for name in _NAMES),
    ("[think]", "[/think]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|start_thinking|>", "<|end_thinking|>"),
    ("<|thinking|>", "<|/thinking|>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<unused94>", "<unused95>"),
)
_CLOSING = dict(_TAGS)
_TAG = re.compile(
    rf"<\s{{0,2}}/?\s{{0,2}}(?:{'|'.join(_NAMES)})\s{{0,2}}>|"
    + "|".join(re.escape(tag) for pair in _TAGS[len(_NAMES) :] for tag in pair),
    re.IGNORECASE,
)
_QUOTES = frozenset("`'\"\u2018\u2019\u201c\u201d")
_BLANK = re.compile(r"\s*")
_INDENT_LEN = 40
_GLUED_ANALYSIS = re.compile(r"analysis(?=[A-Z])")
_FINAL_WORD = re.compile("assistantfinal")
_FINAL_CHANNEL = re.compile(r"<\|channel\|>final[^\n]{0,60}?<\|message\|>")


def without_thinking(text: str, opened: bool = False) -> str | None:
    """The reply after its thinking; None where the thinking never ended.

    opened: the prompt itself ended inside a block (``opens_thinking``).
    """
    start = text.lstrip()
    if start.startswith("<|channel|>analysis"):
        return _after(_FINAL_CHANNEL.search(start))
    if start.startswith("analysis"):
        final = _FINAL_WORD.search(start)
        if final or _GLUED_ANALYSIS.match(start):
            return _after(final)
    return _without_blocks(text, opened)


def opens_thinking(prompt: str) -> bool:
    """Whether a prompt ends inside a block, so that the reply begins with thinking."""
    inside = False
    for tag in _TAG.finditer(prompt):
        if _name(tag) not in _CLOSING:
            inside = False
        elif not _is_quoted(prompt, tag) and (_begins_line(prompt, tag) or _BLANK.fullmatch(prompt, tag.end())):
            inside = True
    return inside


def _after(final: re.Match[str] | None) -> str | None:
    return None if final is None else final.string[final.end() :].strip()


def _without_blocks(text: str, opened: bool) -> str | None:
    kept: list[str] = []
    start = 0  # of the text not yet kept or dropped
    closing: str | None = None  # the tag that ends the open block
    is_inside, is_first = opened, True
    last_places = {_name(tag): tag.start() for tag in _TAG.finditer(text)}
    for tag in _TAG.finditer(text):
        name = _name(tag)
        is_opening = name in _CLOSING
        if is_inside:
            is_others = closing not in (None, name) and (
                last_places.get(closing or "", -1) > tag.start() or name[:2] != (closing or "")[:2]
            )
            if is_opening or is_others:
                # A template may open a block that the model opens again; what it quotes inside is thinking, too.
                if is_opening and closing is None and _BLANK.fullmatch(text, start, tag.start()):
                    closing = _CLOSING[name]
                continue
            start, is_inside, is_first = tag.end(), False, False
        elif _is_quoted(text, tag):
            continue
        elif is_opening and (_begins_line(text, tag) or _BLANK.fullmatch(text, start, tag.start())):
            kept.append(text[start : tag.start()])
            closing, is_inside, is_first = _CLOSING[name], True, False
        elif not is_opening and is_first:
            start, is_first = tag.end(), False
    return None if is_inside else ("".join(kept) + text[start:]).strip()


def _name(tag: re.Match[str]) -> str:
    return "".join(tag[0].lower().split())


def _begins_line(text: str, tag: re.Match[str]) -> bool:
    before = text[max(0, tag.start() - _INDENT_LEN) : tag.start()]
    return not before.rpartition("\n")[2].strip() and ("\n" in before or tag.start() <= _INDENT_LEN)


def _is_quoted(text: str, tag: re.Match[str]) -> bool:
    return text[tag.start() - 1 : tag.start()] in _QUOTES and text[tag.end() : tag.end() + 1] in _QUOTES
