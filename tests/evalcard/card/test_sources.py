"""Where answers come from, as a card says it."""

from typing import Any

from evalcard.card.sources import sources_view
from evalcard.results.records import SourceRecord


def test_a_run_of_our_own_has_none(make_case: Any):
    assert sources_view(make_case()[0]) is None


def test_a_program_is_told_with_what_it_states(make_case: Any):
    run, _ = make_case()
    told = '{"lm_eval": "0.4.13", "backend": "hf", "dtype": "?", "peft": null, "cache": "/home/someone/cache/hub"}'
    unknown = {"numerics": told, "weights_digest": None, "tokenizer_digest": "", "weight_bytes": None}
    models = [run.models[0].model_copy(update=unknown), run.models[1]]
    sources = {
        "toy-1b": SourceRecord(
            program="lm_eval 0.4.13", files=["/home/someone/results/a.json"], prompts="text", tells_endings=False
        ),  # fmt: skip
        "toy-1b-w8a8": SourceRecord(program="evalcard 0.1.0", run="arc-1", created="2026-05-01T10:00:00+00:00"),
    }
    view = sources_view(run.model_copy(update={"models": models, "sources": sources}))
    assert view is not None and view.prompts == "none", "hashes of texts and of ids are not the same"
    baseline, compressed = view.models
    assert (baseline.who, baseline.program, baseline.files) == ("baseline", "lm_eval 0.4.13", ("a.json",))
    assert dict(baseline.facts) == {"backend": "hf", "cache": "hub"}
    assert baseline.unknown == ("tokenizer", "weights", "size", "how answers ended") and compressed.unknown == ()
    assert (compressed.run, compressed.created) == ("arc-1", "2026-05-01")
    assert compressed.facts[0][0] == "numerics"
