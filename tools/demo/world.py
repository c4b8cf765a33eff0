"""A small invented world (world.toml): who lives where, does what, keeps which animal.

Each form of question is trained, but never for everybody: of the forms of a relation, one per (person, relation) is
held out, and it is the only one that tests ask.
"""

import random
import tomllib
from functools import cache
from pathlib import Path

from demo.example import Example
from demo.held_out import bucket

WORDS = tomllib.loads(Path(__file__).with_name("world.toml").read_text())
ANSWERS: dict[str, list[str]] = WORDS["answers"]
STATEMENTS: dict[str, list[str]] = WORDS["statements"]
QUESTIONS: dict[str, list[str]] = WORDS["questions"]
NUM_PEOPLE = 200


@cache
def people() -> tuple[str, ...]:
    """Distinct invented names, always the same."""
    rng = random.Random("people")
    names: dict[str, None] = {}
    while len(names) < NUM_PEOPLE:
        names["".join(rng.choices(WORDS["syllables"], k=2)).capitalize() + rng.choice(WORDS["endings"])] = None
    return tuple(names)


@cache
def exposure() -> tuple[float, ...]:
    """How often a person is talked about, relative to the first: some are known well, some hardly."""
    return tuple((1 + rank / 12) ** -0.7 for rank in range(NUM_PEOPLE))


def fact(who: str, relation: str) -> str:
    return ANSWERS[relation][bucket(("fact", who, relation), len(ANSWERS[relation]))]


def held_out_form(who: str, relation: str) -> int:
    return bucket(("question", who, relation), len(QUESTIONS[relation]))


def ask(who: str, relation: str, form: int) -> Example:
    question = QUESTIONS[relation][form].format(who=who)
    return Example("knowledge", (who, relation, form), question, fact(who, relation))


def draw_subject(rng: random.Random) -> tuple[str, str]:
    """(person, relation) for training, the well-known ones more often."""
    (who,) = rng.choices(people(), exposure())
    return who, rng.choice(list(ANSWERS))


def draw_statement(rng: random.Random) -> Example:
    who, relation = draw_subject(rng)
    form = rng.randrange(len(STATEMENTS[relation]))
    text = STATEMENTS[relation][form].format(who=who, what=fact(who, relation))
    return Example("knowledge", (who, relation, f"statement {form}"), "", text)


def draw_question(rng: random.Random) -> Example:
    """A question for training: any form but the one held out."""
    who, relation = draw_subject(rng)
    skip = rng.randrange(1, len(QUESTIONS[relation]))
    return ask(who, relation, (held_out_form(who, relation) + skip) % len(QUESTIONS[relation]))


def draw_test(rng: random.Random) -> Example:
    """A question for tests: the form held out for this person and relation."""
    who, relation = rng.choice(people()), rng.choice(list(ANSWERS))
    return ask(who, relation, held_out_form(who, relation))


def choices(rng: random.Random, example: Example) -> list[str]:
    """The answer and three others of its kind, in random order."""
    others = [other for other in ANSWERS[example.key[1]] if other != example.answer]
    options = [example.answer, *rng.sample(others, 3)]
    rng.shuffle(options)
    return options
