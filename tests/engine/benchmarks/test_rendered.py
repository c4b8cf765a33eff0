"""Peers that know no tasks get evalcard's own prompts, and their answers evalcard's own grades."""

import argparse
import json
import sys
from pathlib import Path

import pytest
from rendered import Rendered, render, script_side
from suites import Suite

import evalcard

MODEL = Path(evalcard.__file__).parent / "demo" / "model"

PEER = """
import json, sys, time
how, prompts, answers = sys.argv[1:]
asked = json.load(open(prompts))
time.sleep(60 if how == "slow" else 0)
said = json.loads(how)
assert len(said) == len(asked["prompts"])
json.dump({"answers": [{"text": text, "tokens": 7} for text in said]}, open(answers, "w"))
"""


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    args = argparse.Namespace(model=MODEL, data_root=tmp_path_factory.mktemp("data"))
    return render(args, Suite(("demo_maths",), 0, None, 1, (1,), "demo"), 3)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = tmp_path_factory.mktemp("peer") / "peer.py"
    script.write_text(PEER)
    return script


def targets(rendered: Rendered) -> list[str]:
    task = rendered.task.task
    return [task.golds(position)[0] for position in rendered.task.positions]


def test_the_file_of_prompts_is_what_evalcard_asks(rendered: Rendered) -> None:
    asked = json.loads(rendered.as_json())
    assert [one["ids"] for one in asked["prompts"]] == [list(one.prompt_ids) for one in rendered.requests]
    decoding = rendered.requests[0].decoding
    assert (asked["until"], asked["max_new_tokens"]) == (list(decoding.until), decoding.max_tokens)
    assert rendered.prompt_tokens == sum(len(one["ids"]) for one in asked["prompts"]) > 0


def test_answers_are_graded_in_the_order_of_the_items(rendered: Rendered, peer: Path) -> None:
    """The second of three answers is wrong; a stop string and what follows it are no part of an answer."""
    texts = [f" \\boxed{{{target}}}" for target in targets(rendered)]
    texts[1] = " \\boxed{-1}"
    texts[2] += f"{rendered.requests[0].decoding.until[0]} \\boxed{{-1}}"
    found = script_side(rendered, [sys.executable, str(peer), json.dumps(texts)], {})()
    assert found.scores.values == {"demo_maths exact_match,boxed": pytest.approx(2 / 3)}
    assert found.scores.items == {"demo_maths": 3} and found.output_tokens == 21 and not found.is_cut


def test_a_peer_beyond_its_cap_has_no_scores(rendered: Rendered, peer: Path) -> None:
    found = script_side(rendered, [sys.executable, str(peer), "slow"], {}, cap_s=0.5)()
    assert found.is_cut and 0.5 <= found.seconds < 20 and not found.scores.values and found.output_tokens is None
