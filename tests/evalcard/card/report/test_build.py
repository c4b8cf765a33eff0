"""The page as a file: its parts, its policy, what it must not hold."""

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.card.report.asked import Asked
from evalcard.card.report.build import asked_of, assembled, render_page
from evalcard.card.report.items import item_parts
from evalcard.card.report.pool import PACK_FROM, Pool, embedded, packed_json, plain_json, starts_of
from evalcard.compare.choices import alternatives, gold_of, pick_of, rounded
from evalcard.results.compared import Finding
from evalcard.results.records import ItemScore, Sample, ScoredChoice, SourceRecord, Verdict
from evalcard.results.store import RunFolder
from evalcard.stored import load_stored

HARD = ["</script>", "<!--", "a & b", "\u2028\u2029", "\ud800", "\x00", "\u05e9", '"\\']


def test_equal_strings_are_stored_once_and_none_is_none():
    pool = Pool()
    assert [pool.add(text) for text in ("a", "b", None, "a", "")] == [0, 1, None, 0, 2]
    assert len(pool) == 3
    assert pool.blocks(1) == [["a"], ["b"], [""]]
    assert pool.blocks(2) == [["a", "b"], [""]]
    assert starts_of(pool.blocks(2)) == [0, 2]
    assert Pool().blocks() == []


def test_plain_json_can_stand_in_a_page():
    text = plain_json(HARD)
    assert text.isascii() and not set("<>&") & set(text)
    assert json.loads(text) == HARD


def test_packed_json_is_the_same_data_and_the_same_bytes_each_time():
    text = packed_json(HARD)
    assert json.loads(gzip.decompress(base64.b64decode(json.loads(text)))) == HARD
    assert text == packed_json(list(HARD))


@pytest.mark.parametrize(("length", "is_packed"), [(PACK_FROM - 100, False), (PACK_FROM, True)])
def test_large_pages_are_packed_as_a_whole(length: int, is_packed: bool):
    texts = embedded([{"small": 1}, ["x" * length]])
    assert [text.startswith('"') for text in texts] == [is_packed, is_packed]


def scored(
    *pairs: tuple[str, float | None], extracted: str | None = None, metric: str = "acc"
) -> tuple[Sample, Verdict]:
    choices = [ScoredChoice(text=text, logprob=value, tokens=1, is_greedy=False) for text, value in pairs]
    facts = {"schema": 1, "key": "k", "task": "t", "task_version": "1", "item_id": 0, "item_hash": "h", "repeat": 0,
             "prompt_hash": "p", "prompt_tokens": 1, "finish": "stop", "output_tokens": 0,
             "choices": choices}  # fmt: skip
    scores = [ItemScore(metric=metric, filter="none", value=1.0)]
    verdict = Verdict(item_id=0, repeat=0, extracted=extracted, target="B", outcome="correct", scores=scores)
    return Sample.model_validate(facts), verdict


def test_the_pick_is_what_was_extracted_else_the_likeliest():
    sample, verdict = scored((" A", -1.0), (" B", -2.0), (" C", None), extracted="B")
    options = alternatives(sample, verdict)
    assert (gold_of(options, verdict), pick_of(options, verdict)) == (1, 1)
    assert rounded(options) == [-1.0, -2.0, None]
    sample, verdict = scored((" A", -1.0), (" A", -1.0), (" C", -3.0))
    assert (gold_of(sample.choices or [], verdict), pick_of(sample.choices or [], verdict)) == (None, 0)
    assert pick_of(scored((" A", None), (" B", None))[0].choices or [], verdict) is None
    assert pick_of(scored(("a whole text", -3.0))[0].choices or [], verdict) is None


def test_log_probabilities_without_the_question_are_no_choices():
    sample, verdict = scored((" A", -1.0), (" B", -2.0), (" A", -0.1), (" B", -0.2), metric="acc_mutual_info")
    assert [one.logprob for one in alternatives(sample, verdict)] == [-1.0, -2.0]


def test_columns_say_what_changed(stored_run: Callable[..., Any], tmp_path: Path):
    """Scores between 0 and 1 do not flip, as in the tables; they may still be other answers."""
    stored = stored_run().add("binary", [1, 0, 1], [0, 1, 1]).add("shares", [0.5, 1, 0.25], [0.25, 1, 0.5])
    run = RunFolder(stored.write()).read_run()
    models = [load_stored(tmp_path / "results", f"some-run:{slug}") for slug in stored.slugs]
    columns, told = item_parts(run, models, Asked(questions={"binary": {1: "What?"}}))
    assert columns["columns"]["change"] == ["l", "g", "s", "s", "s", "s"]
    assert [told[number] if number is not None else None for number in columns["columns"]["question"]][:3] == [
        None,
        "What?",
        None,
    ]
    assert columns["columns"]["id"] == [0, 1, 2, 0, 1, 2]
    assert [answers[1][0] for answers in columns["columns"]["answers"]] == ["ws", "cs", "cs", "ws", "cs", "ws"]
    assert columns["prompts"] == []


@pytest.mark.parametrize(
    ("parts", "stored", "pool"),
    [
        (("Examples.\n", "What? What?\nAnswer:"), [0, 1, "q", 2], ["Examples.\n", "What? ", "\nAnswer:"]),
        (("What?",), ["q"], []),
        (("Other words",), [0], ["Other words"]),
        ((), [], []),
    ],
)
def test_a_question_inside_its_prompt_is_stored_once(
    stored_run: Callable[..., Any], tmp_path: Path, parts: tuple[str, ...], stored: list[Any], pool: list[str]
):
    made = stored_run().add("a", [1], [1])
    run = RunFolder(made.write()).read_run()
    models = [load_stored(tmp_path / "results", f"some-run:{slug}") for slug in made.slugs]
    given = Asked(questions={"a": {0: "What?"}}, prompts={"a": {0: parts}} if parts else {})
    columns, _, *prompts = item_parts(run, models, given)
    assert columns["columns"]["prompt"] == [stored]
    assert [text for block in prompts for text in block] == pool


def test_questions_that_another_harness_stored_are_shown(
    stored_run: Callable[..., Any],
):
    path = stored_run().add("a", [1] * 8, [1] * 8).write()
    folder = RunFolder(path)
    sources = {slug: SourceRecord(program="lm_eval 0.4.13", prompts="text") for slug in ("tiny", "tiny-w8a8")}
    run = folder.read_run().model_copy(update={"sources": sources})
    folder.write_run(run)
    folder.write_questions({"a": {3: "Who <asked> that?"}})
    models = [load_stored(path.parent, f"some-run:{slug}") for slug in sources]
    found = asked_of(run, models, None, False)
    assert (found.is_stored, found.questions, found.prompts) == (True, {"a": {3: "Who <asked> that?"}}, {})


@pytest.fixture
def page(stored_run: Callable[..., Any], make_page: Callable[..., Path]) -> str:
    stored = stored_run().add("a", [1, 1, 0], [1, 0, 0])
    for slug in stored.slugs:
        stored.answers[slug, "a"][1] |= {"fault": "no file /home/somebody/secret/x.py", "finish": "error"}
    return make_page(stored, Asked(missing=["nothing at data"])).read_text(encoding="utf-8")


def test_the_policy_names_exactly_the_style_and_the_script(page: str):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for kind, pattern in (("style", r"<style>(.*?)</style>"), ("script", r"<script>(.*?)</script>")):
        (content,) = re.findall(pattern, page, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy.replace("&#39;", "'")


def test_the_page_needs_nothing_beside_it(page: str):
    sources = re.findall(r'(?:src|href)="([^"#][^"]*)"', page)
    assert sources and all(one.startswith("data:image/png;base64,") for one in sources)
    assert not re.search(
        r"url\(|@import|\bimport\(|XMLHttpRequest|fetch\(|WebSocket|sendBeacon", assembled("css") + assembled("js")
    )
    assert " style=" not in page and " onclick=" not in page


def test_no_path_of_the_machine_is_in_it(page: str, tmp_path: Path):
    assert "/home/somebody" not in page and str(tmp_path) not in page and "no file x.py" in page


def test_model_text_reaches_the_page_as_text_only():
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|srcdoc", assembled("js")
    )


def test_it_loads_light():
    code = "import evalcard.card.report.build, evalcard.cli.report, sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {
        "torch",
        "transformers",
        "triton",
        "lm_eval",
        "datasets",
        "pandas",
        "scipy",
        "matplotlib",
        "jinja2",
    }


def test_a_run_put_together_says_what_measured_it(stored_run: Callable[..., Any], make_page: Callable[..., Path]):
    made = stored_run().add("a", [1] * 8, [1] * 8)
    folder = RunFolder(make_page(made).parent)
    said = {"program": "lm_eval 0.4.13", "files": ["results_2026.json"], "prompts": "text", "tells_endings": False}
    sources = {slug: SourceRecord(**said) for slug in made.slugs}
    run = folder.read_run().model_copy(update={"sources": sources})
    page = render_page(run, folder.read_comparison(), [], Asked(is_stored=True))
    assert page.count("lm_eval 0.4.13; file results_2026.json") == 2 and "how answers ended</dd>" in page
    assert "the text of their prompts" in page and "<dt>Hardware</dt><dd>not told" in page
    assert "evalcard's own" not in page and "evalcard&#39;s own" not in page and "<dt>Seed</dt>" not in page
    assert "that <em>Wrong</em> and <em>No answer</em> hold the cut ones, too" in page


def test_findings_of_every_severity_keep_their_advice(stored_run: Callable[..., Any], make_page: Callable[..., Path]):
    folder = RunFolder(make_page(stored_run().add("a", [1, 0] * 8, [1, 0] * 8)).parent)
    health = [
        Finding(finding=f"Seen {one}.", severity=one, where="a", advice=f"Do this of a {one}.")
        for one in ("note", "warning", "blocker")
    ]
    comparison = folder.read_comparison().model_copy(update={"health": health})
    page = render_page(folder.read_run(), comparison, [], Asked())
    for one in health:
        assert f"<em>{one.advice}</em>" in page, one.severity


@pytest.mark.parametrize("backend", ["evalcard", "hf"])
def test_the_arithmetic_is_said_in_words_and_its_line_is_under_details(
    stored_run: Callable[..., Any], make_page: Callable[..., Path], backend: str
):
    folder = RunFolder(make_page(stored_run().add("a", [1] * 8, [1] * 8)).parent)
    run = folder.read_run()
    models = [model.model_copy(update={"numerics": "kernels 3; rows exact"}) for model in run.models]
    run = run.model_copy(update={"models": models, "resolved": {"backend": backend}})
    page = render_page(run, folder.read_comparison(), [], Asked())
    before, _, under = page.partition("<summary>How the arithmetic was done</summary>")
    assert "kernels 3; rows exact" not in before and "Numerics" not in page
    assert "kernels 3; rows exact" in under.partition("</details>")[0]
    assert ("the same prompts and seed give the same answers, word for word" in before) == (backend == "evalcard")


def test_several_models_are_not_called_both(stored_run: Callable[..., Any], make_page: Callable[..., Path]):
    slugs = ("tiny", "tiny-w8a8", "tiny-w4a16")
    folder = RunFolder(make_page(stored_run(slugs=slugs).add("a", [1] * 8, [1] * 8, [0] * 8)).parent)
    run = folder.read_run()
    own = render_page(run, folder.read_comparison(), [], Asked())
    assert "<dt>All models</dt>" in own
    sources = {slug: SourceRecord(program="lm_eval 0.4.13", prompts="text") for slug in slugs}
    put_together = render_page(run.model_copy(update={"sources": sources}), folder.read_comparison(), [], Asked())
    assert "That all models were asked the same" in put_together and "<dt>Baseline measured by</dt>" in put_together
    assert all(f"<dt>Compressed {slug} measured by</dt>" in put_together for slug in slugs[1:])
    assert "<dt>Both models" not in own and " both models were" not in put_together
