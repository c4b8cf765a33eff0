"""What names a run exactly, without a path of the machine that measured."""

import yaml

from evalcard.card.reproduction import reproduction_of, spec_yaml
from evalcard.spec import make_spec

ASKED = {
    "baseline": {"source": "acme/toy-1b", "revision": "0123abc", "scheme": None},
    "compressed": [
        {"source": "acme/toy-1b", "scheme": "w8a8"},
        {"source": "/home/someone/models/toy-gptq", "args": {"tokenizer": "/home/someone/tok"}},
    ],
    "tasks": ["arc", "lm_eval/gsm8k", "/mnt/secret/mine.yaml"],
    "limit": 20.0,
    "system": "Answer yes and/or no. See /mnt/secret/rules.",
    "chat_template": True,
    "out": "/mnt/secret/results", "reuse": ["/mnt/secret/a"], "data_root": "/mnt/secret/data",
}  # fmt: skip


def test_the_spec_is_one_and_holds_no_path(make_case):
    run, _ = make_case(asked=ASKED)
    text = spec_yaml(run)
    assert "secret" not in text and "someone" not in text
    data = yaml.safe_load(text)
    assert data["baseline"] == "acme/toy-1b@0123abc" and data["compressed"][0] == "acme/toy-1b:w8a8"
    assert data["compressed"][1] == {"source": "toy-gptq", "args": {"tokenizer": "tok"}}
    assert data["tasks"] == ["arc", "lm_eval/gsm8k", "mine.yaml"] and data["limit"] == 20
    assert data["system"] == "Answer yes and/or no. See rules."
    assert not {"out", "reuse", "data_root"} & data.keys()
    spec = make_spec(data)
    assert (spec.baseline.revision, spec.compressed[0].scheme, spec.limit) == ("0123abc", "w8a8", 20)


def test_nothing_asked_is_no_spec(make_case):
    assert spec_yaml(make_case()[0]) == ""


def test_digests_and_dates(make_case):
    run, _ = make_case()
    changes = {"weights_digest": "ab" * 32 + "+w8a8+rtn1", "template_digest": "cd" * 32}
    models = [run.models[0].model_copy(update={"weights_digest": None}), run.models[1].model_copy(update=changes)]
    told = reproduction_of(run, models, {"toy-1b": "baseline", "toy-1b-w8a8": "compressed"})
    assert [one.weights for one in told.digests] == [None, "abababababababab+w8a8+rtn1"]
    assert told.digests[1].template == "cd" * 8 and told.digests[0].template is None
    assert (told.began, told.ended) == ("2026-11-30 10:00", "2026-11-30 10:40")
    assert reproduction_of(run.model_copy(update={"finished": None}), [], {}).ended is None
