"""Worked examples: how many, which ones, never the item itself, and fewer of them where a prompt would not fit."""

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

from evalcard.errors import UserError

_RENDERED = ("doc_to_text", "doc_to_target", "doc_to_choice")


def shots_wanted(own: int | None, asked: int | None) -> tuple[int, str | None]:
    """(worked examples in each prompt, what became of ``--num-fewshot`` where that is worth saying).

    By the harness's rules: the flag wins over the task's number, except over a 0 that the task states itself, which
    its prompts are written for.
    """
    if asked is None or asked == own:
        return own or 0, None
    if own == 0:
        return 0, f"zero-shot by its own definition, --num-fewshot {asked} is not applied"
    return asked, None if own is None else f"{asked} shots instead of its own {own}"


class Shots:
    """Stands in for a task's sampler: draws by it, once for each document, and shows the last ``keep`` of what it drew.

    So leaving some out moves no draw for another document. A document whose own question was drawn gets another
    example in its place: the harness looks for that only where the task names its test split as the source of shots.
    """

    def __init__(self, sampler: Any, seed: int, is_same_split: bool):
        self._sampler = sampler
        self._seed = seed
        self._is_same_split = is_same_split
        self._drawn: dict[int, list[Any]] = {}
        self._position, self._doc, self._keep = 0, None, None  # type: tuple[int, Any, int | None]
        self.shown: set[int] = set()
        """id() of every document that was drawn; ``_drawn`` keeps them alive."""
        self.mended: list[int] = []
        """Positions of the documents that would have been shown their own answer."""

    def begin(self, position: int, doc: Any, keep: int | None = None) -> None:
        """The next ``sample`` is for this document; ``keep`` None shows all its examples."""
        self._position, self._doc, self._keep = position, doc, keep

    def sample(self, n: int, eval_doc: Any = None, df: Any = None, **options: Any) -> Sequence[Any]:
        """What the harness calls; errors are the sampler's, and a ValueError for too few documents."""
        if self._position not in self._drawn:
            drawn = list(self._sampler.sample(n, eval_doc=eval_doc, df=df, **options))
            self._drawn[self._position] = self._without_itself(drawn) if self._is_same_split else drawn
            self.shown.update(map(id, self._drawn[self._position]))
        drawn = self._drawn[self._position]
        return drawn if self._keep is None else drawn[len(drawn) - min(self._keep, len(drawn)) :]

    def _without_itself(self, drawn: list[Any]) -> list[Any]:
        if self._doc not in drawn:
            return drawn
        free = [doc for doc in self._pool() if doc != self._doc and doc not in drawn]
        missing = drawn.count(self._doc)
        if len(free) < missing:
            raise ValueError(f"{len(drawn)} shots need {len(drawn)} documents beside the item itself")
        self.mended.append(self._position)
        # A generator of its own, so that the task's draws for later documents stay what they were.
        others = iter(random.Random(f"{self._seed}/{self._position}").sample(free, missing))
        return [next(others) if doc == self._doc else doc for doc in drawn]

    def _pool(self) -> list[Any]:
        documents = getattr(self._sampler, "fewshot_docs", None)
        return list(documents()) if documents else list(self._sampler.df)


@contextlib.contextmanager
def standing_in(task: Any, seed: int) -> Iterator[Shots | None]:
    """Within the block the task draws its shots through ``Shots``, from a generator seeded anew; None where it has no
    sampler of the harness's."""
    task.set_fewshot_seed(seed=seed)
    sampler = getattr(task, "sampler", None)
    if sampler is None:
        yield None
        return
    task.sampler = shots = Shots(sampler, seed, _shots_split(task) == _evaluated_split(task))
    before = dict(vars(task))
    for name in _RENDERED:
        if _is_plain(task, name):
            setattr(task, name, _remembering(getattr(task, name), shots))
    try:
        yield shots
    finally:
        task.sampler = sampler
        for name in _RENDERED:
            vars(task).pop(name, None)
            vars(task).update({name: before[name]} if name in before else {})


def _is_plain(task: Any, name: str) -> bool:
    """Whether a field of a worked example is a template or a value, which gives the same text every time."""
    stated = getattr(task.fewshot_cfg, name, None)
    return isinstance(stated, (str, int, list, dict)) and "random" not in str(stated)


def _remembering(render: Any, shots: Shots) -> Any:
    """``render(doc, template)``, once for each worked example: MMLU shows the same five all through a subject."""
    known: dict[tuple[int, int], Any] = {}

    def rendered(doc: Any, *template: Any) -> Any:
        if id(doc) not in shots.shown or not template:
            return render(doc, *template)
        key = id(doc), id(template[0])
        if key not in known:
            known[key] = render(doc, *template)
        return known[key]

    return rendered


def _evaluated_split(task: Any) -> str | None:
    return task.config.test_split or task.config.validation_split


def _shots_split(task: Any) -> str | None:
    """Where the shots come from: the split the task names, else the harness's order; None for shots in its own file."""
    config = task.fewshot_cfg
    if config.split is None and config.samples is not None:
        return None
    return config.split or task.config.training_split or task.config.validation_split or task.config.test_split


def refuse_few_documents(task: Any, name: str, wanted: int) -> None:
    """Raise UserError where there are fewer documents than shots; the item's own is no shot of it."""
    sampler = getattr(task, "sampler", None)
    sampler = getattr(sampler, "_sampler", sampler)
    pool = len(getattr(sampler, "fewshot_indices", None) or getattr(sampler, "df", None) or ())
    if wanted > 0 and pool <= wanted:
        raise UserError(
            f"task {name}: {wanted} shots were asked for, but it has {pool} documents to take them "
            "from (the item itself is never one of its shots). Ask for fewer with --num-fewshot."
        )
