"""The body: headings, formulas, scripts, images, paths; and what evalcard's own cards have to have."""

import random

import pytest

from evalcard.card.check.check import check_card
from evalcard.card.section import BEGIN, END

FRONT = "---\nlicense: mit\nbase_model: acme/toy\nbase_model_relation: quantized\n---\n"
PNG = b"\x89PNG\r\n\x1a\n"


def said(body: str, **options: object) -> list[tuple[int | None, str, str, str]]:
    found = check_card(FRONT + body, **options)  # type: ignore[arg-type]
    return [(problem.line, problem.level, problem.where, problem.what) for problem in found]


@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        ("text\n", None, "no title"),
        ("# A\n\n# B\n", 8, "a second title"),
        ("# A\n\n### B\n", 8, "level 3 follows"),
        ("# A\n\n##\n", 8, "it is empty"),
        ("# A\n\n##B\n", 8, "no blank behind"),
        ("<h1>A</h1>\n\nB\n===\n", 8, "a second"),
    ],
)
def test_headings(body: str, line: int | None, what: str):
    (problem,) = said(body)
    assert problem[:2] == (line, "warning") and what in problem[3]


@pytest.mark.parametrize(
    "body",
    [
        "# A\n## B\n### C\n## D ##\n",
        "A\n=\n\nB\n-\n",
        "# A\n```\n# no title\n```\n",
        "# A\n\n| a |\n|---|\n| b |\n---\n",
        '<h1 align="center">\nA\n</h1>\n\n## B\n',
        "# A\n\n#1 of all\n\n- a\n---\n",
    ],
)
def test_good_outlines(body: str):
    assert said(body) == []


@pytest.mark.parametrize(
    ("html", "name"),
    [
        ("<script>alert(1)</script>", "script"),
        ("a <IFRAME src=x>", "iframe"),
        ("<img src=x alt=x onerror=alert(1)>", "onerror"),
        ('<a href="javascript:x()">y</a>', "javascript"),
        ("<style>a{}</style>", "style"),
    ],
)
def test_active_html(html: str, name: str):
    found = [problem for problem in said(f"# A\n\n{html}\n") if "raw HTML" in problem[3]]
    assert [(line, level) for line, level, *_ in found] == [(8, "error")] and f"'{name}'" in found[0][3]
    assert said(f"# A\n\n```html\n{html}\n```\n") == [] and said(f"# A\n\n`{html}`\n") == []


def test_formulas():
    assert said("# A\n\n$$x$$\n") == [] and said("# A\n\n`$$` and \\$$\n")[0][0] == 8
    assert [problem[:2] for problem in said("# A\n\ncosts $$5\n")] == [(8, "warning")]
    own = f"# A\n{BEGIN}\n\n$$x$$\n\n{END}\n"
    assert [problem[:2] for problem in said(own, own=True)] == [(9, "error")]


@pytest.mark.parametrize(
    ("image", "files", "what", "level"),
    [
        ("![a](figures/a.png)", {}, "no such file", "error"),
        ('<img src="./figures/a.png" alt="a">', {}, "no such file", "error"),
        ("![a][one]\n\n[one]: figures/a.png", {}, "no such file", "error"),
        ("![a](figures/a.png)", {"figures/a.png": b"<svg>"}, "is no PNG", "error"),
        ("![](figures/a.png)", {"figures/a.png": PNG}, "no alternative text", "warning"),
        ("<img\n src=figures/a.png>", {"figures/a.png": PNG}, "no alternative text", "warning"),
        ("![a](../a.png)", {}, "outside of the repository", "error"),
        ("![a](/figures/a.png)", {}, "outside of the repository", "error"),
        ("![a](http://x.org/a.png)", {}, "https", "warning"),
        ("![a](figures/a.svg)", {"figures/a.svg": b""}, "every SVG", "warning"),
    ],
)
def test_images(image: str, files: dict[str, bytes], what: str, level: str):
    (problem,) = said(f"# A\n\n{image}\n", files={"README.md": b"", **files})
    assert problem[0] == 8 and problem[1] == level and what in problem[3], problem


def test_good_images():
    files = {"README.md": b"", "figures/a b.png": PNG, "figures/a.png": PNG}
    for image in ("![a](figures/a.png)", "![a](<figures/a b.png>)", "![a](figures/a%20b.png)", "![a](https://x.org/a.png)",
                  "![a](./figures/a.png#hf-light-mode-only)", '![a](figures/a.png "title")', "`![a](b.png)`",
                  "![a [1]](figures/a.png)"):  # fmt: skip
        assert said(f"# A\n\n{image}\n", files=files) == [], image
    assert said("# A\n\n![a](figures/a.png)\n") == [], "what lies beside is not known"


@pytest.mark.parametrize(
    "text",
    [
        "/home/jo/models/toy",
        "`--model /mnt/models/toy`",
        "~/models/toy",
        "C:\\Users\\jo\\toy",
        "file:///data/x/toy",
        "(/data/x)",
        "```\nevalcard run --out /scratch/jo/out\n```",
    ],
)
def test_paths_of_one_machine(text: str):
    (problem,) = said(f"# A\n\n{text}\n")
    assert problem[1] == "warning" and "a path of one machine" in problem[3]
    own = said(f"# A\n{BEGIN}\n\n{text}\n{END}\n", own=True)
    assert [level for _, level, *_ in own] == ["error"]
    assert [level for _, level, *_ in said(f"# A\n\n{text}\n\n{BEGIN}\n{END}\n", own=True)] == ["warning"], "not ours"


@pytest.mark.parametrize(
    "text",
    [
        "https://huggingface.co/acme/toy/resolve/main/a.png",
        "and/or/nor",
        "w4a16/w8a8",
        "-v ~/.cache/huggingface:/root/.cache/huggingface",
        "</b></i></details>",
        "/path/to/model",
        "http://localhost:8000/v1/chat/completions",
        "1/2/3",
        "ratio a/b/c",
        "a </sup>/x",
    ],
)
def test_what_is_no_path(text: str):
    assert said(f"# A\n{BEGIN}\n\n{text}\n\n{END}\n", own=True) == []


def test_marks_of_own_cards():
    assert said(f"# A\n{BEGIN}\n\n{END}\n", own=True) == []
    missing = said("# A\n", own=True)
    assert [(level, where) for _, level, where, _ in missing] == [("error", BEGIN), ("error", END)]
    assert "2 times" in said(f"# A\n{BEGIN}\n{BEGIN}\n{END}\n", own=True)[0][3]
    assert "before the beginning" in said(f"# A\n{END}\n{BEGIN}\n", own=True)[0][3]
    assert said(f"# A\n{BEGIN}\n", own=False) == []


def test_own_cards_name_whose_compressed_form_they_are():
    text = f"# A\n{BEGIN}\n{END}\n"
    (problem,) = check_card("---\nlicense: mit\n---\n" + text, own=True)
    assert (problem.where, problem.level) == ("base_model", "warning") and "publish` refuses" in problem.what
    (problem,) = check_card(FRONT.replace("quantized", "finetune") + text, own=True)
    assert problem.where == "base_model_relation" and problem.level == "error"


def test_whatever_a_card_holds_it_is_only_told():
    """Pieces of cards in any order; a fixed seed."""
    pieces = [
        "---\n",
        "|",
        "|\n",
        "<table>",
        "<tr>",
        "<td>",
        "<td colspan=999>",
        "</table>",
        "Recovery",
        "Baseline",
        "Average",
        "98.0",
        "33,890",
        "±",
        "\n\n",
        "```\n",
        "<!--",
        "license: ",
        "- ",
        "no",
        "&a [*a]",
        "{",
        "[",
        "]",
        "$$",
        "<script>",
        "![a](b.png)",
        "# ",
        "\x00",
        "\ufeff",
        "\r",
        "model-index:",
        "\n  - ",
        "value: ",
        ".nan",
        "**",
        "|---|---|\n",
        "\u202e",
        "𝟙",
        "٣",
        "½",
        "(",
        "[1, ∞)",
        "!!x y",
        "*x",
        "<<: ",
        "1:30",
        "C:\\a\\b",
        "0" * 400,
    ]
    draw = random.Random(7)
    for _ in range(400):
        text = "".join(draw.choices(pieces, k=draw.randint(1, 90)))
        files = {"README.md": b"", ".eval_results/a.yaml": text.encode()}
        for card in (text, f"---\n{text}\n---\n{text}"):
            assert isinstance(check_card(card, files=files, own=draw.random() < 0.5), list)
