"""Logs as inspect_ai writes them: one JSON object, or a zip of its parts, compressed or not, with zstd or without."""

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.results.imported.inspect_sample import value_of
from evalcard.results.imported.load import import_results


def sample(item_id: int | str, value: Any, epoch: int = 1, **changes: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Please: Q{item_id}?"},
                {"role": "assistant", "content": f"ANSWER {item_id}"}]  # fmt: skip
    choice = {"message": messages[2], "stop_reason": "stop"}
    output = {"model": "m", "choices": [choice], "completion": f"ANSWER {item_id}", "usage": {"output_tokens": 5}}
    score = {"value": value, "answer": f"A{item_id}", "explanation": "x", "history": []}
    return {"id": item_id, "epoch": epoch, "input": f"Q{item_id}?", "target": f"A{item_id}", "messages": messages,
            "output": output, "scores": {"match": score}, "metadata": {}, "attachments": {}} | changes  # fmt: skip


def log(samples: list[dict[str, Any]] | None, **changes: Any) -> dict[str, Any]:
    """An EvalLog; ``changes`` go to ``eval``, but for the parts of the log itself."""
    ids = list(dict.fromkeys(one["id"] for one in samples or ()))
    spec = {"run_id": "r", "created": "2026-03-04T05:06:07+02:00", "task": "sums", "task_id": "t", "task_version": 3,
            "task_args": {}, "task_args_passed": {}, "model": "vllm/org/Model", "model_args": {},
            "model_generate_config": {}, "config": {"epochs": 1},
            "dataset": {"name": "sums", "location": "org/sums", "samples": len(ids), "sample_ids": ids},
            "packages": {"inspect_ai": "0.3.285"}, "scorers": [{"name": "match"}]}  # fmt: skip
    metrics = {"accuracy": {"name": "accuracy", "value": 0.5, "params": {}}, "stderr": {"name": "stderr", "value": 0.1}}
    results = {"total_samples": len(samples or ()), "completed_samples": len(samples or ()),
               "scores": [{"name": "match", "scorer": "match", "metrics": metrics}]}  # fmt: skip
    parts = {name: changes.pop(name) for name in ("status", "results", "plan") if name in changes}
    whole = {"version": 2, "status": "success", "eval": spec | changes, "results": results,
             "plan": {"name": "plan", "steps": [], "config": {"temperature": 0.0, "max_tokens": 64}},
             "stats": {"started_at": "2026-03-04T05:06:08+02:00"}} | parts  # fmt: skip
    return whole | ({} if samples is None else {"samples": samples})


def save_json(path: Path, data: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2))
    return path


def members(data: dict[str, Any]) -> dict[str, bytes]:
    """The parts of an .eval archive by name, in the order in which they are written."""
    header = {name: value for name, value in data.items() if name != "samples"}
    start = {name: data[name] for name in ("version", "eval", "plan")}
    found = {"_journal/start.json": start}
    found |= {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in data.get("samples", ())}
    found |= {"summaries.json": [], "header.json": header}
    return {name: json.dumps(part).encode() for name, part in found.items()}


def save_eval(path: Path, parts: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def save_zstd(path: Path, parts: dict[str, bytes]) -> Path:
    """A zip of method 93, which zipfile cannot write before Python 3.14: local headers, directory, end."""
    import pyarrow

    body, directory = b"", b""
    for name, content in parts.items():
        packed = pyarrow.Codec("zstd").compress(content, asbytes=True)
        sizes = struct.pack("<IIIHH", zlib.crc32(content), len(packed), len(content), len(name), 0)
        common = struct.pack("<HHHHH", 63, 0, 93, 0, 33)[:10] + sizes
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + common + struct.pack("<HHHII", 0, 0, 0, 0, len(body))
        directory += name.encode()
        body += b"PK\x03\x04" + common + name.encode() + packed
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, len(parts), len(parts), len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    return path


@pytest.fixture
def four() -> dict[str, Any]:
    return log([sample(3, "I"), sample(1, "C"), sample("x", "N"), sample(2, "C")])


FORMS: dict[str, Callable[[Path, dict[str, Any]], Path]] = {
    "json": lambda folder, data: save_json(folder / "a.json", data),
    "eval": lambda folder, data: save_eval(folder / "a.eval", members(data)),
    "zstd": lambda folder, data: save_zstd(folder / "a.eval", members(data)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_log_in_each_form(tmp_path: Path, four: dict[str, Any], form: str, score: Any):
    path = FORMS[form](tmp_path, four)
    (stored,) = import_results(path)
    assert (stored.model.name, stored.model.hub_id, stored.model.slug) == ("org/Model", "org/Model", "Model")
    assert stored.origin == f"inspect_ai 0.3.285: {path.name} (2026-03-04T03:06:07)", "in UTC"
    assert [(row.name, row.rule) for row in stored.rows] == [("sums", "task")]
    task = stored.tasks["sums"]
    assert (task.metric, task.filter, task.version, task.decoding) == ("accuracy", "match", "3", "greedy")
    assert (task.items_total, task.items_selected, task.repeats, task.dataset) == (4, 4, 1, "org/sums")
    assert [one.item_id for one in stored.verdicts["sums"]] == [1, 2, 3, "x"]
    assert [one.outcome for one in stored.verdicts["sums"]] == ["correct", "correct", "wrong", "no_answer"]
    assert float(score(stored, "sums")) == 0.5 and stored.is_complete
    first, verdict = stored.samples["sums"][0], stored.verdicts["sums"][0]
    assert (first.text, first.finish, first.output_tokens) == ("ANSWER 1", "stop", 5)
    assert (verdict.extracted, verdict.target, stored.questions["sums"][1]) == ("A1", "A1", "Q1?")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), (True, 1.0), (0.25, 0.25), (3, 3.0), ("yes", 1.0), ("FALSE", 0.0),
     ("0.75", 0.75), ("what", 0.0), ("nan", 0.0), (float("nan"), None), (None, None)],
)  # fmt: skip
def test_values_are_mapped_as_inspect_maps_them(value: Any, expected: float | None):
    assert value_of(value) == expected


def test_epochs_are_repeats(tmp_path: Path, score: Any):
    samples = [sample(i, "C" if (i + epoch) % 2 else "I", epoch) for epoch in (1, 2, 3) for i in (1, 2)]
    save_json(tmp_path / "a.json", log(samples, config={"epochs": 3}))
    (stored,) = import_results(tmp_path)
    assert stored.tasks["sums"].repeats == 3
    assert [(one.item_id, one.repeat) for one in stored.samples["sums"]] == [
        (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)
    ]  # fmt: skip
    assert float(score(stored, "sums")) == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert len({one.prompt_hash for one in stored.samples["sums"]}) == 2


@pytest.mark.parametrize(
    ("changes", "finish", "outcome"),
    [
        (
            {"output": {"choices": [{"message": {"content": "abc"}, "stop_reason": "max_tokens"}]}},
            "length",
            "truncated",
        ),
        ({"limit": {"type": "token", "limit": 10}}, "length", "truncated"),
        ({"error": {"message": "refused", "traceback": ""}}, "error", "error"),
        ({"scores": {"match": {"value": float("nan"), "reason": "grader_failed"}}}, "error", "error"),
        ({"scores": {"match": {"value": float("nan"), "reason": "no_response"}}}, "stop", "no_answer"),
        (
            {"scores": {"match": {"value": float("nan"), "metadata": {"unscored_reason": "refusal"}}}},
            "stop",
            "no_answer",
        ),
        ({"scores": {"match": {"value": "I", "answer": None}}}, "stop", "no_answer"),
        ({"scores": {}}, "error", "error"),
    ],
)
def test_answers_that_are_none(tmp_path: Path, changes: dict[str, Any], finish: str, outcome: str, score: Any):
    save_json(tmp_path / "a.json", log([sample(1, "C"), sample(2, "I", **changes)]))
    (stored,) = import_results(tmp_path)
    assert (stored.samples["sums"][1].finish, stored.verdicts["sums"][1].outcome) == (finish, outcome)
    assert float(score(stored, "sums")) == 0.5, "what failed is in the total"


def test_a_scorer_that_notes_no_answers_makes_wrong_ones_wrong(tmp_path: Path):
    bare = [sample(i, value, scores={"judge": {"value": value}}) for i, value in ((1, "C"), (2, "I"))]
    save_json(tmp_path / "a.json", log(bare, results=None))
    (stored,) = import_results(tmp_path)
    assert [one.outcome for one in stored.verdicts["sums"]] == ["correct", "wrong"]
    assert (stored.tasks["sums"].metric, stored.tasks["sums"].filter) == ("mean", "judge")


def test_the_headline_names_the_scorer(tmp_path: Path):
    scores = {"match": {"value": "C"}, "f1": {"value": 0.25}}
    data = log([sample(1, "C", scores=scores), sample(2, "C", scores=scores)])
    data["results"]["scores"].append(
        {"name": "f1", "scorer": "f1", "metrics": {"mean": {"name": "mean", "value": 0.25}}}
    )
    data["results"]["headline"] = {"scorer": "f1", "metric": "mean"}
    save_json(tmp_path / "a.json", data)
    (stored,) = import_results(tmp_path)
    assert (stored.tasks["sums"].metric, stored.tasks["sums"].filter) == ("mean", "f1")
    assert [score.value for score in stored.verdicts["sums"][0].scores] == [0.25, 1.0]


def test_a_scorer_of_several_scores(tmp_path: Path):
    scores = {"both": {"value": {"style": 0.5, "content": "C"}}}
    data = log([sample(1, "C", scores=scores), sample(2, "C", scores=scores)])
    data["results"]["scores"] = [
        {"name": name, "scorer": "both", "metrics": {"mean": {"value": 1.0}}} for name in ("content", "style")
    ]
    save_json(tmp_path / "a.json", data)
    (stored,) = import_results(tmp_path)
    assert stored.tasks["sums"].filter == "content"
    assert [(one.filter, one.value) for one in stored.verdicts["sums"][0].scores] == [("content", 1.0), ("style", 0.5)]


def test_long_texts_that_are_stored_apart(tmp_path: Path):
    plain = sample(1, "C", input="long question")
    apart = sample(1, "C", input="attachment://abc", attachments={"abc": "long question"})
    save_json(tmp_path / "a.json", log([plain, sample(2, "C")]))
    save_json(tmp_path / "b.json", log([apart, sample(2, "C")]))
    (a,), (b,) = (import_results(tmp_path / name) for name in ("a.json", "b.json"))
    assert a.questions["sums"][1] == b.questions["sums"][1] == "long question"
    assert a.samples["sums"][0].item_hash == b.samples["sums"][0].item_hash


def test_the_prompt_is_every_turn_before_the_answer(tmp_path: Path):
    other = sample(1, "C")
    other["messages"][0] = {"role": "system", "content": "Be long."}
    spoken = sample(1, "C")
    spoken["messages"][2] = {"role": "assistant", "content": "another answer"}
    hashes = []
    for name, one in (("a", sample(1, "C")), ("b", other), ("c", spoken)):
        save_json(tmp_path / f"{name}.json", log([one, sample(2, "I")]))
        (stored,) = import_results(tmp_path / f"{name}.json")
        hashes.append(stored.samples["sums"][0].prompt_hash)
    assert hashes[0] == hashes[2] != hashes[1]


def test_choices_give_the_chance_level(tmp_path: Path):
    save_json(tmp_path / "a.json", log([sample(i, "C", choices=["a", "b", "c", "d"]) for i in range(3)]))
    (stored,) = import_results(tmp_path)
    assert stored.tasks["sums"].chance == 0.25


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "as the provider decodes by default"),
        (
            {"temperature": 0.7, "top_p": 0.9, "top_k": 20, "seed": 5},
            "sampled, temperature 0.7, top-p 0.9, top-k 20, seed 5",
        ),
    ],
)
def test_decoding(tmp_path: Path, config: dict[str, Any], words: str):
    save_json(tmp_path / "a.json", log([sample(1, "C"), sample(2, "I")], plan={"config": config}))
    (stored,) = import_results(tmp_path)
    assert stored.tasks["sums"].decoding == words and stored.seed == config.get("seed")


def test_a_subset_of_the_data(tmp_path: Path):
    dataset = {"samples": 50, "sample_ids": [1, 2], "location": "file.jsonl"}
    save_json(tmp_path / "a.json", log([sample(1, "C"), sample(2, "I")], dataset=dataset))
    (stored,) = import_results(tmp_path)
    task = stored.tasks["sums"]
    assert (task.items_total, task.items_selected, task.item_ids, task.dataset) == (50, 2, [1, 2], None)


def test_an_archive_that_was_never_finished(tmp_path: Path):
    """It has its plan and the samples so far; what is missing shows."""
    data = log([sample(i, "C") for i in range(4)])
    parts = members(data)
    del parts["header.json"], parts["samples/3_epoch_1.json"], parts["summaries.json"]
    save_eval(tmp_path / "a.eval", parts)
    (stored,) = import_results(tmp_path)
    assert not stored.is_complete and len(stored.samples["sums"]) == 3
    assert stored.tasks["sums"].items_selected == 4


def test_a_finished_log_goes_before_a_newer_one_that_is_not(tmp_path: Path, four: dict[str, Any]):
    save_json(tmp_path / "a.json", four)
    save_json(tmp_path / "b.json", log([sample(1, "I")], status="error", created="2026-05-01T00:00:00+00:00"))
    (stored,) = import_results(tmp_path)
    assert stored.is_complete and len(stored.samples["sums"]) == 4
    assert stored.origin.endswith("a.json (2026-03-04T03:06:07); 1 older or unfinished file of it not used")


def test_arguments_make_another_task(tmp_path: Path, four: dict[str, Any]):
    save_json(tmp_path / "a.json", four)
    given = {"subject": "law", "fewshot": 5}
    save_json(tmp_path / "b.json", log([sample(1, "C"), sample(2, "I")], task_args_passed=given, task_args=given))
    (stored,) = import_results(tmp_path)
    assert sorted(stored.tasks) == ["sums", "sums(fewshot=5, subject=law)"]
    assert stored.tasks["sums(fewshot=5, subject=law)"].num_fewshot == 5


@pytest.mark.parametrize(
    ("spec", "name", "hub_id"),
    [
        ({"model": "openai/some-model"}, "some-model", None),
        ({"model": "hf/org/name"}, "org/name", "org/name"),
        ({"model": "hf/local", "model_args": {"model_path": "/home/someone/Tiny"}}, "Tiny", None),
        ({"model": "vllm//home/someone/Tiny"}, "Tiny", None),
    ],
)
def test_names_of_models(tmp_path: Path, spec: dict[str, Any], name: str, hub_id: str | None):
    save_json(tmp_path / "a.json", log([sample(1, "C"), sample(2, "I")], **spec))
    (stored,) = import_results(tmp_path)
    assert (stored.model.name, stored.model.hub_id) == (name, hub_id)
    assert "someone" not in stored.model.model_dump_json() + stored.origin


@pytest.mark.parametrize("form", ["json", "eval"])
def test_without_samples(tmp_path: Path, form: str):
    FORMS[form](tmp_path, log(None))
    with pytest.raises(UserError, match="has no samples.*without --no-log-samples"):
        import_results(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda parts: parts.update({"samples/1_epoch_1.json": b'{"id": 1'}), "samples/1_epoch_1.json, is damaged"),
        (
            lambda parts: parts.update({"samples/1_epoch_1.json": b'{"id": 1, "epoch": 0}'}),
            "its id 1 or epoch 0 is none",
        ),
        (
            lambda parts: parts.update({"samples/9_epoch_1.json": parts["samples/1_epoch_1.json"]}),
            "two samples of the same",
        ),
    ],
)
def test_damaged_samples(tmp_path: Path, four: dict[str, Any], change: Callable[[dict[str, bytes]], Any], words: str):
    parts = members(four)
    change(parts)
    save_eval(tmp_path / "a.eval", parts)
    with pytest.raises(UserError, match=words):
        import_results(tmp_path)


def test_a_damaged_zstd_member(tmp_path: Path, four: dict[str, Any]):
    path = save_zstd(tmp_path / "a.eval", members(four))
    content = bytearray(path.read_bytes())
    place = content.find(b"samples/1_epoch_1.json") + len("samples/1_epoch_1.json") + 12
    content[place : place + 8] = bytes(8)
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"samples/1_epoch_1.json, is damaged"):
        import_results(tmp_path)


def test_a_member_that_would_unpack_to_too_much(tmp_path: Path, four: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("evalcard.results.imported.inspect_file.MAX_JSON", 100)
    save_eval(tmp_path / "a.eval", members(four))
    with pytest.raises(UserError, match="has more than"):
        import_results(tmp_path)


@pytest.mark.parametrize(
    ("scorer", "metric", "values", "expected"),
    [("judge", "mean", ["C", "I", "P"], True), ("judge", "mean", [True, False, "no"], True),
     ("judge", "accuracy", [0.5, 1.0, 0.0], True), ("f1", "mean", [0.5, 1.0, 0.0], True),
     ("wer", "mean", [0.5, 1.0, 0.0], False), ("judge", "mean", [0.5, 1.0, 0.0], None),
     ("judge", "mean", ["0.5", "1", "0"], None)],
)  # fmt: skip
def test_a_direction_is_never_guessed(
    tmp_path: Path, scorer: str, metric: str, values: list[Any], expected: bool | None
):
    samples = [sample(i, value) for i, value in enumerate(values)]
    for one in samples:
        one["scores"] = {scorer: one["scores"]["match"]}
    scores = [{"name": scorer, "scorer": scorer, "metrics": {metric: {"name": metric, "value": 0.5}}}]
    path = save_json(tmp_path / "a.json", log(samples, results={"scores": scores}, scorers=[{"name": scorer}]))
    if expected is None:
        with pytest.raises(UserError, match="nothing states whether higher or lower is better for mean of judge"):
            import_results(path)
    else:
        (stored,) = import_results(path)
        assert stored.tasks["sums"].higher_is_better is expected


def test_a_score_beyond_a_float_counts_0_as_what_is_no_number():
    assert value_of(10**400) == 0.0


@pytest.mark.parametrize(
    ("reason", "finish"), [("stop", "stop"), ("max_tokens", "length"), ("unknown", "not_told"), (None, "not_told")]
)
def test_an_end_without_a_reason_is_not_told(reason: str | None, finish: str):
    from evalcard.results.imported.inspect_sample import _finish

    assert _finish({}, {"choices": [{"stop_reason": reason}]}) == finish


def test_a_member_with_damaged_bytes_is_named(tmp_path: Path, four: dict[str, Any]):
    path = save_eval(tmp_path / "a.eval", members(four))
    whole = bytearray(path.read_bytes())
    start = whole.index(b"samples/") + 60
    whole[start : start + 30] = bytes(30)
    path.write_bytes(bytes(whole))
    with pytest.raises(UserError, match=r"a\.eval, samples/3_epoch_1\.json, is damaged: "):
        import_results(path)


def test_an_archive_of_a_version_that_zipfile_does_not_know(tmp_path: Path, four: dict[str, Any]):
    from evalcard.results.imported.detect import kind_of

    path = save_eval(tmp_path / "a.eval", members(four))
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"PK\x01\x02") + 6] = 144
    path.write_bytes(bytes(whole))
    assert kind_of(path) is None


def test_a_member_that_unpacks_to_a_multiple_of_itself_is_not_unpacked(tmp_path: Path, four: dict[str, Any]):
    parts = members(four) | {"samples/b_epoch_1.json": b" " * (65 << 20)}
    with pytest.raises(UserError, match=r"samples/b_epoch_1\.json, is damaged: it unpacks \d+ bytes to 65 MiB"):
        import_results(save_eval(tmp_path / "a.eval", parts))
