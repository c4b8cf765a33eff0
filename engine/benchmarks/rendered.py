"""evalcard's own prompts as a file for peers that know no tasks, and evalcard's own grading of what they answer.

The file is JSON: ``prompts`` [{``ids``, ``text``}], ``until`` (stop strings), ``stop_ids``, ``max_new_tokens``. A
peer's answers come back as JSON: ``answers`` [{``text``, ``tokens``}] in the same order; a text may hold stop strings.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ab_rounds import Measured, Scores, Side  # beside this file
from machine_load import run_command
from read_scores import means
from suites import Suite

from evalcard.backends.backend import GenerateRequest, Item, ItemAnswer
from evalcard.samples import make_sample
from evalcard.spec import make_spec
from evalcard.tasks.grade import grade
from evalcard.tasks.prepare import Prepared, PreparedTask, prepare


@dataclass(frozen=True)
class Rendered:
    """The items of one generating task as evalcard asks them."""

    task: PreparedTask
    items: tuple[Item, ...]

    @property
    def requests(self) -> list[GenerateRequest]:
        found = [request for item in self.items for request in item.requests if isinstance(request, GenerateRequest)]
        assert len(found) == len(self.items), ("not one answer an item", self.task.name)
        return found

    @property
    def prompt_tokens(self) -> int:
        return sum(len(request.prompt_ids) for request in self.requests)

    def as_json(self) -> str:
        first = self.requests[0]
        assert all(one.decoding == first.decoding and one.decoding.is_greedy for one in self.requests)
        return json.dumps(
            {
                "prompts": [{"ids": one.prompt_ids, "text": one.prompt} for one in self.requests],
                "until": first.decoding.until,
                "stop_ids": first.stop_ids,
                "max_new_tokens": first.decoding.max_tokens,
            }
        )

    def scores(self, texts: Sequence[str]) -> Scores:
        """Of a peer's answers in the order of the items, by the task's own filters and metrics."""
        assert len(texts) == len(self.items), (len(texts), len(self.items))
        samples = [
            make_sample(item, "", self.task.record.version, ItemAnswer("stop", text=text))
            for item, text in zip(self.items, texts, strict=True)
        ]
        verdicts = grade(self.task.task, self.task.scoring, samples)
        found = means(self.task.name, [verdict.model_dump() for verdict in verdicts])
        return Scores(found, {self.task.name: len(verdicts)})


def render(args: argparse.Namespace, suite: Suite, limit: int | None) -> Rendered:
    """The same items and prompts as `suites.evalcard_command` asks; the suite has one task, which generates."""
    spec = make_spec(
        {
            "baseline": str(args.model),
            "tasks": list(suite.tasks),
            "num_fewshot": suite.num_fewshot,
            "data_root": str(args.data_root),
            "limit_per_subtask": limit,
        }
    )
    prepared: Prepared = prepare(spec)
    (task,) = prepared.tasks
    return Rendered(task, prepared.items[task.name])


def script_side(rendered: Rendered, command: Sequence[str], env: Mapping[str, str], cap_s: float | None = None) -> Side:
    """A peer run as ``command PROMPTS ANSWERS``, timed from its start to its end; building prompts and grading, which
    are part of evalcard's command, cost it nothing. Beyond ``cap_s`` it is ended and has no scores."""

    def run() -> Measured:
        with tempfile.TemporaryDirectory() as scratch:
            prompts, answers = Path(scratch, "prompts.json"), Path(scratch, "answers.json")
            prompts.write_text(rendered.as_json(), encoding="utf-8")
            done = run_command([*command, str(prompts), str(answers)], os.environ | dict(env), cap_s)
            if done.is_cut:
                return Measured(done.usage, is_cut=True)
            said = json.loads(answers.read_text(encoding="utf-8"))["answers"]
        texts, tokens = [one["text"] for one in said], sum(one["tokens"] for one in said)
        return Measured(done.usage, rendered.scores(texts), tokens)

    return run
