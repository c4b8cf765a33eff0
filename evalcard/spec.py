"""RunSpec: what is compared on which tasks, frozen and strict, from YAML or flags."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from evalcard.errors import UserError
from evalcard.modelspec import HUB_ID, ModelSpec, Strict, parse_model
from evalcard.percent import confidence_fault, percent_fault
from evalcard.yamltext import read_yaml
from evalcard_engine.errors import EngineError
from evalcard_engine.quant.scheme import parse_scheme

_MIN_TEMPERATURE = 1e-3
"""The engine's own limit, which it would say only once a model is loaded."""
_FILE_END = re.compile(r"\.(ya?ml|jsonl?|csv|tsv|parquet)(:.*)?$", re.DOTALL)
_NOT_PART_OF_THE_NAME = {
    "out", "reuse", "fresh", "kv_memory", "threads", "base_model", "step_tokens", "trust_task_code", "gate_file",
    "min_recovery", "confidence", "noise_check", "weights",
}  # fmt: skip
"""Fields that change neither answers nor scores, so the same command resumes in the same folder."""


class RunSpec(Strict):
    """One comparison job."""

    baseline: ModelSpec
    compressed: tuple[ModelSpec, ...] = ()
    tasks: tuple[str, ...] = Field(min_length=1)
    num_fewshot: int | None = Field(default=None, ge=0)
    limit: float | None = Field(default=None, gt=0)
    """Items of a row in all, seeded and spread over its tasks by their sizes; below 1 a share of every task."""
    limit_per_subtask: int | None = Field(default=None, ge=1)
    """The first N documents of every leaf task."""
    drop_shots: bool = False
    """Leave out whole worked examples where a prompt would not fit."""
    chat_template: bool = False
    chat_template_args: dict[str, bool | int | float | str] = {}
    """More variables for the chat template, such as enable_thinking=false; true, false and numbers are read as such."""
    fewshot_as_multiturn: bool | None = None
    """Worked examples as turns of their own; None: wherever a chat template is applied, as in the harness."""
    system: str | None = None
    repeats: int | None = Field(default=None, ge=1, le=10_000)
    """Samples of every generated answer, instead of the task's own number."""
    temperature: float | None = Field(default=None, ge=0, le=100)
    """Sampling temperature instead of the task's own; 0 is greedy."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    min_p: float | None = Field(default=None, ge=0, le=1)
    backend: str = "evalcard"
    model_args: dict[str, str] = {}
    """Passed to the backend for every model."""
    dtype: str = Field(default="auto", pattern="^(auto|float32|bfloat16|float16)$")
    device: str = "auto"
    weights: str = Field(default="auto", pattern="^(auto|packed|expanded)$")
    """Form of quantized linears in memory; answers do not depend on it."""
    max_model_len: int | None = Field(default=None, ge=2)
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Overrides the task's own limit."""
    data_root: str | None = None
    trust_task_code: bool = False
    """Run Python that lies beside a task file."""
    seed: int = Field(default=1234, ge=0)
    out: str = "results"
    """Results root: a run is a folder below it."""
    reuse: tuple[str, ...] = ()
    """More results roots whose equal answers may be taken."""
    fresh: bool = False
    """Take no stored answer."""
    base_model: str | None = None
    """Hub id for the card's front matter where the models are local folders."""
    kv_memory: int | None = Field(default=None, ge=1)
    """Bytes of KV cache; None lets the engine take its stated share."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    step_tokens: int | None = Field(default=None, ge=16)
    gate_file: str | None = None
    """Gate file whose limits the run is judged by when it is done."""
    min_recovery: float | None = Field(default=None, ge=0, le=200)
    """Limit of every row, in percent, that the run is judged by when it is done; wins over the gate file's."""
    confidence: float | None = None
    """Of the gate; None: the gate file's own, or 95 %."""
    sequential: bool = False
    """Answer items in a seeded random order and stop as soon as the gate is decided."""
    noise_check: int | None = Field(default=None, ge=1)
    """Ask the baseline again on so many items of every task, in another batch order."""

    @field_validator("limit")
    @classmethod
    def _count_or_share(cls, value: float | None) -> float | None:
        if value is not None and value >= 1 and not value.is_integer():
            raise ValueError("must be a whole number of items, or a share below 1")
        return value

    @field_validator("min_recovery")
    @classmethod
    def _in_percent(cls, value: float | None) -> float | None:
        if value is not None and (fault := percent_fault(value)):
            raise ValueError(fault)
        return value

    @field_validator("confidence")
    @classmethod
    def _a_fraction(cls, value: float | None) -> float | None:
        if value is not None and (fault := confidence_fault(value)):
            raise ValueError(fault)
        return value

    @field_validator("temperature")
    @classmethod
    def _greedy_or_hot_enough(cls, value: float | None) -> float | None:
        if value is not None and 0 < value < _MIN_TEMPERATURE:
            raise ValueError(f"must be 0, which is greedy, or from {_MIN_TEMPERATURE:g} to 100")
        return value

    @field_validator("chat_template_args", mode="before")
    @classmethod
    def _as_values(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: _plain_value(one) if isinstance(one, str) else one for name, one in value.items()}

    @model_validator(mode="after")
    def _consistent(self) -> "RunSpec":
        if self.limit is not None and self.limit_per_subtask is not None:
            raise ValueError("limit counts the items of a whole row, limit_per_subtask those of each task; give one")
        if self.weights != "auto" and self.backend != "evalcard":
            raise ValueError(
                f"weights is a choice of the evalcard backend, and backend is {self.backend}; leave it out"
            )
        if not self.chat_template:
            needless = [name for name in ("fewshot_as_multiturn", "chat_template_args") if getattr(self, name)]
            if needless:
                raise ValueError(f"{' and '.join(needless)} needs chat_template (--apply-chat-template)")
        return self

    @field_validator("baseline", mode="before")
    @classmethod
    def _one_model(cls, value: Any) -> Any:
        return parse_model(value) if isinstance(value, str) else value

    @field_validator("base_model")
    @classmethod
    def _hub_id(cls, value: str | None) -> str | None:
        if value is not None and (not HUB_ID.fullmatch(value) or Path(value).exists()):
            raise ValueError("the card needs a Hub id such as org/name, never a folder")
        return value

    @field_validator("compressed", mode="before")
    @classmethod
    def _many_models(cls, value: Any) -> Any:
        models = [parse_model(one) if isinstance(one, str) else one for one in _listed(value, "models")]
        twice = [model for number, model in enumerate(models) if model in models[:number]]
        if twice:
            raise ValueError(f"{getattr(twice[0], 'label', twice[0])} is given twice; name each compressed model once")
        return tuple(models)

    @field_validator("tasks", mode="before")
    @classmethod
    def _many_tasks(cls, value: Any) -> Any:
        texts = _listed(value, "task names")
        if not all(isinstance(one, str) for one in texts):
            raise ValueError("every task name must be text; quote names that YAML reads as something else")
        names = [name.strip() for one in texts for name in _split_names(one)]
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def models(self) -> tuple[ModelSpec, ...]:
        """The baseline first."""
        return (self.baseline, *self.compressed)

    @property
    def run_name(self) -> str:
        """``<first task>-<8 hex of the resolved spec>``."""
        facts = {k: v for k, v in self.model_dump(mode="json").items() if k not in _NOT_PART_OF_THE_NAME}
        if not self.sequential:
            del facts["sequential"]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        first = Path(_FILE_END.sub("", self.tasks[0])).name
        return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', first)}-{digest[:8]}"


def _plain_value(text: str) -> bool | int | float | str:
    """true, false and numbers as what they say; anything else is text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _split_names(text: str) -> list[str]:
    """Names separated by commas; after ``:regex=`` a comma belongs to the pattern, which therefore comes last."""
    head, regex, pattern = text.partition(":regex=")
    names = head.split(",")
    return [*names[:-1], names[-1] + regex + pattern]


def _listed(value: Any, what: str) -> list[Any]:
    """A single text or a list of entries, as a list; pydantic turns the ValueError into a message."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"must be text or a list of {what}")
    return list(value)


def load_spec(path: Path, overrides: dict[str, Any]) -> RunSpec:
    """Read a YAML spec; ``overrides`` are flags that were given and win over the file."""
    data = read_yaml(path, "the spec", "Give a YAML file, or flags instead.")
    if not isinstance(data, dict):
        raise UserError(f"the spec {path} holds {type(data).__name__}, not a mapping of keys such as baseline, tasks.")
    return make_spec({**data, **overrides}, origin=str(path))


def make_spec(data: dict[str, Any], origin: str = "the command line") -> RunSpec:
    """Validate; every fault is listed in one UserError, and the allowed keys where one is unknown."""
    try:
        return RunSpec.model_validate(with_sweep(data))
    except ValidationError as error:
        raise UserError(_explain(error, origin)) from None


def with_sweep(data: Mapping[str, Any]) -> dict[str, Any]:
    """``sweep: [fp8, w8a8]`` as what it stands for: the baseline with each scheme, after the compressed models.

    Raises UserError for an unknown scheme and for a baseline that no scheme can be applied to.
    """
    data = dict(data)
    schemes = _schemes(data.pop("sweep", ()))
    if not schemes:
        return data
    if not data.get("baseline"):
        raise UserError("sweep needs a baseline: the model that its schemes are applied to.")
    baseline = data["baseline"]
    try:
        model = parse_model(baseline) if isinstance(baseline, str) else ModelSpec.model_validate(baseline)
    except ValidationError:
        return data  # the baseline is faulty, which is said with everything else that is
    if model.scheme is not None:
        raise UserError(f"sweep applies schemes to the baseline, and {model.label} has one already. Give it without.")
    swept = [model.model_copy(update={"scheme": scheme}) for scheme in schemes]
    return data | {"compressed": [*_listed(data.get("compressed") or (), "models"), *swept]}


def _schemes(value: Any) -> list[str]:
    """Canonical names of a list, or of a text with commas; each once."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(one, str) for one in texts):
        raise UserError(f"sweep is {value!r}; it must be schemes separated by commas, such as fp8,w8a8,w4a16.")
    try:
        return list(dict.fromkeys(parse_scheme(one).name for text in texts for one in text.split(",") if one.strip()))
    except EngineError as error:
        raise UserError(f"sweep: {error}") from None


_MISSING = {
    "tasks": "tasks are missing: give some, such as --tasks mmlu,gsm8k (`evalcard tasks` lists them)",
    "baseline": "the baseline is missing: give the model that compression started from",
}


def _explain(error: ValidationError, origin: str) -> str:
    lines = []
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            lines.append(f"unknown key {where!r}")
        elif fault["type"] == "missing" and where in _MISSING:
            lines.append(_MISSING[where])
        else:
            said = fault["msg"].removeprefix("Value error, ")
            # What concerns the whole spec would be followed by all of it.
            got = "" if fault["type"] == "missing" or not where or "got " in said else f", got {fault['input']!r}"
            lines.append(f"{where}: {said}{got}" if where else said)
    said = f"{origin} is not a valid run: {'; '.join(lines)}."
    is_unknown = any(fault["type"] == "extra_forbidden" for fault in error.errors())
    return f"{said} Known keys: {', '.join(sorted({*RunSpec.model_fields, 'sweep'}))}." if is_unknown else said
