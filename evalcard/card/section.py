"""What of a published card is evalcard's: the text between two marks, and a few keys of its metadata."""

from evalcard.card.blocks import text_lines

BEGIN, END = "<!-- evalcard:begin -->", "<!-- evalcard:end -->"
"""Each alone on its line, once in a card; comments, so that no reader of the rendered page sees them."""

OWN_KEYS = (
    "base_model",
    "base_model_relation",
    "license",
    "license_name",
    "license_link",
    "library_name",
    "pipeline_tag",
    "language",
    "tags",
    "model-index",
)
"""Keys of the front matter that a card of ours may set; of ``tags`` and ``model-index`` only our own items."""


def marked_lines(text: str) -> tuple[list[int], list[int]]:
    """Numbers, from 1, of the lines that are the first mark and of those that are the second, blanks aside.

    Marks in code or in a comment are text about them.
    """
    lines = [line.strip() for line in text.split("\n")]
    shown, _ = text_lines(text)
    begins, ends = ([n for n, line in enumerate(lines, 1) if line == mark and n in shown] for mark in (BEGIN, END))
    return begins, ends


def section_of(text: str) -> str | None:
    """The section with its marks and without a line break at its end; None where it is not there exactly once."""
    begins, ends = marked_lines(text)
    if len(begins) != 1 or len(ends) != 1 or begins[0] >= ends[0]:
        return None
    return "\n".join(text.split("\n")[begins[0] - 1 : ends[0]])
