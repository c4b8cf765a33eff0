"""``evalcard compare``: --format, --card and --fidelity."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from evalcard.cli.main import invoke

RIGHT, LOST = [1] * 160 + [0] * 60, [0] * 28 + [1] * 143 + [0] * 49


@pytest.fixture
def compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """(exit code, stdout, stderr)."""

    def run(*args: str) -> tuple[int, str, str]:
        code = invoke(["compare", "--out", str(tmp_path / "results"), *args])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def two(stored_run: Any) -> None:
    stored_run("before", slugs=("tiny",)).add("sums", RIGHT).write()
    stored_run("after", slugs=("small",)).add("sums", LOST).write()


@pytest.mark.parametrize("form", ["table", "latex", "csv", "json"])
def test_stdout_holds_the_format_and_nothing_else(stored_run: Any, compare: Any, tmp_path: Path, form: str):
    from evalcard.card.formats.render import format_run
    from evalcard.stored import compare_results

    stored_run().add("sums", RIGHT, LOST).write()
    found = compare_results(tmp_path / "results", "latest")
    assert compare("latest", "--format", form) == (0, format_run(found.run, found.comparison, form), "")


def test_with_a_limit_the_table_has_the_gates_word_and_the_exit_code_is_its(stored_run: Any, compare: Any):
    stored_run().add("sums", RIGHT, LOST).write()
    code, printed, _ = compare("latest", "--format", "table", "--min-recovery", "99")
    assert code == 1 and "release gate: **failed**" in printed
    code, printed, _ = compare("latest", "--format", "csv", "--min-recovery", "50")
    (line,) = csv.DictReader(io.StringIO(printed))
    assert code == 0 and float(line["recovery"]) == pytest.approx(143 / 160)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["before", "after", "--format", "xlsx"], "is not one of"),
        (["before", "after", "--format", "csv", "--json"], "Leave one out"),
        (["before", "after", "--format", "csv", "--flips", "2"], "Leave one out"),
        (["before", "--card"], "Name both before it"),
        (["--card", "before", "after"], "took 'before' for its folder"),
        (["before", "after", "--fidelity", "none.txt"], "cannot read none.txt"),
        (["before", "after", "--card", "{root}/results/before"], "holds another run"),
    ],
)
def test_mistakes_end_with_2_and_write_nothing(two: None, compare: Any, tmp_path: Path, args: list[str], says: str):
    there = sorted(tmp_path.rglob("*"))
    code, printed, error = compare(*(word.format(root=tmp_path) for word in args))
    assert (code, printed) == (2, "") and says in error
    assert sorted(tmp_path.rglob("*")) == there


def test_what_cannot_be_paired_makes_no_card(stored_run: Any, compare: Any, tmp_path: Path):
    stored_run("before", slugs=("tiny",)).add("sums", RIGHT).write()
    stored_run("after", slugs=("small",)).add("sums", LOST, num_fewshot=5).write()
    there = sorted(tmp_path.rglob("*"))
    code, printed, error = compare("before", "after", "--card")
    assert (code, printed) == (4, "") and "worked examples" in error
    assert sorted(tmp_path.rglob("*")) == there


def test_a_card_is_made_below_the_results_root(two: None, compare: Any, tmp_path: Path):
    code, printed, error = compare("before", "after", "--card", "--format", "table", "--min-recovery", "50")
    (card,) = (tmp_path / "results").glob("small-against-tiny-*/README.md")
    assert code == 0 and printed.startswith("**tiny** beside tiny") and f"Card: {card}" in error
    assert (card.parent / "models" / "small" / "README.md").is_file()
    assert invoke(["gate", card.parent.name, "--out", str(tmp_path / "results")]) == 0, "the limit is kept with it"


def test_fidelity_is_shown_and_carded(two: None, compare: Any, tmp_path: Path):
    log = tmp_path / "kl.txt"
    log.write_text(KL)
    _, printed, _ = compare("before", "after", "--fidelity", str(log))
    told = " ".join(printed.split())
    assert "fidelity small over 254 tokens of kl.txt: KL mean 0.010, median 0.0020" in told
    assert "same top token 96.00 %" in told
    _, printed, _ = compare("before", "after", "--fidelity", str(log), "--json")
    (one,) = [one for one in json.loads(printed)["comparison"]["fidelity"] if one["unit"] == "tokens"]
    assert (one["kl_mean"], one["items"], one["top_agreement"]) == (0.01, 254, 0.96)
    code, _, error = compare(str(log), "after")
    assert code == 2 and "has no answers to compare" in error and "--fidelity" in error


KL = """\
kl_divergence: computing over 2 chunks, n_ctx=256, batch_size=2048, n_seq=8
====== Perplexity statistics ======
Mean PPL(Q)                   :   7.000000 ±   0.250000
====== KL divergence statistics ======
Mean    KLD:   0.010000 ±   0.000400
Maximum KLD:   0.700000
Median  KLD:   0.002000
====== Token probability statistics ======
Same top p: 96.000 ± 0.500 %
"""
