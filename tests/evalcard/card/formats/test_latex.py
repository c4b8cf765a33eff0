"""LaTeX: nothing of a name is a command, and every line has all its cells."""

import re
from typing import Any

import pytest

from evalcard.card.formats.latex import figure, tex
from evalcard.card.formats.render import format_run


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)&", line.removesuffix(r"\\"))]


def test_a_table_for_each_compressed_model(make_case: Any):
    run, comparison = make_case(2)
    text = format_run(run, comparison, "latex")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 2
    rows = [cells(line) for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(row) for row in rows} == {8}
    (arc, _) = [row for row in rows if row[0] == "arc"]
    score = comparison.tasks[0].compressed[0]
    assert arc[1] == "200" and arc[4] == f"{score.recovery.value:.2f}" and arc[6:] == ["9", "4"]
    assert r"$\pm$" in arc[2] and arc[5].startswith("{[}")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("100% of a_b & c#d", r"100\% of a\_b \& c\#d"),
        ("a\\b{c}", r"a\textbackslash{}b\{c\}"),
        ("$x^2$ ~", r"\$x\textasciicircum{}2\$ \textasciitilde{}"),
        ("two\nlines\t here", "two lines here"),
        ("a--b---c", "a-{}-b-{}-{}-c"),
        ("[ at the start of a line", "{[} at the start of a line"),
        ("*", "{*}"),
        ("<|im_end|>", r"\textless{}\textbar{}im\_end\textbar{}\textgreater{}"),
        ("\x00\u202e", "\ufffd\ufffd"),
    ],
)
def test_each_of_its_own_characters_is_printed(text: str, printed: str):
    assert tex(text) == printed


def test_numbers_have_their_signs():
    assert figure("-12.50 ± 3.10") == r"$-$12.50 $\pm$ 3.10"
    assert figure("[95.00, ∞)") == r"{[}95.00, $\infty$)"
    assert figure("–") == "--"


def test_hostile_names_are_text(hostile: Any):
    text = format_run(*hostile, "latex")
    for line in text.splitlines():
        if line.startswith("%"):
            continue
        commands = set(re.findall(r"\\([A-Za-z]+)", line))
        assert commands <= {
            "begin", "end", "centering", "caption", "toprule", "midrule", "bottomrule", "textbackslash", "textbar",
            "textasciicircum", "textasciitilde", "textless", "textgreater", "textasciigrave", "textquotesingle", "pm",
        }, line  # fmt: skip
        bare = re.sub(r"\\[{}]", "", line)
        assert bare.count("{") == bare.count("}"), line
        assert not re.search(r"(?<!\\)[%#]", line), line
    assert {len(cells(line)) for line in text.splitlines() if line.endswith(r"\\")} == {8}
    assert all(line.startswith("% ") for line in text.splitlines() if "Found" in line), "a finding is a comment"
