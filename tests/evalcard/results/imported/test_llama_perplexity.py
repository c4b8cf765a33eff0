"""Output of llama-perplexity --kl-divergence: read whole, or refused with what is missing."""

from pathlib import Path

import pytest

from evalcard.errors import UserError
from evalcard.results.agreement import _of_fidelity
from evalcard.results.imported.llama_perplexity import is_fidelity, read_fidelity

HEAD = """\
build: 6812 with cc for x86_64-linux-gnu
kl_divergence: computing over 3 chunks, n_ctx=511, batch_size=2048, n_seq=4
kl_divergence: 1.50 seconds per pass - ETA 0.07 minutes

chunk           PPL             ln(PPL(Q)/PPL(base))        KL Divergence            Δp RMS          Same top p
"""
CHUNKS = """\
   1       6.5120 ±    0.3100     0.00900 ±    0.00400     0.02100 ±    0.00200     3.100 ±  0.300 %  94.118 ±  1.400 %
   2       6.6120 ±    0.3100     0.00900 ±       -nan     0.02200 ±    0.00200     3.200 ±  0.300 %  93.118 ±  1.400 %
   3       6.7120 ±    0.3100     0.00900 ±    0.00400     0.02300 ±    0.00200     3.300 ±  0.300 %  92.118 ±  1.400 %
"""
PERPLEXITY = """
====== Perplexity statistics ======
Mean PPL(Q)                   :   6.712000 ±   0.310000
Mean PPL(base)                :   6.650000 ±   0.300000
Cor(ln(PPL(Q)), ln(PPL(base))):  99.10%
"""
DIVERGENCE = """
====== KL divergence statistics ======
Mean    KLD:   0.023000 ±   0.002000
Maximum KLD:   2.500000
99.9%   KLD:   0.900000
99.0%   KLD:   0.310000
95.0%   KLD:   0.090000
90.0%   KLD:   0.051000
Median  KLD:   0.007500
10.0%   KLD:   0.000020
 0.1%   KLD:  -0.000004
Minimum KLD:  -0.000100
"""
TOKENS = """
====== Token probability statistics ======
Mean    Δp: -0.520 ± 0.120 %
Median  Δp: -0.010%
RMS Δp    :  3.300 ± 0.300 %
Same top p: 92.118 ± 1.400 %
"""
WHOLE = HEAD + CHUNKS + PERPLEXITY + DIVERGENCE + TOKENS


def write(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "kl-w4.txt"
    path.write_bytes(text.encode(encoding, "replace"))
    return path


def test_every_figure_is_read_in_its_unit(tmp_path: Path):
    found = read_fidelity(write(tmp_path, WHOLE), "small")
    assert (found.row, found.model, found.unit) == ("kl-w4.txt", "small", "tokens")
    assert (found.kl_mean, found.kl_stderr, found.kl_median) == (0.023, 0.002, 0.0075)
    assert (found.kl_p90, found.kl_p99, found.kl_max) == (0.051, 0.31, 2.5)
    assert found.top_agreement == pytest.approx(0.92118)
    assert found.items == 3 * (511 - 1 - 255), "the second half of each chunk, without its last token"
    assert list(_of_fidelity(found)) == [], "as comparison.json is checked"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("Mean    KLD", "Mean KLD").replace("Maximum KLD:", "Maximum   KLD :"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("±", "+/-"),
        lambda text: text.replace("Same top p:", "Same top   :"),
        lambda text: "an earlier run\n" + text.replace("0.023000", "0.990000") + "\n" + text,
        lambda text: text.replace(CHUNKS, ""),
    ],
    ids=["padding", "CR LF", "ASCII sign", "older name", "the last of two runs", "without chunk lines"],
)
def test_versions_write_it_in_several_ways(tmp_path: Path, change: object):
    found = read_fidelity(write(tmp_path, change(WHOLE)), "small")  # type: ignore[operator]
    assert (found.kl_mean, found.kl_stderr, found.kl_max) == (0.023, 0.002, 2.5)
    assert found.top_agreement == pytest.approx(0.92118)


def test_a_console_of_another_encoding_costs_no_figure(tmp_path: Path):
    found = read_fidelity(write(tmp_path, WHOLE, "cp1252"), "small")
    assert (found.kl_mean, found.kl_stderr) == (0.023, 0.002)


def test_quantiles_that_a_version_does_not_print_are_not_made_up(tmp_path: Path):
    found = read_fidelity(write(tmp_path, WHOLE.replace("90.0%   KLD:   0.051000\n", "")), "small")
    assert found.kl_p90 is None and found.kl_p99 == 0.31


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + CHUNKS + PERPLEXITY + DIVERGENCE, "was cut off: it has no block 'Token probability statistics'"),
        (HEAD + CHUNKS + PERPLEXITY, "KL divergence statistics"),
        (HEAD + CHUNKS, "cut off before its end"),
        (WHOLE.replace("Same top p: 92.118 ± 1.400 %\n", ""), "no line 'Same top p'"),
        (WHOLE.replace("Mean    KLD:   0.023000 ±   0.002000\n", ""), "no line 'Mean KLD'"),
        (HEAD + CHUNKS.splitlines(keepends=True)[0] + PERPLEXITY + DIVERGENCE + TOKENS, "it has 1 of 3 chunks"),
        (WHOLE[len(HEAD) :], "2>&1"),
        (WHOLE.replace("0.023000", "nan"), "damaged model or base file"),
        (WHOLE.replace("0.310000", "0.010000", 99), "figures that no comparison gives"),
        (WHOLE.replace("92.118 ± 1.400 %\n", "192.118 ± 1.400 %\n"), "figures that no comparison gives"),
        ("perplexity: 1.2 s\n[1]6.1,[2]6.2\nFinal estimate: PPL = 6.2000 +/- 0.03000\n", "--kl-divergence-base FILE"),
        ("nothing of the kind", "is no output of llama-perplexity"),
        ("", "is no output of llama-perplexity"),
    ],
)
def test_what_is_no_whole_run_is_refused_with_the_next_step(tmp_path: Path, text: str, says: str):
    with pytest.raises(UserError, match="llama-perplexity|Run it again") as refused:
        read_fidelity(write(tmp_path, text), "small")
    assert says in str(refused.value)


def test_a_file_that_is_not_there_is_the_users_mistake(tmp_path: Path):
    with pytest.raises(UserError, match="cannot read"):
        read_fidelity(tmp_path / "none.txt", "small")
    assert not is_fidelity(tmp_path / "none.txt") and is_fidelity(write(tmp_path, WHOLE))


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("Mean    KLD:   0.023000", "Mean    KLD:   3.000000"),
        ("Mean    KLD:   0.023000", "Mean    KLD:   -1.00000"),
        ("0.023000 ±   0.002000", "0.023000 ±   inf"),
        ("0.023000 ±   0.002000", "0.023000 ±   -1"),
        ("Median  KLD:   0.007500", "Median  KLD:   -1.0"),
        ("Maximum KLD:   2.500000", "Maximum KLD:   x"),
        ("90.0%   KLD:   0.051000", "90.0%   KLD:"),
    ],
)
def test_figures_that_no_comparison_gives_are_refused(tmp_path: Path, said: str, instead: str):
    path = tmp_path / "kl.log"
    assert said in WHOLE
    path.write_text(WHOLE.replace(said, instead), encoding="utf-8")
    with pytest.raises(UserError, match="holds figures that no comparison gives"):
        read_fidelity(path, "m")


def test_a_size_beyond_all_texts_is_none(tmp_path: Path):
    path = tmp_path / "kl.log"
    path.write_text(WHOLE.replace("n_ctx=511", f"n_ctx={'9' * 5000}"), encoding="utf-8")
    with pytest.raises(UserError, match="does not say how much text"):
        read_fidelity(path, "m")


def test_an_error_that_is_not_known_is_none(tmp_path: Path):
    path = tmp_path / "kl.log"
    path.write_text(WHOLE.replace("0.023000 ±   0.002000", "0.023000 ±   nan"), encoding="utf-8")
    assert read_fidelity(path, "m").kl_stderr is None
