"""Any model of lm_eval as a backend (hf, vllm, sglang, local-completions, ...): strings in, answers out."""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from evalcard.backends.backend import ChoiceAnswer, GenerateRequest, Identity, Item, ItemAnswer, ScoreRequest
from evalcard.backends.described import described
from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec
from evalcard.progress import Progress, Silent
from evalcard.spec import RunSpec
from evalcard.tasks.prompts.tokenizer import Tokenizer, shared_tokenizer, tokenizer_source

_CHUNK_ITEMS = 256
"""Items of one call: these models answer only at the end of a call, and what is not answered is lost on a crash."""
_WEIGHT_FILES = ("*.safetensors", "*.bin", "*.gguf", "config.json", "quantize_config.json")
_RUNS_WITH = ("torch", "transformers", "vllm", "sglang", "compressed-tensors")
_NAMES_OF_THE_MODEL = {"pretrained", "model", "tokenizer"}
_BLOCK = 1 << 22


class HarnessBackend:
    """One model of the harness. Its prompts are the harness's strings; ids serve for hashes and for counting tokens."""

    def __init__(self, spec: RunSpec, model: ModelSpec, progress: Progress | None = None) -> None:
        """Raises UserError for an unknown model type, and for what only our own engine can do."""
        if model.scheme is not None:
            raise UserError(
                f"{model.label}: a scheme is applied on the fly by evalcard's own engine only, not by the "
                f"{spec.backend} backend. Give an already quantized checkpoint, or leave out --backend."
            )
        self._spec = spec
        self._model = model
        self._progress = progress or Silent()
        self._arguments = model_arguments(spec, model)
        self._class = _model_class(spec.backend)
        self._lm: Any = None
        self._identity: Identity | None = None

    def identity(self) -> Identity:
        """A digest only for a local folder; other models' answers are reused inside their own run."""
        if self._identity is None:
            folder = Path(self._model.location).expanduser()
            digest = digest_folder(folder) if folder.is_dir() else None
            self._identity = Identity(digest, self._numerics(), described=described(self._model))
        return self._identity

    def _numerics(self) -> str:
        found = {name: _version(name) for name in ("lm_eval", *_RUNS_WITH)}
        kept = {name: text for name, text in self._arguments.items() if name not in _NAMES_OF_THE_MODEL}
        told = {"backend": self._spec.backend, "dtype": self._spec.dtype, "device": self._spec.device}
        return json.dumps(told | {"arguments": kept, "versions": {k: v for k, v in found.items() if v}}, sort_keys=True)

    @property
    def tokenizer(self) -> Tokenizer:
        return shared_tokenizer(*tokenizer_source(self._spec, self._model))

    def answer(self, items: Sequence[Item], on_answer: Callable[[Item, ItemAnswer], None]) -> None:
        """Chunk by chunk, items of one kind together."""
        for chunk in _chunks(items):
            answers = self._answer_chunk(chunk)
            assert len(answers) == len(chunk), (len(answers), len(chunk))
            for item, answer in zip(chunk, answers, strict=True):
                on_answer(item, answer)

    def _answer_chunk(self, items: list[Item]) -> list[ItemAnswer]:
        lm, kind = self._open(), _kind(items[0])
        instances = [instance for item in items for instance in _instances(kind, item)]
        responses = iter(_one_each(getattr(lm, kind)(instances, disable_tqdm=True), instances))
        if kind == "generate_until":
            return [self._generated(item, next(responses)) for item in items]
        if kind == "loglikelihood_rolling":
            return [_rolled(item, float(next(responses))) for item in items]
        return [_scored(item, [next(responses) for _ in item.requests]) for item in items]

    def _generated(self, item: Item, text: str) -> ItemAnswer:
        """The harness tells no reason for an end; an answer as long as it could be was cut."""
        request = item.requests[0]
        assert isinstance(request, GenerateRequest), item
        count = len(self.tokenizer.encode_many([text], special=False)[0]) if text else 0
        is_full = count >= request.decoding.max_tokens
        return ItemAnswer("length" if is_full else "stop", text=text, output_tokens=count)

    def _open(self) -> Any:
        if self._lm is None:
            self._progress.say(f"Loading {self._model.label} with {self._spec.backend} (lm_eval {_version('lm_eval')})")
            device = None if self._spec.device == "auto" else self._spec.device
            extra = {"device": device, "batch_size": self._arguments.get("batch_size")}
            arguments = {name: value for name, value in self._arguments.items() if name != "batch_size"}
            try:
                self._lm = self._class.create_from_arg_obj(arguments, extra)
            except (ImportError, OSError, TypeError, ValueError) as error:
                raise UserError(
                    f"the {self._spec.backend} backend cannot open {self._model.label} with {arguments}: "
                    f"{type(error).__name__}: {error}"
                ) from error
        return self._lm

    def facts(self) -> dict[str, float | int | str | None]:
        """The harness does not tell sizes."""
        return {}

    def close(self) -> None:
        """Drop the model; may be called twice."""
        self._lm = None


def model_arguments(spec: RunSpec, model: ModelSpec) -> dict[str, Any]:
    """Arguments of the harness's model class: what was given wins over what evalcard derives."""
    from lm_eval.utils import handle_arg_string

    given = {name: handle_arg_string(text) for name, text in (spec.model_args | model.args).items()}
    derived: dict[str, Any] = {}
    if "://" in model.source:
        derived["base_url"] = model.source
    elif spec.backend.endswith(("completions", "chat")):
        derived["model"] = model.location
    else:
        derived["pretrained"] = model.location
        derived |= {"revision": model.revision} if model.revision else {}
        derived |= {"dtype": spec.dtype} if spec.dtype != "auto" else {}
    if spec.max_model_len:
        derived["max_length"] = spec.max_model_len
    return derived | given


def _model_class(name: str) -> Any:
    import lm_eval.models  # noqa: F401 - registers the names
    from lm_eval.api.registry import MODEL_REGISTRY, get_model

    if name not in MODEL_REGISTRY:
        known = ", ".join(sorted(MODEL_REGISTRY.keys()))
        raise UserError(f"unknown backend {name!r}. Known: evalcard, {known}.")
    try:
        return get_model(name)
    except ImportError as error:
        raise UserError(f"the {name} backend is not installed: {error}") from error


def digest_folder(folder: Path) -> str | None:
    """sha256 over names and bytes of the weight files and config; None where the folder holds no weights."""
    files = sorted({path for pattern in _WEIGHT_FILES for path in folder.glob(pattern)})
    if not any(path.suffix != ".json" for path in files):
        return None
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}:{path.stat().st_size}:".encode())
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _kind(item: Item) -> str:
    if item.is_rolling:
        return "loglikelihood_rolling"
    return "generate_until" if isinstance(item.requests[0], GenerateRequest) else "loglikelihood"


def _chunks(items: Sequence[Item]) -> Iterator[list[Item]]:
    by_kind: dict[str, list[Item]] = {}
    for item in items:
        by_kind.setdefault(_kind(item), []).append(item)
    for same in by_kind.values():
        for start in range(0, len(same), _CHUNK_ITEMS):
            yield same[start : start + _CHUNK_ITEMS]


def _instances(kind: str, item: Item) -> list[Any]:
    from lm_eval.api.instance import Instance

    if kind == "loglikelihood_rolling":
        text = item.requests[0].continuation  # type: ignore[union-attr]
        arguments: list[tuple[Any, ...]] = [(text,)]
    elif kind == "generate_until":
        request = item.requests[0]
        assert isinstance(request, GenerateRequest), item
        arguments = [(request.prompt, generation_arguments(request))]
    else:
        arguments = [(r.context, r.continuation) for r in item.requests if isinstance(r, ScoreRequest)]
    return [Instance(kind, {}, one, index, metadata=(item.task, 0, 1)) for index, one in enumerate(arguments)]


def generation_arguments(request: GenerateRequest) -> dict[str, Any]:
    """A decoding in the harness's words; greedy is said outright, so that no checkpoint's default comes in."""
    decoding = request.decoding
    common: dict[str, Any] = {"until": list(decoding.until), "max_gen_toks": decoding.max_tokens}
    if decoding.is_greedy:
        return common | {"do_sample": False, "temperature": 0.0}
    sampled = {"do_sample": True, "temperature": decoding.temperature, "top_p": decoding.top_p}
    sampled |= {"top_k": decoding.top_k} if decoding.top_k else {}
    return common | sampled | ({"min_p": decoding.min_p} if decoding.min_p else {})


def _one_each(responses: list[Any], instances: list[Any]) -> list[Any]:
    assert len(responses) == len(instances), ("answers and requests differ in number", len(responses), len(instances))
    return responses


def _scored(item: Item, responses: list[Any]) -> ItemAnswer:
    choices = tuple(
        ChoiceAnswer(_finite(logprob), count, bool(is_greedy))
        for (logprob, is_greedy), count in zip(responses, _counts(item), strict=True)
    )
    return ItemAnswer("error" if any(one.logprob is None for one in choices) else "stop", choices=choices)


def _rolled(item: Item, logprob: float) -> ItemAnswer:
    """The harness gives one sum for the whole text; it stands in the first window, the others add nothing."""
    value = _finite(logprob)
    choices = tuple(ChoiceAnswer(value if i == 0 else 0.0, count, False) for i, count in enumerate(_counts(item)))
    return ItemAnswer("error" if value is None else "stop", choices=choices)


def _counts(item: Item) -> list[int]:
    return [len(request.continuation_ids) for request in item.requests if isinstance(request, ScoreRequest)]


def _finite(value: float) -> float | None:
    number = float(value)
    return number if number == number and abs(number) != float("inf") else None
