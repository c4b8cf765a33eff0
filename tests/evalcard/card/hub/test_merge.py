"""What is not ours survives byte for byte, wherever it stands; what is ours is there once, and right."""

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcard.card.hub.frontmatter import parted
from evalcard.card.hub.merge import merge
from evalcard.card.section import BEGIN, END, OWN_KEYS, section_of
from evalcard.errors import UserError

FOREIGN = """---
# who made this
license: llama3.1   # asked the legal team
x-foo: 1
dataset_info: {features: [a, b]}   # by another tool

tags: [chat, "a, b"]
language:
- en   # and no other
quantized_by: someone
---
# A title of theirs

Words | with *marks*.  \t
"""


def metadata(text: bytes) -> dict:
    return yaml.safe_load(parted(text.decode().removeprefix("\ufeff")).yaml)


def test_where_nothing_is_there_the_whole_card_is_sent(ours: str):
    for there in (None, b"", b"\xef\xbb\xbf\r\n  \n"):
        assert merge(there, ours) == ours.encode()


def test_without_marks_the_section_goes_behind_everything_and_the_title_is_not_doubled(ours: str):
    there = b"# My model\n\nHello."
    merged = merge(there, ours).decode()
    front, body = merged.split("---\n\n", 1)
    assert front.count("---") == 1 and "base_model: acme/toy-1b" in front
    assert body == f"{there.decode()}\n\n{section_of(ours)}\n" and "# toy-1b w8a8" not in merged


def test_metadata_alone_gets_our_title(ours: str):
    merged = merge(b"---\nlicense: mit\n---\n", ours).decode()
    assert merged.count("# toy-1b w8a8") == 1 and merged.rstrip().endswith(END)
    assert merge(merged.encode(), ours).decode() == merged
    assert merge(b"---\nlicense: apache-2.0\n---", ours).decode().startswith("---\nlicense: apache-2.0\n")


def test_with_marks_only_what_is_between_changes(ours: str):
    before, after = "Theirs  \n\n", "\n* more of theirs\n\n\n"
    merged = merge(f"{before}{BEGIN}\nold\n{END}{after}".encode(), ours).decode()
    assert parted(merged).body.lstrip("\n") == f"{before}{section_of(ours)}{after}"
    assert "old" not in merged


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_every_line_of_others_is_there_with_its_line_break_and_the_mark(ours: str, end: str, mark: str):
    there = (mark + FOREIGN.replace("\n", end)).encode()
    merged = merge(there, ours)
    assert merged.startswith(mark.encode()) and merged.count(b"\xef\xbb\xbf") == bool(mark)
    lines = iter(merged.decode().removeprefix(mark).split("\n"))
    for line in there.decode().removeprefix(mark).split("\n"):
        expected = line.replace("license: llama3.1 ", "license: apache-2.0 ")
        expected = expected.replace('"a, b"]', '"a, b", evalcard, w8a8]')
        assert expected in lines, (expected, merged)  # in the same order: an iterator goes forward only
    assert (b"\n" in merged.replace(b"\r\n", b"")) == (end == "\n")
    assert metadata(merged)["language"] == ["en"] and metadata(merged)["quantized_by"] == "someone"
    assert list(metadata(merged))[:5] == ["license", "x-foo", "dataset_info", "tags", "language"]


def test_a_comment_behind_a_value_that_changes_stays(ours: str):
    assert "license: apache-2.0   # asked the legal team\n" in merge(FOREIGN.encode(), ours).decode()


def test_a_value_that_says_the_same_is_not_written_anew(ours: str):
    there = b"---\nbase_model: [acme/toy-1b]  # theirs\nlibrary_name: 'transformers'\n---\n# T\n"
    merged = merge(there, ours)
    assert b"base_model: [acme/toy-1b]  # theirs\nlibrary_name: 'transformers'\n" in merged


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ("tags:\n- a\n# end\n", "tags:\n- a\n- evalcard\n- w8a8\n# end\n"),
        ("tags:\n    - a   # one\n\nx: 1\n", "tags:\n    - a   # one\n    - evalcard\n    - w8a8\n\nx: 1\n"),
        ("tags: []\n", "tags: [evalcard, w8a8]\n"),
        ("tags: [evalcard]\n", "tags: [evalcard, w8a8]\n"),
        ("tags:\n", "tags:\n- evalcard\n- w8a8\n"),
        ("tags: chat # one\n", "tags:\n- chat\n- evalcard\n- w8a8 # one\n"),
        ("tags:\n- w8a8\n- evalcard", "tags:\n- w8a8\n- evalcard\n"),
    ],
)
def test_tags_are_added_in_the_way_they_are_written(ours: str, there: str, expected: str):
    merged = merge(f"---\n{there}{'' if there.endswith(chr(10)) else chr(10)}---\n# T\n".encode(), ours).decode()
    assert merged.startswith(f"---\n{expected}")


def test_keys_of_ours_that_this_card_does_not_state_stay(ours: str):
    silent = re.sub(r"license: .*\n", "", ours)
    merged = merge(b"---\nlicense: other\nlicense_name: x\nlicense_link: LICENSE\n---\n# T\n", silent)
    assert merged.startswith(b"---\nlicense: other\nlicense_name: x\nlicense_link: LICENSE\n")


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (f"{BEGIN}\n{BEGIN}\n{END}\n", ("line 4", "line 5", "line 6")),
        (f"{BEGIN}\n{END}\n{END}\n", ("line 4", "line 5", "line 6")),
        (f"text\n{BEGIN}\n", ("line 5",)),
        (f"{END}\n{BEGIN}\n", ("line 4", "line 5")),
    ],
)
def test_marks_that_are_doubled_or_broken_are_refused_with_their_lines(ours: str, body: str, lines: tuple[str, ...]):
    with pytest.raises(UserError) as caught:
        merge(f"---\nlicense: mit\n---\n{body}".encode(), ours)
    assert all(line in str(caught.value) for line in lines) and caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("yaml_text", "said"),
    [
        ("a: [1, 2\n", "no YAML"),
        ("a: b: c\n", "no YAML"),
        ("license: mit\nlicense: other\n", "`license` twice, in lines 2 and 3"),
        ("{license: mit, x: 1}\n", "key by key"),
        ("- a list\n", "key by key"),
        ("just words\n", "key by key"),
        ("x: &a mit\nlicense: *a\n", "key by key"),
        ("license: &a mit\nx: *a\n", "key by key"),
        ("a: 1\n...\n", "key by key"),
        ("x: !unknown 1\n", "no YAML"),
        ("a: \x00\n", "no YAML"),
    ],
)
def test_metadata_that_cannot_be_changed_without_harm_is_refused(ours: str, yaml_text: str, said: str):
    with pytest.raises(UserError, match=re.escape(said)):
        merge(f"---\n{yaml_text}---\n# T\n".encode(), ours)


def test_dates_that_no_calendar_has_and_deep_blocks_are_left_alone(ours: str):
    there = "---\nday: 2024-99-99\nnote: |+\n  two\n\n  lines\n\nanchors: &x [1]\nmore: *x\nempty:\n---\n"
    assert merge(there.encode(), ours).decode().startswith(there.removesuffix("---\n"))


LINES = st.sampled_from([
    "x-foo: 1", "# a comment", "", "dataset_info:\n  a: [1, 2]   # deep", "license: mit # why", "license:",
    "tags:\n- one\n# between\n- two", "tags: [one]", "language: [en, de]", "empty:", "text: |\n  ---\n  more\n",
    'quoted: "a: b # c"', "base_model:\n  - acme/toy-1b", "datasets:\n    - acme/data",
    "pipeline_tag: 'text-generation'",
    "model-index:\n- name: theirs\n  results:\n  - task: {type: t}\n    dataset: {type: d, name: n}\n    metrics: []",
])  # fmt: skip
BODY = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(
    lines=st.lists(LINES, max_size=6, unique_by=lambda line: line.split(":")[0]),
    body=BODY, crlf=st.booleans(), has_front=st.booleans(),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_for_any_readme_what_is_outside_stays_and_again_changes_nothing(ours, lines, body, crlf, has_front):
    front = "".join(f"{line}\n" for line in lines)
    there = f"---\n{front}---\n{body}" if has_front else body
    there = there.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else there
    try:
        merged = merge(there.encode(), ours)
    except UserError:
        # Only a body that begins as metadata does, with three hyphens, may be refused here.
        assert not has_front and body.strip("\ufeff").lstrip().startswith("---")
        return
    assert merge(merged, ours) == merged
    if not there.strip("\ufeff \t\r\n"):
        return
    old, new = parted(there), parted(merged.decode())
    assert old.body in new.body if not old.opening else new.body.startswith(old.body)
    assert new.body.count(BEGIN) == new.body.count(END) == 1
    before, after = (yaml.safe_load(card.yaml) or {} for card in (old, new))
    assert {k: v for k, v in before.items() if k not in OWN_KEYS} == {
        k: v for k, v in after.items() if k not in OWN_KEYS
    }
    foreign = [line for line in old.yaml.split("\n") if not re.match(r"(license|tags|model-index)\b|- |\s*$", line)]
    left = iter(new.yaml.split("\n"))
    assert all(line in left for line in foreign), (foreign, new.yaml)


@given(before=BODY, after=BODY, old=BODY, crlf=st.booleans())
@settings(max_examples=100, deadline=None)
def test_for_any_readme_with_marks_only_what_is_between_them_changes(ours, before, after, old, crlf):
    end = "\r\n" if crlf else "\n"
    there = f"---{end}x: 1{end}---{end}{before}{end}{BEGIN}{end}{old}{end}{END}{end}{after}".encode()
    merged = merge(there, ours)
    body = parted(merged.decode()).body
    section = section_of(ours).replace("\n", end)
    assert body == f"{before}{end}{section}{end}{after}" and merge(merged, ours) == merged


def test_bytes_that_are_no_text_come_back_as_they_were(ours: str):
    there = b"# caf\xe9 \xff\x00\n"
    assert there in merge(there, ours)


BOMB = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" if n else "a0: &a0 [x]\n" for n in range(10))


@pytest.mark.parametrize("yaml_text", [BOMB, f"tags: [a]\nmodel-index: []\n{BOMB}", "a: &a [*a]\n"])
def test_aliases_that_stand_for_too_much_are_refused_at_once(ours: str, yaml_text: str):
    with pytest.raises(UserError, match="once its aliases are written out"):
        merge(f"---\n{yaml_text}---\nwords\n".encode(), ours)


def test_a_few_aliases_do_no_harm(ours: str):
    there = "---\nx: &x [a, b]\ny: *x\n---\nwords\n"
    assert b"x: &x [a, b]\ny: *x\n" in merge(there.encode(), ours)


@pytest.mark.parametrize("fence", ["```", "~~~", "<pre>"])
def test_marks_in_code_are_left_alone_and_nothing_is_put_into_an_open_block(ours: str, fence: str):
    end = "</pre>" if fence == "<pre>" else fence
    shown = f"words\n\n{fence}\n{BEGIN}\nhow it is done\n{END}\n"
    merged = merge(f"{shown}{end}\n".encode(), ours)
    assert f"{shown}{end}\n".encode() in merged and merge(merged, ours) == merged
    with pytest.raises(UserError, match="line 3 of the README on the Hub begins a block"):
        merge(shown.encode(), ours)


def test_marks_in_a_comment_are_refused_as_half_a_pair(ours: str):
    with pytest.raises(UserError, match="exactly once, and has line 4"):
        merge(f"<!--\n{BEGIN}\nold\n{END}\n-->\n".encode(), ours)


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_once_more_makes_no_difference_whatever_lines_end_in(ours: str, end: str):
    there = end.join(["---", "license: mit", "x: 1", "---", "", "# Theirs", "words", ""])
    merged = merge(there.encode(), ours)
    assert merge(merged, ours) == merged
