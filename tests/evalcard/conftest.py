"""A small world: tasks with documents, a tokenizer trained on them, a random model, a backend that needs none."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}"
    "{% if not loop.last or add_generation_prompt %}<|end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SHAPES = ["circle", "square", "cube", "cone"]


def choice_docs(subject: str, count: int) -> list[dict[str, Any]]:
    return [
        {"question": f"Which {subject} is number {i}?", "choices": SHAPES[i % 4 :] + SHAPES[: i % 4], "answer": i % 4}
        for i in range(count)
    ]


def sum_docs(start: int, count: int) -> list[dict[str, Any]]:
    return [
        {"question": f"What is {i} plus {i + 3}?", "answer": f"{i} + {i + 3} = {2 * i + 3}\n#### {2 * i + 3}"}
        for i in range(start, start + count)
    ]


DOCUMENTS = {
    "toy/choice/shapes": {"dev": choice_docs("shape", 4), "test": choice_docs("shape", 9)},
    "toy/choice/colours": {"dev": choice_docs("colour", 4), "test": choice_docs("colour", 5)},
    "toy/sums": {"train": sum_docs(0, 30), "test": sum_docs(40, 12)},
    "toy/texts": {"test": [{"text": f"The {one} is round. " * 12} for one in SHAPES]},
}
_CHOICE = {
    "dataset_path": "toy/choice", "test_split": "test", "fewshot_split": "dev", "num_fewshot": 2,
    "fewshot_config": {"sampler": "first_n"}, "output_type": "multiple_choice", "doc_to_choice": ["A", "B", "C", "D"],
    "doc_to_text": "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nD. {{choices[3]}}"
                   "\nAnswer:", "doc_to_target": "answer",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}], "metadata": {"version": 1.0},
}  # fmt: skip
TASKS: dict[str, dict[str, Any]] = {
    "toy_shapes": {**_CHOICE, "dataset_name": "shapes", "description": "About shapes.\n\n", "tag": "toy_tag"},
    "toy_colours": {**_CHOICE, "dataset_name": "colours", "description": "About colours.\n\n", "tag": ["toy_tag"]},
    "toy_sums": {
        "dataset_path": "toy/sums", "training_split": "train", "fewshot_split": "train", "test_split": "test",
        "output_type": "generate_until", "num_fewshot": 3, "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_target": "{{answer}}", "metadata": {"version": 3.0},
        "generation_kwargs": {"until": ["Question:"], "do_sample": False, "temperature": 0.0, "max_gen_toks": 24},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True,
                         "regexes_to_ignore": ["(?s).*#### "]}],
        "filter_list": [
            {"name": "strict", "filter": [{"function": "regex", "regex_pattern": "#### (\\-?[0-9]+)"},
                                          {"function": "take_first"}]},
            {"name": "last", "filter": [{"function": "regex", "group_select": -1, "regex_pattern": "(-?[0-9]+)"},
                                        {"function": "take_first"}]},
        ],
    },
    "toy_texts": {
        "dataset_path": "toy/texts", "test_split": "test", "output_type": "loglikelihood_rolling", "doc_to_text": "",
        "doc_to_target": "{{text}}", "metadata": {"version": 2.0},
        "metric_list": [{"metric": "word_perplexity"}, {"metric": "bits_per_byte"}],
    },
}  # fmt: skip
GROUPS: dict[str, dict[str, Any]] = {
    "toy_mc": {
        "task": ["toy_tag"],
        "aggregate_metric_list": [{"metric": "acc", "weight_by_size": True}],
        "metadata": {"version": 1.0},
    },
    "toy_all": {"task": ["toy_mc", "toy_sums"], "metadata": {"version": 1.0}},
}


@dataclass(frozen=True)
class Toys:
    """Task files for evalcard, the same for the harness by itself, and the data root of the former."""

    folder: Path
    harness_folder: Path
    data_root: Path

    def path(self, name: str) -> str:
        return str(self.folder / f"{name}.yaml")


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Toys:
    base = tmp_path_factory.mktemp("toys")
    made = Toys(base / "tasks", base / "harness_tasks", base / "data")
    for folder in (made.folder, made.harness_folder):
        folder.mkdir()
    for place, splits in DOCUMENTS.items():
        (made.data_root / place).mkdir(parents=True)
        for split, docs in splits.items():
            lines = "".join(json.dumps(doc) + "\n" for doc in docs)
            (made.data_root / place / f"{split}.jsonl").write_text(lines)
    for name, config in TASKS.items():
        _write(made.folder, {"task": name, **config})
        place = made.data_root / config["dataset_path"] / config.get("dataset_name", "")
        files = {path.stem: str(path) for path in place.glob("*.jsonl")}
        local = {"data_files": files, "cache_dir": str(base / "cache")}
        own = {key: value for key, value in config.items() if key != "dataset_name"}
        _write(made.harness_folder, {"task": name, **own, "dataset_path": "json", "dataset_kwargs": local})
    for name, config in GROUPS.items():
        for folder in (made.folder, made.harness_folder):
            _write(folder, {"group": name, **config})
    return made


def _write(folder: Path, config: dict[str, Any]) -> None:
    name = config.get("task") if isinstance(config.get("task"), str) else config["group"]
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def save_tokenizer(folder: Path, corpus: Sequence[str], **changes: Any) -> Path:
    """A byte-level BPE tokenizer that puts <s> in front, as Llama's do, and a config of a tiny model."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    specials = ["<s>", "</s>", "<|end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=600, special_tokens=specials, initial_alphabet=alphabet)
    )
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", inner.token_to_id("<s>"))]
    )
    options = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": CHAT_TEMPLATE} | changes
    PreTrainedTokenizerFast(tokenizer_object=inner, **options).save_pretrained(folder)
    config = {"model_type": "llama", "max_position_embeddings": 512, "vocab_size": inner.get_vocab_size()}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2], "temperature": 0.6}))
    return folder


@pytest.fixture(scope="session")
def corpus() -> list[str]:
    docs = [doc for splits in DOCUMENTS.values() for rows in splits.values() for doc in rows]
    return [str(value) for doc in docs for value in doc.values()] + ["Question: \nAnswer: A. B. C. D.\n\n#### 12"] * 9


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory, corpus: list[str]) -> Path:
    return save_tokenizer(tmp_path_factory.mktemp("tiny-model"), corpus)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, corpus: list[str]) -> Path:
    """A Llama of two layers with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = save_tokenizer(tmp_path_factory.mktemp("tiny-llama"), corpus)
    vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=vocab, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, bos_token_id=0, eos_token_id=1, initializer_range=0.3,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2]}))
    return folder


@dataclass
class FakeBackend:
    """Answers by a rule; counts what it was asked; stops where it is told to."""

    answer_of: Callable[[Any], Any]
    weights: str | None = "w0"
    stop_after: int | None = None
    asked: list[Any] = field(default_factory=list)
    calls: int = 0

    def identity(self) -> Any:
        from evalcard.backends.backend import Identity

        return Identity(self.weights, "fake")

    def answer(self, items: Sequence[Any], on_answer: Callable[[Any, Any], None]) -> None:
        self.calls += 1
        for item in reversed(items):
            if self.stop_after is not None and len(self.asked) >= self.stop_after:
                raise KeyboardInterrupt
            self.asked.append(item)
            on_answer(item, self.answer_of(item))

    def facts(self) -> dict[str, Any]:
        return {"bits_per_weight": 4.25, "weight_bytes": 1000} if self.calls else {}

    def close(self) -> None:
        """Nothing is held."""


def plain_answer(item: Any) -> Any:
    """The first choice is likeliest; sums are answered with 86."""
    from evalcard.backends.backend import ChoiceAnswer, GenerateRequest, ItemAnswer

    if isinstance(item.requests[0], GenerateRequest):
        return ItemAnswer("stop", text=" 86\n#### 86", token_ids=(5, 6), output_tokens=2)
    choices = tuple(ChoiceAnswer(-1.0 - i, 1, i == 0) for i in range(len(item.requests)))
    return ItemAnswer("stop", choices=choices)


@pytest.fixture
def fake_backend() -> Callable[..., FakeBackend]:
    return lambda **options: FakeBackend(**({"answer_of": plain_answer} | options))


@pytest.fixture
def toy_spec(toys: Toys, tokenizer_folder: Path) -> Callable[..., Any]:
    """A RunSpec over toy tasks by name."""
    from evalcard.spec import make_spec

    def make(*names: str, **changes: Any) -> Any:
        given = {"baseline": str(tokenizer_folder), "tasks": [toys.path(name) for name in names]}
        return make_spec(given | {"data_root": str(toys.data_root)} | changes)

    return make


@pytest.fixture(scope="session", autouse=True)
def _task_names_are_scanned_once(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The scan's cache goes to a folder of the test session, not to the home of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@dataclass
class StoredRun:
    """A run on disk made of scores alone, as ``evalcard run`` leaves it; every file is written by ``write``."""

    path: Path
    slugs: tuple[str, ...] = ("tiny", "tiny-w8a8")
    schemes: tuple[str | None, ...] = (None, "w8a8", "w4a16")
    is_finished: bool = True
    seed: int = 1234
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, task: str, *scores: Sequence[float], **facts: Any) -> "StoredRun":
        """One task with the scores of each model by item; ``facts`` go to its record."""
        n = len(scores[0])
        self.tasks[task] = {
            "name": task, "source": "file", "version": "1", "metric": "acc", "filter": "none", "category": "general",
            "chance": 0.0, "higher_is_better": True, "num_fewshot": 0, "repeats": 1, "decoding": "greedy",
            "chat_template": False, "items_total": n, "items_selected": n, "selection": "all", **facts,
        }  # fmt: skip
        for slug, values in zip(self.slugs, scores, strict=True):
            self.answers[slug, task] = [{"item_id": item, "value": value} for item, value in enumerate(values)]
        return self

    def write(self) -> Path:
        from evalcard.results.records import Sample, Verdict
        from evalcard.results.store import RunFolder

        with RunFolder.open(self.path.parent, self.path.name) as folder:
            for (slug, task), answers in self.answers.items():
                given = [self._answer(slug, task, dict(one)) for one in answers]
                for sample, _ in given:
                    folder.journal(slug, task).append(Sample.model_validate(sample))
                folder.write_verdicts(slug, task, [Verdict.model_validate(verdict) for _, verdict in given])
            folder.write_run(self.record())
        return self.path

    def record(self) -> Any:
        from evalcard.results.records import ModelRecord, RowRecord, RunRecord, TaskRecord

        models = [
            ModelRecord(slug=slug, role="compressed" if number else "baseline", name="tiny", hub_id=None, revision=None,
                        scheme=self.schemes[number], weights_digest=f"w{number}", tokenizer_digest="t",
                        template_digest=None, numerics="n")
            for number, slug in enumerate(self.slugs)
        ]  # fmt: skip
        created = "2026-01-01T00:00:00+00:00"
        return RunRecord(
            schema=1, name=self.path.name, created=created, finished=created if self.is_finished else None, asked={},
            resolved={}, models=models, tasks=[TaskRecord.model_validate(task) for task in self.tasks.values()],
            rows=[RowRecord(name=task, tasks=[task], rule="task") for task in self.tasks], progress=[], versions={},
            hardware={}, seed=self.seed, command=[], git=None,
        )  # fmt: skip

    def _answer(self, slug: str, task: str, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """(sample, verdict); what an answer states beyond item, repeat and value goes where it belongs."""
        facts, item, value = self.tasks[task], given.pop("item_id"), given.pop("value")
        repeat, said = given.pop("repeat", 0), given.pop("extracted", "7" if value else "8")
        sample = {"schema": 1, "key": f"{slug}{item}.{repeat}", "task": task, "task_version": facts["version"],
                  "item_id": item, "item_hash": f"item{item}", "repeat": repeat, "prompt_hash": f"prompt{item}",
                  "prompt_tokens": 9, "text": f"so\n#### {said}", "finish": "stop", "output_tokens": 5}  # fmt: skip
        outcome = given.pop("outcome", "correct" if value == 1 else "wrong")
        score = {"metric": facts["metric"], "filter": facts["filter"], "value": float(value)}
        verdict = {"item_id": item, "repeat": repeat, "extracted": said, "target": given.pop("target", "7"),
                   "outcome": outcome, "scores": [score]}  # fmt: skip
        return sample | given, verdict


@pytest.fixture
def stored_run(tmp_path: Path) -> Callable[..., StoredRun]:
    """A run below ``tmp_path``/results, by name; nothing is on disk before its ``write``."""
    return lambda name="some-run", **facts: StoredRun(tmp_path / "results" / name, **facts)
