"""LaTeX: nothing of a name is a command, and every line has all its cells."""

import re
import shutil
import subprocess
from pathlib import Path
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
        ("\x00\u202e", "??"),
        ('"a"', r"{\char34}a{\char34}"),
        ("e\u0301 \u2212", "\u00e9 $-$"),
        ("na\u00efve \u2013 \u201c\u2026\u201d", "na\u00efve -- \u201c\u2026\u201d"),
        ("\u03b1\U0001f600", "\\evalcardsign{03B1}{\u03b1}\\evalcardsign{1F600}{\U0001f600}"),
    ],
)
def test_each_of_its_own_characters_is_printed(text: str, printed: str):
    assert tex(text) == printed


def named(case: Any, name: str) -> Any:
    run, comparison = case
    models = [model.model_copy(update={"name": name, "hub_id": None}) for model in run.models]
    return run.model_copy(update={"models": models}), comparison


def test_what_a_name_needs_is_said_and_defined_first(make_case: Any):
    plain = format_run(*make_case(1), "latex")
    assert "evalcardsign" not in plain and "fontenc" not in plain
    signs = format_run(*named(make_case(1), "\u6a21\u578b"), "latex")
    (defined,) = [line for line in signs.splitlines() if line.startswith(r"\providecommand")]
    assert signs.index(defined) < signs.index(r"\begin{table}") and defined.count("{") == defined.count("}")
    assert defined.startswith(r"\providecommand{\evalcardsign}[2]{\ifdefined\Umathchar#2\else\ifcsname")
    accents = format_run(*named(make_case(1), "caf\u00e9"), "latex")
    assert accents.splitlines()[0].endswith(r"\usepackage{booktabs} \usepackage[T1]{fontenc}")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_itself_takes_hostile_names(make_case: Any, tmp_path: Path):
    names = ["%_#&{}~^\\$", "\\end{tabular}", '[a] "q" ``', "\u65e5\u672c \U0001f600", "\u202e\u05e2 \ufffd", "x" * 200]
    for number, name in enumerate(names):
        (tmp_path / f"{number}.tex").write_text(format_run(*named(make_case(2), name), "latex"), encoding="utf-8")
    body = "\n".join(rf"\input{{{number}.tex}}\clearpage" for number in range(len(names)))
    whole = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}\listoftables {body}\end{{document}}"
    (tmp_path / "all.tex").write_text(whole, encoding="utf-8")
    for _ in range(2):  # the second time with the list of tables
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")


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
