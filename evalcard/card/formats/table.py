"""A short Markdown table, as it goes into a pull request or an issue; the words are in templates/table.md.j2."""

from evalcard.card.environment import card_environment, render
from evalcard.card.formats.lines import format_view
from evalcard.results.compared import Comparison
from evalcard.results.records import RunRecord

TEMPLATE = "table.md.j2"


def markdown_table(run: RunRecord, comparison: Comparison) -> str:
    """Names and findings are data: they stay in their cells and start no mark-up."""
    return render(card_environment(), TEMPLATE, {"view": format_view(run, comparison)})
