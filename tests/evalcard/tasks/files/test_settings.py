"""What task files say to evalcard alone: what is allowed, and how groups hand it down."""

from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.files.settings import check_settings, group_settings, merged_metadata


@pytest.mark.parametrize("settings", [{}, {"chance": 0}, {"chance": 1}, {"chance": 0.25, "category": "Maths"},
                                      {"judge": "regex=(a|b)", "id_field": "id", "note": "say this"}])  # fmt: skip
def test_what_is_allowed(settings: dict[str, Any]):
    check_settings("task t", settings)


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"chance": -0.1}, "task t: .*chance"), ({"chance": float("nan")}, "chance"), ({"chance": "0.25"}, "got '0.25'"),
     ({"chance": False}, "chance"), ({"judge": None}, "judge"), ({"category": " "}, "category"),
     ({"id_field": 3}, "id_field"), ({"categroy": "x"}, "did you mean category"),
     ({"zz": 1}, "known: category, chance"),
     (None, "must hold keys"), ("math", "got 'math'")],
)  # fmt: skip
def test_what_is_not(settings: Any, match: str):
    with pytest.raises(UserError, match=match):
        check_settings("task t", settings)


def test_what_a_group_hands_down():
    assert group_settings({"group": "g"}) == group_settings({"metadata": {"version": 1}}) == {}
    stated = {"group": "g", "metadata": {"version": 1, "evalcard": {"category": "c"}}}
    assert group_settings(stated) == {"metadata": {"evalcard": {"category": "c"}}}


@pytest.mark.parametrize(
    ("under", "over", "merged"),
    [({"version": 1}, None, {"version": 1}), (None, {"a": 2}, {"a": 2}),
     ({"version": 1}, {"version": 2}, {"version": 2}),
     ({"version": 1, "evalcard": {"judge": "math", "chance": 0.1}}, {"evalcard": {"chance": 0.2}},
      {"version": 1, "evalcard": {"judge": "math", "chance": 0.2}}),
     ({"evalcard": "not a mapping"}, {"evalcard": {"chance": 0.2}}, {"evalcard": {"chance": 0.2}}),
     ({"evalcard": {"chance": 0.2}}, {"evalcard": None, "x": 1}, {"evalcard": None, "x": 1})],
)  # fmt: skip
def test_metadata_is_merged_key_by_key(under: Any, over: Any, merged: dict[str, Any]):
    assert merged_metadata(under, over) == merged


def test_merging_changes_neither():
    under, over = {"evalcard": {"judge": "math"}}, {"evalcard": {"chance": 0.2}}
    merged_metadata(under, over)["evalcard"]["note"] = "new"
    assert under == {"evalcard": {"judge": "math"}} and over == {"evalcard": {"chance": 0.2}}
