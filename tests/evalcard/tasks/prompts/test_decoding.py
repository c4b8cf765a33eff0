"""Generation arguments by the harness's rules."""

from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.spec import make_spec
from evalcard.tasks.prompts.decoding import Generation, decoding_of, in_words, repeats_of, untouched_by, with_flags


def decoded(arguments: dict[str, Any], **options: Any) -> Any:
    given = {"eos_text": "</s>", "max_new_tokens": None, "seed": 9} | options
    return decoding_of("t", arguments, **given)


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("Q:", ("Q:", "</s>")),
        (["a", "", "</s>", "a"], ("a", "</s>")),
        (None, ("</s>",)),
    ],
)
def test_a_scalar_until_is_one_string_and_eos_always_stops(until: Any, expected: tuple[str, ...]):
    assert decoded({"until": until}).until == expected


def test_no_eos_text():
    assert decoded({"until": ["x"]}, eos_text=None).until == ("x",)


@pytest.mark.parametrize("until", [[1], [None], 7])
def test_until_must_be_text(until: Any):
    with pytest.raises(UserError, match="must be a string"):
        decoded({"until": until})


@pytest.mark.parametrize(
    ("arguments", "is_greedy"),
    [
        ({}, True),
        ({"do_sample": False, "temperature": 1.0}, True),
        ({"do_sample": True, "temperature": 0.0}, True),
        ({"do_sample": True}, True),
        ({"do_sample": True, "temperature": 0.6}, False),
        ({"temperature": 0.6}, False),
        ({"temperature": "0.0"}, True),
    ],
)
def test_when_answers_are_sampled(arguments: dict[str, Any], is_greedy: bool):
    from lm_eval.models.utils import normalize_gen_kwargs

    assert decoded(arguments).is_greedy is is_greedy
    theirs = normalize_gen_kwargs(arguments)
    assert (not theirs["do_sample"] or float(theirs.get("temperature", 0.0)) == 0.0) is is_greedy


def test_sampling_parameters_enter_only_when_sampling():
    arguments = {"top_p": 0.9, "top_k": 20, "min_p": 0.1, "temperature": 0.7}
    found = decoded({**arguments, "do_sample": True})
    assert (found.temperature, found.top_p, found.top_k, found.min_p, found.seed) == (0.7, 0.9, 20, 0.1, 9)
    greedy = decoded({**arguments, "do_sample": False})
    assert (greedy.temperature, greedy.top_p, greedy.top_k, greedy.seed) == (None, 1.0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, 256),
        ({"max_new_tokens": 9, "max_gen_toks": 5}, 5),
        ({"max_tokens": "7"}, 7),
        ({"max_completion_tokens": 3}, 3),
    ],
)
def test_length(arguments: dict[str, Any], expected: int):
    from lm_eval.models.utils import normalize_gen_kwargs

    assert decoded(arguments).max_tokens == expected == normalize_gen_kwargs(arguments)["max_gen_toks"]
    assert decoded(arguments, max_new_tokens=11).max_tokens == 11


def test_what_cannot_be_honoured_is_refused():
    assert decoded({"num_beams": 1, "repetition_penalty": 1.0, "use_cache": True}).is_greedy
    with pytest.raises(UserError, match="num_beams=10"):
        decoded({"num_beams": 10})


def test_words():
    assert in_words(None) == "scored" and in_words(decoded({})) == "greedy"
    assert in_words(decoded({"temperature": 0.6, "top_p": 0.95})) == "sampled, temperature 0.6, top-p 0.95, seed 9"


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": -1}, {"top_p": 0}, {"top_p": 1.5}, {"top_k": 2.5}, {"top_k": -1}, {"min_p": 2}, {"top_p": "x"}],
)
def test_sampling_out_of_range(wrong: dict[str, Any]):
    (name, value) = next(iter(wrong.items()))
    with pytest.raises(UserError, match=f"task t asks for {name}={value!r}; it must be a"):
        decoded({"do_sample": True, "temperature": 0.5} | wrong)
    assert not decoded({"do_sample": True, "temperature": 0.5, "top_p": 1, "top_k": 0, "min_p": 0}).is_greedy


@pytest.mark.parametrize("value", [0, -1, 1.5, "many", True])
def test_length_out_of_range(value: Any):
    with pytest.raises(UserError, match="max_gen_toks"):
        decoded({"max_gen_toks": value})


def asked(**flags: Any) -> Any:
    return make_spec({"baseline": "org/m", "tasks": "t", **flags})


@pytest.mark.parametrize(
    ("own", "flags", "expected"),
    [
        ({"until": ["x"]}, {}, {"until": ["x"]}),
        ({"do_sample": False, "temperature": 0.0}, {"temperature": 0.6}, {"do_sample": True, "temperature": 0.6}),
        ({"do_sample": True, "temperature": 0.6}, {"temperature": 0}, {"do_sample": False, "temperature": 0}),
        ({"do_sample": True, "temperature": 0.6, "top_p": 0.95}, {"top_p": 0.5, "top_k": 9, "min_p": 0.1},
         {"do_sample": True, "temperature": 0.6, "top_p": 0.5, "top_k": 9, "min_p": 0.1}),
    ],
)  # fmt: skip
def test_sampling_flags_win_over_the_task(own: dict[str, Any], flags: dict[str, Any], expected: dict[str, Any]):
    before = dict(own)
    assert with_flags(own, asked(**flags)) == expected and own == before
    assert decoded(with_flags(own, asked(**flags))).is_greedy is not bool(expected.get("do_sample"))


class TestRepeats:
    greedy, sampled = decoded({}), decoded({"temperature": 0.5})

    def test_the_flag_wins(self):
        assert repeats_of("t", 4, self.sampled, asked()) == (4, [])
        assert repeats_of("t", 1, self.sampled, asked(repeats=8)) == (8, [])
        repeats, (note,) = repeats_of("t", 4, self.sampled, asked(repeats=8))
        assert repeats == 8 and note == "t: 8 answers to each item instead of its own 4"

    def test_greedy_answers_come_once(self):
        repeats, (note,) = repeats_of("t", 4, self.greedy, asked())
        assert repeats == 1 and "t: answered once and not its own 4 times" in note
        assert repeats_of("t", 1, self.greedy, asked(repeats=1)) == (1, [])
        with pytest.raises(UserError, match="--repeats 2: task t is decoded greedily.*--temperature"):
            repeats_of("t", 1, self.greedy, asked(repeats=2))
        with pytest.raises(AssertionError):
            Generation(self.greedy, (), 2)

    def test_a_flag_without_effect_is_told(self):
        _, (note,) = repeats_of("t", 1, self.greedy, asked(top_p=0.9, top_k=5))
        assert note.startswith("t: decoded greedily, so --top-p and --top-k change nothing")
        _, (note,) = repeats_of("t", 1, self.greedy, asked(top_p=0.9))
        assert note.startswith("t: decoded greedily, so --top-p changes nothing; ")

    def test_flags_that_concern_generated_answers_only(self):
        assert untouched_by(asked(num_fewshot=3)) == []
        assert untouched_by(asked(repeats=2, top_p=0.5, max_new_tokens=5)) == [
            "--repeats",
            "--top-p",
            "--max-new-tokens",
        ]
