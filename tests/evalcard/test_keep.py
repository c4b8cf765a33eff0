"""Two stored results kept as a run: what is known is there, what is not is absent, and nothing else is touched."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalcard.compare.comparison import compare_folder
from evalcard.errors import UserError
from evalcard.gate.judge import judge, judge_run
from evalcard.gate.spec import Bounds, GateSpec
from evalcard.keep import keep_comparison, with_fidelity
from evalcard.results.agreement import read_agreeing
from evalcard.results.index import AnswerIndex
from evalcard.results.records import RunRecord, SourceRecord
from evalcard.results.runs import find_run
from evalcard.results.store import RunFolder
from evalcard.stored import SideBySide, compare_results

BASELINE, COMPRESSED = [1] * 160 + [0] * 60, [0] * 20 + [1] * 150 + [0] * 50


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def beside(stored_run: Any, out: Path) -> SideBySide:
    """The baseline of one run of evalcard's and the compressed model of another."""
    stored_run("before", slugs=("tiny",)).add("sums", BASELINE).write()
    stored_run("after", slugs=("other", "small")).add("sums", BASELINE, COMPRESSED).write()
    return compare_results(out, "before", "after")


def as_imported(found: SideBySide, **source: Any) -> SideBySide:
    """As if the compressed model were another program's, whose prompts are texts."""
    told = SourceRecord(program="lm_eval 0.4.13", files=["results_2026.json"], prompts="text", **source)
    model = replace(found.compressed[0], prompts="text", source=told, questions={"sums": {0: "1 + 1?"}})
    return replace(found, compressed=(model,), runs=found.runs[:1])


def test_the_folder_is_a_run_that_says_the_same(beside: SideBySide, out: Path):
    card, *others = keep_comparison(beside, beside.comparison, out=out)
    folder = RunFolder(card.parent)
    run = folder.read_run()
    assert card == folder.path / "README.md" and others and run.finished is not None
    assert run.name == folder.name and folder.name.startswith("small-against-tiny-")
    stored = read_agreeing(folder, run)
    files = {one.relative_to(folder.path).as_posix() for one in folder.path.glob("*/*/*.jsonl")}
    assert files and set(stored.made_from) == files, "the answers and verdicts that lie beside it"
    assert stored == beside.comparison.model_copy(update={"run": run.name, "made_from": stored.made_from})
    assert compare_folder(folder).tasks == stored.tasks, "the answers are there, too"
    assert find_run(out).name == run.name, "it is the latest"
    assert [source.run for source in run.sources.values()] == ["before", "after"]


def test_what_the_runs_share_is_kept_and_what_differs_is_absent(beside: SideBySide, out: Path):
    first, second = beside.runs
    facts = {"hardware": {"cpu": "Toy"}, "versions": {"torch": "2.13.0"}}
    alike = replace(beside, runs=(first.model_copy(update=facts), second.model_copy(update=facts)))
    run = RunFolder(keep_comparison(alike, beside.comparison, out=out)[0].parent).read_run()
    assert (run.hardware, run.versions) == (facts["hardware"], facts["versions"])
    other = replace(beside, runs=(first.model_copy(update=facts), second))
    run = RunFolder(keep_comparison(other, beside.comparison, out=out)[0].parent).read_run()
    assert run.hardware == {} and "torch" not in run.versions and run.git is None


def test_prompts_that_were_not_compared_stay_uncompared(beside: SideBySide, out: Path):
    found = as_imported(beside)
    folder = RunFolder(keep_comparison(found, found.comparison, out=out)[0].parent)
    run = folder.read_run()
    assert {source.prompts for source in run.sources.values()} == {"none"}
    samples = folder.journal("tiny", "sums").read().values()
    assert {one.prompt_hash for one in samples} == {""}
    keys = {one.key for one in beside.baseline.samples["sums"]}
    assert not keys & {one.key for one in samples}, "such an answer stands for no other"
    index = AnswerIndex.scan([folder.path])
    assert len(index) == 440 and all(index.lookup(key) is None for key in keys)
    index.close()
    again = compare_results(out, folder.name)
    assert again.comparison.tasks == found.comparison.tasks
    assert again.compressed[0].questions == {"sums": {0: "1 + 1?"}}


def test_findings_of_the_comparison_are_not_forgotten(beside: SideBySide, out: Path):
    """Else the gate would pass what it could not."""
    from evalcard.results.compared import Finding

    warning = Finding(finding="Prompts could not be compared.", severity="warning", where="small", advice="Look.")
    assert beside.comparison.health == []
    comparison = beside.comparison.model_copy(update={"health": [warning]})
    folder = keep_comparison(beside, comparison, out=out)[0].parent
    again = compare_results(out, folder.name)
    assert [one.finding for one in again.comparison.health] == [warning.finding]
    gate = GateSpec(every=Bounds(min_recovery=50.0))
    assert judge(again.comparison, gate, again.run).outcome == "INCONCLUSIVE"
    assert judge_run(out, folder.name, gate).outcome == "INCONCLUSIVE"


def test_the_gates_word_and_its_limits_are_kept(beside: SideBySide, out: Path):
    gate = GateSpec(every=Bounds(min_recovery=50.0))
    verdict = judge(beside.comparison, gate, beside.run)
    card = keep_comparison(beside, beside.comparison, out=out, verdict=verdict, limits={"min_recovery": 50.0})[0]
    run = RunFolder(card.parent).read_run()
    stored = RunFolder(card.parent).read_comparison().verdict
    assert stored is not None and (stored["outcome"], stored["run"]) == ("PASS", run.name)
    assert "gate: passed" in card.read_text()
    from evalcard.gate.default import default_limits

    assert default_limits(run)[0] == gate


def test_the_card_says_who_measured_and_what_is_not_told(beside: SideBySide, out: Path):
    found = as_imported(beside, created="2026-05-01T10:00:00")
    command = ["evalcard", "compare", "/home/someone/before", "/data/__home__someone__small", "--card"]
    text = keep_comparison(found, found.comparison, out=out, command=command)[0].read_text()
    assert "**Compressed measured by:** lm_eval 0.4.13, 2026-05-01; file `results_2026.json`" in text
    assert "run `before`" in text and "could not be checked" in text and "**Hardware:** not told" in text
    assert "someone" not in text and "evalcard compare before small" in text
    assert "checked on the token ids" not in text and "a local folder" not in text
    assert "**Seed:**" not in text, "none is known of the run as a whole"


def test_the_same_again_is_the_same_and_another_is_refused(beside: SideBySide, out: Path, stored_run: Any):
    first = keep_comparison(beside, beside.comparison, out=out)[0]
    before = {path: path.read_bytes() for path in first.parent.rglob("*.jsonl")}
    assert keep_comparison(beside, beside.comparison, out=out)[0] == first
    assert {path: path.read_bytes() for path in first.parent.rglob("*.jsonl")} == before
    stored_run("later", slugs=("other", "small")).add("sums", BASELINE, COMPRESSED[::-1]).write()
    other = compare_results(out, "before", "later")
    with pytest.raises(UserError, match="holds another run"):
        keep_comparison(other, other.comparison, out=out, folder=first.parent)
    assert keep_comparison(other, other.comparison, out=out)[0] != first


@pytest.mark.parametrize("taken", ["before", "notes", "file"])
def test_what_a_folder_holds_is_never_lost(beside: SideBySide, out: Path, tmp_path: Path, taken: str):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    path = out / "before" if taken == "before" else tmp_path / taken
    held = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    with pytest.raises(UserError, match="--card"):
        keep_comparison(beside, beside.comparison, out=out, folder=path)
    assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()} == held


def test_what_was_cut_off_is_done_again(beside: SideBySide, out: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("evalcard.keep.write_cards", fail)
        with pytest.raises(OSError, match="no space"):
            keep_comparison(beside, beside.comparison, out=out)
    (left,) = out.glob("small-against-*")
    assert RunFolder(left).read_run().finished is None, "it does not say that it is whole"
    assert keep_comparison(beside, beside.comparison, out=out)[0].parent == left
    assert RunFolder(left).read_run().finished is not None


def test_a_folder_that_was_cut_off_at_its_first_file_is_free(beside: SideBySide, tmp_path: Path):
    path = tmp_path / "kept"
    path.mkdir()
    for name in (
        ".lock",
        ".lock.owner",
        ".lock.cards",
        ".lock.publish",
        ".run.json.0123456789ab.tmp",
        ".run.json.3069.tmp",
    ):
        (path / name).write_bytes(b"")
    assert keep_comparison(beside, beside.comparison, out=tmp_path, folder=path)[0] == path / "README.md"


def test_a_folder_that_another_process_took_meanwhile_is_taken(
    beside: SideBySide, out: Path, tmp_path: Path, stored_run: Any, monkeypatch: pytest.MonkeyPatch
):
    stored_run("later", slugs=("other", "small")).add("sums", BASELINE, COMPRESSED[::-1]).write()
    other, path = compare_results(out, "before", "later"), tmp_path / "kept"
    locked = RunFolder.locked

    def late(place: Path, advice: str) -> RunFolder:
        monkeypatch.setattr(RunFolder, "locked", locked)
        keep_comparison(other, other.comparison, out=out, folder=place)
        return locked(place, advice)

    monkeypatch.setattr(RunFolder, "locked", late)
    with pytest.raises(UserError, match="holds another run"):
        keep_comparison(beside, beside.comparison, out=out, folder=path)


def test_only_what_both_answered_is_kept(stored_run: Any, out: Path):
    stored_run("before", slugs=("tiny",)).add("sums", BASELINE).write()
    stored_run("after", slugs=("small",)).add("sums", COMPRESSED[:100]).write()
    found = compare_results(out, "before", "after", common_items=True)
    folder = RunFolder(keep_comparison(found, found.comparison, out=out)[0].parent)
    run = folder.read_run()
    assert [len(folder.read_verdicts(model.slug, "sums")) for model in run.models] == [100, 100]
    assert compare_folder(folder).tasks == found.comparison.tasks


def test_fidelity_is_of_one_model(beside: SideBySide, out: Path, tmp_path: Path):
    from evalcard.results.compared import FidelityRecord

    path = tmp_path / "kl.txt"
    path.write_text(KL)
    told = with_fidelity(beside.run, beside.comparison, path)
    assert with_fidelity(beside.run, told, path) == told, "given again, it is not there twice"
    (one,) = [one for one in told.fidelity if one.unit == "tokens"]
    assert isinstance(one, FidelityRecord) and (one.model, one.items, one.kl_mean) == ("small", 254, 0.01)
    folder = RunFolder(keep_comparison(beside, told, out=out)[0].parent)
    assert "| `kl.txt` | 254 |" in (folder.path / "README.md").read_text()
    assert one in compare_results(out, folder.name).comparison.fidelity, "it cannot be computed again"
    several: RunRecord = beside.run.model_copy(update={"models": [*beside.run.models, beside.run.models[1]]})
    with pytest.raises(UserError, match="one compressed model"):
        with_fidelity(several, beside.comparison, path)


def test_rescoring_it_is_refused_with_the_next_step(beside: SideBySide, out: Path, capsys: pytest.CaptureFixture[str]):
    from evalcard.cli.main import invoke

    card = keep_comparison(beside, beside.comparison, out=out)[0]
    assert invoke(["rescore", str(card.parent), "--out", str(out)]) == 2
    assert "put together from stored results" in capsys.readouterr().err
    assert RunFolder(card.parent).read_run().finished is not None


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
