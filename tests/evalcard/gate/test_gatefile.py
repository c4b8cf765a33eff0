"""Gate files: read strictly, written with what they were set for and why they changed."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalcard.errors import UserError
from evalcard.gate import gatefile
from evalcard.gate.gatefile import load_gate, merge, write_gate
from evalcard.gate.judge import judge
from evalcard.gate.spec import Bounds, Calibration, GateSpec

FULL = """
min_recovery: 98
max_drop: 1.5
tasks:
  gsm8k: 97
  mmlu: {min_recovery: 99, min_score: 60.5}
averages:
  maths: {max_drop: 1}
overall: 98.5
confidence: 0.9
decide: point
set_for:
  baseline: org/base
  baseline_revision: abc
  compressed: {"org/small:w8a8": null, org/small: def}
  date: 2026-01-05
  scores: {gsm8k: 0.7}
changes:
- {date: 2026-01-05, what: tasks.gsm8k.min_recovery, from: 98, to: 97, reason: A harder prompt.}
"""


@pytest.fixture
def given_file(tmp_path: Path) -> Any:
    def write(text: str) -> Path:
        path = tmp_path / "gate.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def run(compare: Any, counts: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(gatefile, "_today", lambda: date(2026, 3, 4))
    return compare({"t": counts(1000, 700, 1, 1), "u": counts(300, 100, 1, 1)})


def test_everything_a_file_can_say(given_file: Any):
    assert load_gate(given_file(FULL)) == GateSpec(
        every=Bounds(98, max_drop=1.5),
        tasks={"gsm8k": Bounds(97), "mmlu": Bounds(99, min_score=60.5)},
        averages={"maths": Bounds(max_drop=1)},
        overall=Bounds(98.5),
        confidence=0.9,
        decide="point",
        set_for=Calibration(
            "org/base", "abc", {"org/small:w8a8": None, "org/small": "def"}, "2026-01-05", {"gsm8k": 0.7}
        ),
    )


def test_what_a_file_does_not_say_is_not_asked(given_file: Any):
    assert load_gate(given_file("tasks: {t: 90}")) == GateSpec(every=Bounds(), tasks={"t": Bounds(90)})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "min_recovry: 99",
            "key 'min_recovry', which is unknown. Known keys: min_recovery, max_drop, min_score, tasks",
        ),
        (
            "tasks: {t: {min: 9}}",
            "tasks.t has the key 'min', which is unknown. Known keys: min_recovery, max_drop, min_s",
        ),
        ("overall: {low: 9}", "overall has the key 'low'"),
        ("min_recovery: 99\nset_for: {model: x}", "set_for has the key 'model'"),
        ("min_recovery: 99\nmin_recovery: 9", "the key 'min_recovery' is given twice"),
        ("tasks: {t: 99, u: 9, t: 9}", "the key 't' is given twice"),
        ("tasks: {t: {max_drop: 1, max_drop: 2}}", "the key 'max_drop' is given twice"),
        ("tasks: {1: 99}", "tasks has the key 1, which is no text. Put it in quotes"),
        ("min_recovery: '99'", "min_recovery is '99'; give a number"),
        ("tasks: {t: yes}", "tasks.t is True; give a number"),
        ("tasks: [t]", "tasks is ['t']; give a mapping"),
        ("tasks: {t: 201}", "tasks.t: the limit min_recovery is 201"),
        ("max_drop: .nan", "max_drop is nan"),
        (f"max_drop: {10**400}", "max_drop is a number beyond all bounds"),
        ("tasks:", "tasks is None; give a mapping"),
        ("min_recovery: 99\nconfidence: 95", "the confidence is 95"),
        ("min_recovery: 99\nconfidence: high", "confidence is 'high'; give a number"),
        ("min_recovery: 99\ndecide: guess", "decide is 'guess'"),
        ("min_recovery: 99\ndecide: [point]", "decide is ['point']"),
        ("min_recovery: 99\nchanges: {a: 1}", "changes must be a list"),
        ("min_recovery: 99\nchanges: [{when: 1}]", "changes[0] has the key 'when'"),
        ("min_recovery: 99\nchanges: [{date: 1}]", "changes[0].date is 1; give text"),
        ("min_recovery: 99\nset_for: {compressed: {}}", "set_for.baseline is None; give text"),
        ("confidence: 0.9", "has no limit"),
        ("tasks: {}", "has no limit"),
        ("tasks: {t: {}}", "has no limit"),
        ("", "is empty. Give it a limit, such as `min_recovery: 99`"),
        ("# only words\n", "is empty"),
        ("- 99", "holds list"),
        ("min_recovery: [", "is not YAML"),
        ("min_recovery: 99\nset_for: {date: 2026-99-99}", "is not YAML"),
        ("? [a, b]\n: 1", "is not YAML"),
        ("min_recovery: 1:30", "'1:30' is read as 90 by YAML; write that"),
        ("min_recovery: 0143", "'0143' is read as 99 by YAML"),
        ("min_recovery: 1:30.5", "'1:30.5' is read as 90.5 by YAML"),
        ("min_recovery: 0x63", "'0x63' is read as 99"),
        ("min_recovery: 0.99", "the limit min_recovery is in percent, got 0.99; write 99"),
        ("tasks: {t: 1}", "tasks.t: the limit min_recovery is in percent, got 1; write 100"),
        ("overall: {min_score: 0.5}", "min_score is in percent, got 0.5; write 50"),
        ("min_recovery: 99\nconfidence: 0.9999999999999999", "is 0.9999999999999999; give a fraction"),
        ("[" * 20_000, "is damaged: it is nested too deeply"),
        ("# " + "x" * 2**20, "has more than 1048576 bytes"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
    ],
)
def test_anything_else_is_refused_with_its_place(text: str, said: str, given_file: Any):
    path = given_file(text)
    with pytest.raises(UserError) as error:
        load_gate(path)
    assert said in str(error.value) and str(path) in str(error.value) and error.value.exit_code == 2


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(UserError, match="cannot read the gate file"):
        load_gate(tmp_path / "none.yaml")


numbers = st.one_of(st.none(), st.floats(0, 200), st.integers(0, 200).map(float))
percents = numbers.filter(lambda one: one is None or one == 0 or one > 1)
bounds = st.builds(Bounds, percents, numbers, percents)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
named = st.dictionaries(names, bounds.filter(lambda one: list(one) != []), max_size=3)
specs = st.builds(
    GateSpec, bounds, named, named, bounds, st.floats(0.51, 0.999), st.sampled_from(["interval", "point"])
).filter(lambda spec: not spec.asks_nothing)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(specs)
def test_what_is_written_is_read_again(run: Any, tmp_path: Path, spec: GateSpec):
    path = tmp_path / "round.yaml"
    path.unlink(missing_ok=True)
    write_gate(path, spec, *run, None)
    set_for = Calibration("org/base", None, {"org/small": None}, "2026-03-04", {"t": 0.7, "u": 1 / 3})
    once = load_gate(path)
    assert once == replace(spec, set_for=set_for)
    before = path.read_bytes()
    write_gate(path, once, *run, None)
    assert path.read_bytes() == before


def test_a_written_file_explains_itself(run: Any, tmp_path: Path):
    write_gate(tmp_path / "new" / "gate.yaml", GateSpec(tasks={"t": Bounds(97.5)}), *run, None)
    text = (tmp_path / "new" / "gate.yaml").read_text()
    assert text.startswith("# Limits of the release gate")
    assert "\nmin_recovery: 99\ntasks:\n  t:\n    min_recovery: 97.5\nconfidence: 0.95\ndecide: interval\n" in text
    assert "changes" not in yaml.safe_load(text)


@pytest.mark.parametrize(
    ("before", "after", "what", "values"),
    [
        (GateSpec(), GateSpec(every=Bounds(98)), "min_recovery", (99, 98)),
        (GateSpec(every=Bounds(max_drop=1)), GateSpec(every=Bounds(max_drop=2)), "max_drop", (1, 2)),
        (GateSpec(every=Bounds(99, 2)), GateSpec(every=Bounds(99)), "max_drop", (2, None)),
        (GateSpec(tasks={"t": Bounds(99.5)}), GateSpec(), "tasks.t.min_recovery", (99.5, 99)),
        (GateSpec(), GateSpec(tasks={"t": Bounds(95)}), "tasks.t.min_recovery", (99, 95)),
        (GateSpec(averages={"m": Bounds(99)}), GateSpec(), "averages.m.min_recovery", (99, None)),
        (GateSpec(overall=Bounds(min_score=9)), GateSpec(overall=Bounds(min_score=8)), "overall.min_score", (9, 8)),
        (GateSpec(), GateSpec(confidence=0.9), "confidence", (0.95, 0.9)),
        (GateSpec(), GateSpec(decide="point"), "decide", ("interval", "point")),
    ],
)
def test_lowering_asks_for_a_reason_and_keeps_it(
    before: GateSpec, after: GateSpec, what: str, values: Any, run: Any, tmp_path: Path
):
    path = tmp_path / "gate.yaml"
    write_gate(path, before, *run, None)
    written = path.read_bytes()
    for reason in (None, "", "  "):
        with pytest.raises(UserError, match=f"lowers {what} from .* asks for a reason"):
            write_gate(path, after, *run, reason)
        assert path.read_bytes() == written
    write_gate(path, after, *run, " The task changed. ")
    (change,) = yaml.safe_load(path.read_text())["changes"]
    assert change == {"date": "2026-03-04", "what": what, "from": values[0], "to": values[1],
                      "reason": "The task changed."}  # fmt: skip
    # Back up again it asks for none, and the history grows.
    write_gate(path, before, *run, None)
    first, second = yaml.safe_load(path.read_text())["changes"]
    assert first == change and (second["from"], second["to"], second["reason"]) == (values[1], values[0], None)


def test_a_new_limit_and_a_stricter_one_need_no_reason(run: Any, tmp_path: Path):
    path = tmp_path / "gate.yaml"
    write_gate(path, GateSpec(tasks={"t": Bounds(98)}), *run, None)
    write_gate(path, GateSpec(every=Bounds(99.5, max_drop=1), tasks={"t": Bounds(99)}, confidence=0.99), *run, None)
    assert len(yaml.safe_load(path.read_text())["changes"]) == 4


def test_other_models_ask_for_a_reason_and_it_is_kept(run: Any, tmp_path: Path):
    record, compared = run
    path = tmp_path / "gate.yaml"
    assert write_gate(path, GateSpec(), *run, None) is None, "a new file"
    assert write_gate(path, GateSpec(), *run, None) == []
    written = path.read_bytes()
    models = [record.models[0].model_copy(update={"name": "org/new"}), record.models[1]]
    moved = record.model_copy(update={"models": models})
    with pytest.raises(UserError, match="other models, set_for.baseline from org/base to org/new, in .* for a reason"):
        write_gate(path, GateSpec(), moved, compared, None)
    assert path.read_bytes() == written
    found = write_gate(path, GateSpec(), moved, compared, "The next release.")
    assert [one.in_words() for one in found or ()] == ["set_for.baseline from org/base to org/new"]
    (change,) = yaml.safe_load(path.read_text())["changes"]
    assert change == {"date": "2026-03-04", "what": "set_for.baseline", "from": "org/base", "to": "org/new",
                      "reason": "The next release."}  # fmt: skip
    other = moved.model_copy(update={"models": [models[0], models[1].model_copy(update={"name": "org/tiny"})]})
    with pytest.raises(UserError, match="lowers min_recovery from 99 to 98 and moves the limits to other models"):
        write_gate(path, GateSpec(every=Bounds(98)), other, compared, " ")


def test_what_no_model_was_named_for_may_be_set_for_one(run: Any, given_file: Any):
    assert write_gate(given_file("min_recovery: 99"), GateSpec(), *run, None) == []


def test_a_limit_of_every_row_may_become_one_of_a_row(run: Any, tmp_path: Path):
    """What a row has to reach counts, not where it is written."""
    path = tmp_path / "gate.yaml"
    write_gate(path, GateSpec(every=Bounds(), tasks={"t": Bounds(95)}), *run, None)
    write_gate(path, GateSpec(every=Bounds(96)), *run, None)
    assert load_gate(path).of_row("t") == Bounds(96)


def test_a_damaged_file_is_not_written_over(run: Any, given_file: Any):
    path = given_file("min_recovry: 99")
    with pytest.raises(UserError, match="min_recovry"):
        write_gate(path, GateSpec(), *run, "why not")
    assert path.read_text() == "min_recovry: 99"


def test_nothing_is_no_gate(run: Any, tmp_path: Path):
    with pytest.raises(UserError, match="no limit to write"):
        write_gate(tmp_path / "gate.yaml", GateSpec(every=Bounds()), *run, None)
    assert not (tmp_path / "gate.yaml").exists()


def test_a_gate_judges_the_run_it_was_set_on(run: Any, tmp_path: Path):
    path = tmp_path / "gate.yaml"
    write_gate(path, GateSpec(every=Bounds(90.5)), *run, None)
    record, compared = run
    assert judge(compared, load_gate(path), record).outcome == "PASS"
    models = [record.models[0], record.models[1].model_copy(update={"name": "org/other"})]
    other = judge(compared, load_gate(path), record.model_copy(update={"models": models}))
    assert other.outcome == "INCONCLUSIVE" and "gate not calibrated for this model" in other.reasons[-1]


def test_with_neither_file_nor_flag_rows_are_held_against_99():
    assert merge(None) == GateSpec() and GateSpec().every == Bounds(99)


def test_flags_alone():
    assert merge(None, every=Bounds(97)) == GateSpec(every=Bounds(97))
    assert merge(None, every=Bounds(max_drop=2)) == GateSpec(every=Bounds(max_drop=2))
    assert merge(None, tasks={"t": Bounds(95)}) == GateSpec(every=Bounds(), tasks={"t": Bounds(95)})
    score = {"t": Bounds(min_score=95)}
    assert merge(None, tasks=score) == GateSpec(every=Bounds(), tasks=score), "as a file that holds just this"
    assert merge(None, overall=Bounds(97)) == GateSpec(every=Bounds(), overall=Bounds(97))
    assert merge(None, averages={"m": Bounds(97)}) == GateSpec(every=Bounds(), averages={"m": Bounds(97)})
    assert merge(None, confidence=0.9, decide="point") == GateSpec(confidence=0.9, decide="point")


def test_flags_win_over_the_file(given_file: Any):
    file = load_gate(given_file(FULL))
    assert merge(file) == file
    merged = merge(
        file,
        every=Bounds(96),
        tasks={"mmlu": Bounds(95), "new": Bounds(94)},
        averages={"maths": Bounds(93)},
        overall=Bounds(max_drop=3),
        confidence=0.8,
        decide="interval",
    )
    assert merged == replace(
        file,
        every=Bounds(96, max_drop=1.5),
        tasks={"gsm8k": Bounds(97), "mmlu": Bounds(95, min_score=60.5), "new": Bounds(94)},
        averages={"maths": Bounds(93, max_drop=1)},
        overall=Bounds(98.5, max_drop=3),
        confidence=0.8,
        decide="interval",
    )


def test_half_a_point_of_drop_and_nothing_at_all_are_limits(given_file: Any):
    assert load_gate(given_file("max_drop: 0.5\nmin_recovery: 0")) == GateSpec(every=Bounds(0, max_drop=0.5))


@pytest.mark.parametrize("make", ["device", "pipe", "folder"])
def test_what_may_never_end_is_not_read(make: str, tmp_path: Path):
    path = Path("/dev/zero") if make == "device" else tmp_path / make
    if make == "device" and not path.exists():
        pytest.skip("needs /dev/zero")
    if make == "pipe":
        os.mkfifo(path)
    if make == "folder":
        path.mkdir()
    with pytest.raises(UserError, match="no regular file"):
        load_gate(path)


def test_two_who_write_at_once_lose_no_entry(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "gate.yaml"
    write_gate(path, GateSpec(every=Bounds(90)), *run, None)
    load = gatefile._load

    def slow(path: Path) -> Any:
        found = load(path)
        time.sleep(0.2)
        return found

    monkeypatch.setattr(gatefile, "_load", slow)
    limits = [91.0, 92.0, 93.0]
    with ThreadPoolExecutor(3) as pool:
        made = [pool.submit(write_gate, path, GateSpec(every=Bounds(one)), *run, "because") for one in limits]
        for one in made:
            one.result()
    kept = yaml.safe_load(path.read_text())["changes"]
    assert sorted(one["to"] for one in kept) == limits and len(kept) == 3
    assert [one.name for one in tmp_path.iterdir()] == ["gate.yaml"], "no lock is left behind"
