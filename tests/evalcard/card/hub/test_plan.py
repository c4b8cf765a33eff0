"""What would change, told apart from what stays; files of others are not replaced in passing."""

from collections.abc import Callable
from typing import Any

import pytest

from evalcard.card.hub.diff import diff_lines, num_changed
from evalcard.card.hub.plan import is_same, make_plan
from evalcard.errors import UserError


def test_in_an_empty_repository_all_is_new(card: Any):
    plan = make_plan(card, {})
    assert [(change.path, change.kind) for change in plan.changes] == [
        ("README.md", "new"), ("figures/recovery.png", "new"), (".eval_results/gsm8k.yaml", "new"),
    ]  # fmt: skip
    assert plan.readme is not None and plan.readme.after == card.text.encode() and plan.same == ()


def test_what_is_there_already_is_no_change(card: Any):
    plan = make_plan(card, {change.path: change.after for change in make_plan(card, {}).changes})
    assert plan.changes == () and plan.readme is None and len(plan.same) == 3


def test_figures_are_compared_by_what_they_draw_and_others_by_their_bytes(png: Callable[..., bytes]):
    digest = "a" * 64
    assert is_same("x.png", png(digest, "one"), png(digest, "two"))
    assert not is_same("x.png", png(digest), png("b" * 64))
    assert not is_same("x.png", png(None, "one"), png(None, "two")) and is_same("x.png", b"same", b"same")
    assert not is_same("x.png", b"damaged", png(digest)) and not is_same(
        "x.yaml", png(digest, "one"), png(digest, "two")
    )


@pytest.mark.parametrize("path", ["figures/recovery.png", ".eval_results/gsm8k.yaml"])
def test_a_file_that_evalcard_did_not_make_is_replaced_only_when_allowed(card: Any, path: str):
    with pytest.raises(UserError, match=f"{path}, which evalcard did not make") as caught:
        make_plan(card, {path: b"theirs"})
    assert "--overwrite" in str(caught.value) and caught.value.exit_code == 2
    (change,) = [one for one in make_plan(card, {path: b"theirs"}, overwrite=True).changes if one.path == path]
    assert change.kind == "changed" and change.before == b"theirs"


def test_results_that_the_hub_verified_are_not_replaced_in_passing(card: Any):
    path = ".eval_results/gsm8k.yaml"
    older = card.files[path].replace(b"95.25", b"94.0")
    assert path in [change.path for change in make_plan(card, {path: older}).changes]
    with pytest.raises(UserError, match="did not make"):
        make_plan(card, {path: older + b"  verifyToken: abc\n"})


def test_metadata_of_others_that_the_hub_refuses_is_told_before_it_is_asked(card: Any):
    with pytest.raises(UserError, match="line 2") as caught:
        make_plan(card, {"README.md": b"---\nlanguage: jp\n---\n# T\n"})
    assert "language" in str(caught.value) and "ja" in str(caught.value) and caught.value.exit_code == 2


def test_a_readme_that_is_no_utf8_is_refused_with_its_line(card: Any):
    with pytest.raises(UserError, match="no UTF-8 .*line") as caught:
        make_plan(card, {"README.md": b"---\nlicense: mit\n---\n# caf\xe9\n"})
    assert caught.value.exit_code == 2


def test_the_diff_names_every_file_and_counts_lines(card: Any):
    there = {"README.md": b"---\r\nlicense: mit # why\r\n---\r\n# T\r\n"}
    plan = make_plan(card, there)
    lines = list(diff_lines(plan))
    assert lines[:2] == ["--- a/README.md", "+++ b/README.md"] and "-license: mit # why" in lines
    assert "+license: apache-2.0 # why" in lines and " # T" in lines and not any("\r" in line for line in lines)
    assert any(line.startswith("figures/recovery.png: new, ") for line in lines)
    assert "--- /dev/null" in lines and "+++ b/.eval_results/gsm8k.yaml" in lines
    added, removed = num_changed(plan)
    assert removed == 1 and added == sum(line.startswith("+") for line in lines) - 2


def test_a_change_of_line_breaks_alone_is_said(card: Any):
    there = {"README.md": card.text.replace("Recovery is **99.5**.", "Recovery is **99.5**.\r").encode()}
    plan = make_plan(card, there)
    assert list(diff_lines(plan))[0] == "README.md: only line breaks differ"


def test_a_null_byte_is_named_by_its_line(card: Any):
    with pytest.raises(UserError, match=r"line \d+ of the README on the Hub, as it would be, holds a null byte"):
        make_plan(card, {"README.md": b"# Theirs\n\nwo\0rds\n"})
