"""Results of others and verified ones stay as they are; ours are there once."""

import re

import pytest
import yaml

from evalcard.card.hub.frontmatter import parted
from evalcard.card.hub.merge import merge
from evalcard.errors import UserError

OURS_METRIC = "gsm8k (5-shot, exact_match, strict-match)"


def readme(model_index: str) -> bytes:
    return f"---\n{model_index}x: 1\n---\n# T\n".encode()


def index_of(merged: bytes) -> list:
    return yaml.safe_load(parted(merged.decode()).yaml)["model-index"]


def values(merged: bytes) -> list[tuple[str, str, float, bool]]:
    return [
        (result["dataset"]["type"], metric.get("name", metric["type"]), metric["value"], bool(metric.get("verified")))
        for entry in index_of(merged)
        for result in entry["results"]
        for metric in result["metrics"]
    ]


THEIRS = """model-index:
# theirs
- name: my-model   # kept
  results:
  - task: {type: text-generation}
    dataset:
      type: openai/gsm8k
      name: GSM8K
      config: main
      split: test
      args: {x: 1}
    metrics:
    - type: accuracy
      value: 0.80
      verified: true
    - type: exact_match
      value: 94
      name: gsm8k (5-shot, exact_match, strict-match)
      x-note: by an older tool
  source: {url: "https://example.org"}
"""


def test_a_metric_of_ours_beside_others_gets_its_value_and_nothing_else_moves(ours: str):
    merged = merge(readme(THEIRS), ours)
    assert THEIRS.replace("value: 94\n", "value: 95.25\n") in merged.decode()
    assert merge(merged, ours) == merged


def test_a_verified_metric_is_never_touched_and_ours_stands_beside_it(ours: str):
    theirs = THEIRS.replace("x-note: by an older tool", "verifyToken: abc")
    merged = merge(readme(theirs), ours)
    assert theirs.rpartition("  source")[0] in merged.decode()
    assert values(merged) == [
        ("openai/gsm8k", "accuracy", 0.80, True),
        ("openai/gsm8k", OURS_METRIC, 94, False),
        ("openai/gsm8k", OURS_METRIC, 95.25, False),
    ]
    assert merged.count(b"verified:") == 1 and merged.count(b"verifyToken") == 1
    assert merge(merged, ours) == merged


def test_publishing_another_value_replaces_ours(ours: str):
    first = merge(readme(""), ours)
    second = merge(first, ours.replace("value: 95.25", "value: 95.5"))
    assert values(first) == [("openai/gsm8k", OURS_METRIC, 95.25, False)]
    assert values(second) == [("openai/gsm8k", OURS_METRIC, 95.5, False)]
    assert second == first.replace(b"value: 95.25", b"value: 95.5")


def test_what_a_result_of_ours_is_called_changes_with_it(ours: str):
    subset = ours.replace("name: gsm8k\n", "name: gsm8k, 20 of 1319 (seeded)\n")
    merged = merge(merge(readme(""), subset), ours)
    assert index_of(merged)[0]["results"][0]["dataset"]["name"] == "gsm8k" and len(values(merged)) == 1
    assert merged == merge(readme(""), ours)


def test_there_is_one_entry_whatever_theirs_is_called(ours: str):
    theirs = (
        "model-index:\n  - name: theirs\n    results:\n      - task: {type: t}\n"
        "        dataset: {type: d, name: D}\n        metrics: [{type: acc, value: 1}]\n"
    )
    merged = merge(readme(theirs), ours)
    assert [entry["name"] for entry in index_of(merged)] == ["theirs"] and theirs in merged.decode()
    assert [line[:3] for line in values(merged)] == [("d", "acc", 1), ("openai/gsm8k", OURS_METRIC, 95.25)]
    assert merge(merged, ours) == merged


def test_of_several_entries_ours_is_the_one_with_our_name(ours: str):
    entry = "- name: {}\n  results:\n  - task: {{type: t}}\n    dataset: {{type: d, name: D}}\n    metrics: []\n"
    both = "model-index:\n" + entry.format("one") + entry.format("toy-1b w8a8")
    merged = merge(readme(both), ours)
    assert [len(one["results"]) for one in index_of(merged)] == [1, 2]
    strangers = "model-index:\n" + entry.format("one") + entry.format("two")
    merged = merge(readme(strangers), ours)
    assert [one["name"] for one in index_of(merged)] == ["one", "two", "toy-1b w8a8"]
    assert merge(merged, ours) == merged


@pytest.mark.parametrize("empty", ["model-index:\n", "model-index: []\n", "model-index:\n- name: a\n  results: []\n"])
def test_an_empty_one_is_filled(ours: str, empty: str):
    merged = merge(readme(empty), ours)
    assert values(merged) == [("openai/gsm8k", OURS_METRIC, 95.25, False)]
    assert merge(merged, ours) == merged


def test_flow_style_is_kept(ours: str):
    theirs = (
        "model-index: [{name: a, results: [{task: {type: text-generation}, dataset: {type: d, name: D}, "
        "metrics: [{type: acc, value: 1}]}]}]  # all on a line\n"
    )
    merged = merge(readme(theirs), ours)
    head = theirs.partition("]}]}]  #")[0]
    assert head in merged.decode() and b"  # all on a line\n" in merged and len(values(merged)) == 2
    again = merge(merged, ours.replace("95.25", "95.5"))
    assert again == merged.replace(b"95.25", b"95.5")


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("model-index: words\n", "not a list of entries"),
        ("model-index:\n- results: []\n", "model-index[0] has no name"),
        ("model-index:\n- name: a\n", "model-index[0].results is not a list"),
        ("model-index:\n- name: a\n  results:\n  - task: {type: t}\n    metrics: []\n", "has no dataset"),
        (
            "model-index:\n- name: a\n  results:\n  - task: {type: t}\n    dataset: {type: d}\n    metrics: {acc: 1}\n",
            "model-index[0].results[0] has no list of metrics",
        ),
    ],
)
def test_a_broken_one_is_refused_with_its_line_and_never_thrown_away(ours: str, broken: str, said: str):
    with pytest.raises(UserError, match=re.escape(said)) as caught:
        merge(readme(f"y: 1\n{broken}"), ours)
    line = 3 if broken.startswith("model-index: ") else 4
    assert f"line {line}" in str(caught.value)


def test_a_card_without_results_leaves_theirs(ours: str):
    head, _, rest = ours.partition("model-index:")
    without = head + "---\n" + rest.partition("---\n")[2]
    assert THEIRS in merge(readme(THEIRS), without).decode()
