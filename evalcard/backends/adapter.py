"""evalcard's engine as a model of lm_eval, named ``evalcard``. Importing this module registers it.

It only translates: text to items, all of them to the engine in one call, answers back in the order of the requests.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import lm_eval.models  # noqa: F401 - the harness fills its registry only while it is empty, so its own models come first
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import simple_parse_args_string
from tqdm import tqdm  # type: ignore[import-untyped]

from evalcard.backends.backend import Item, ItemAnswer, ScoreRequest
from evalcard.backends.embedded import EmbeddedBackend
from evalcard.errors import UserError
from evalcard.modelspec import ModelSpec, parse_model
from evalcard.spec import RunSpec, make_spec
from evalcard.tasks.prompts.decoding import Generation, decoding_of
from evalcard.tasks.prompts.encode import encode_items, hash_ids
from evalcard.tasks.prompts.requests import Prompt

_TASK = "lm_eval"
_NAMED = ("dtype", "device", "weights", "kv_memory", "step_tokens", "threads", "max_length", "seed")
_ARGUMENTS = ("pretrained", "scheme", "revision", "tokenizer", *_NAMED)


@register_model("evalcard")
class EvalcardLM(TemplateLM):
    """Arguments: pretrained=DIR|ID[:scheme], scheme=, revision=, dtype=, device=, weights=, kv_memory= (bytes),
    step_tokens=, threads=, max_length=, tokenizer=, seed=. Batch sizes are the engine's own business and ignored.
    """

    def __init__(self, pretrained: str | None = None, **arguments: Any) -> None:
        super().__init__()
        arguments = {name: value for name, value in arguments.items() if not name.endswith("batch_size")}
        unknown = sorted(set(arguments) - set(_ARGUMENTS))
        if unknown or not pretrained:
            problem = f"unknown arguments {', '.join(unknown)}" if unknown else "pretrained= is missing"
            raise UserError(f"model evalcard: {problem}. It takes {', '.join(_ARGUMENTS)}.")
        spec, model = _spec(str(pretrained), arguments)
        self._backend = EmbeddedBackend(spec, model)
        self._tokenizer = self._backend.tokenizer
        self._seed = spec.seed
        self._max_model_len = spec.max_model_len or self._tokenizer.max_len
        self.tokenizer = self._tokenizer.inner

    @classmethod
    def create_from_arg_obj(cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None) -> Any:
        """The command line always names a device, ``cuda:0`` unless told otherwise; that is taken as a wish."""
        wished = str((additional_config or {}).get("device") or "auto")
        return cls(**{"device": "auto" if wished.startswith("cuda") else wished} | arg_dict)

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict[str, Any] | None = None) -> Any:
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    @property
    def max_length(self) -> int:
        return self._max_model_len

    @property
    def eot_token_id(self) -> int:
        return self._tokenizer.eos_id  # type: ignore[return-value]

    @property
    def prefix_token_id(self) -> int:
        return self._tokenizer.prefix_id  # type: ignore[return-value]

    @property
    def tokenizer_name(self) -> str:
        return f"{self._tokenizer.digest[:16]}-{(self._tokenizer.template_digest or 'none')[:16]}"

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self._tokenizer.render_chat(chat_history, add_generation_prompt)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        return list(self._tokenizer.encode_many([string], add_special_tokens)[0])

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """(log-probability, whether greedy) of each (context, continuation)."""
        return [_pair(answer) for answer in self._answer(self._items("score", requests, {}), disable_tqdm)]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Log-probability of each whole text."""
        items = self._items("rolling", requests, {})
        return [sum(_logprobs(answer)) for answer in self._answer(items, disable_tqdm)]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The answer to each (context, generation arguments); requests with other arguments go in the same call."""
        groups: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            groups.setdefault(json.dumps(request.args[1], sort_keys=True), []).append(number)
        items: list[Item | None] = [None] * len(requests)
        for arguments, numbers in groups.items():
            made = self._items("generate", [requests[number] for number in numbers], json.loads(arguments))
            for number, item in zip(numbers, made, strict=True):
                items[number] = item
        complete = [item for item in items if item is not None]
        assert len(complete) == len(requests), (len(complete), len(requests))
        return [answer.text or "" for answer in self._answer(_count_repeats(complete), disable_tqdm)]

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """The same for ids: ((context, continuation), context ids, continuation ids)."""
        items = []
        for number, (texts, context, continuation) in enumerate(requests):
            ids = (tuple(context), tuple(continuation))
            items.append(Item(_TASK, number, "", 0, hash_ids([ids]), (ScoreRequest(*texts, *ids),)))
        return [_pair(answer) for answer in self._answer(items, disable_tqdm=True)]

    def _items(self, kind: Any, requests: Sequence[Instance], arguments: dict[str, Any]) -> list[Item]:
        tokenizer, generation = self._tokenizer, None
        prompts = [Prompt(number, number, kind, (tuple(request.args),)) for number, request in enumerate(requests)]
        docs = [{"prompt": str(request.args[0])} for request in requests]
        if kind == "generate":
            decoding = decoding_of(_TASK, arguments, tokenizer.eos_text, None, self._seed)
            generation = Generation(decoding, tokenizer.stop_ids)
        return list(encode_items(_TASK, prompts, docs, tokenizer, self._max_model_len, generation).items)

    def _answer(self, items: list[Item], disable_tqdm: bool) -> list[ItemAnswer]:
        """Answers in the order of the items, each exactly once."""
        places = {id(item): number for number, item in enumerate(items)}
        answers: dict[int, ItemAnswer] = {}
        with tqdm(total=len(items), disable=disable_tqdm, desc="evalcard") as bar:

            def on_answer(item: Item, answer: ItemAnswer) -> None:
                assert places[id(item)] not in answers, ("answered twice", item.item_id)
                answers[places[id(item)]] = answer
                bar.update()

            empty = [item for item in items if not item.requests]
            for item in empty:
                on_answer(item, ItemAnswer("stop", choices=()))
            self._backend.answer([item for item in items if item.requests], on_answer)
        assert len(answers) == len(items), (len(answers), len(items))
        return [answers[number] for number in range(len(items))]


def _spec(pretrained: str, arguments: dict[str, Any]) -> tuple[RunSpec, ModelSpec]:
    model = parse_model(f"{pretrained}:{arguments['scheme']}" if arguments.get("scheme") else pretrained)
    if arguments.get("revision"):
        model = model.model_copy(update={"revision": str(arguments["revision"])})
    if arguments.get("tokenizer"):
        model = model.model_copy(update={"args": {"tokenizer": str(arguments["tokenizer"])}})
    names = {"max_length": "max_model_len"}
    given = {names.get(name, name): arguments[name] for name in _NAMED if arguments.get(name) is not None}
    if str(given.get("device", "")).startswith("cuda:"):
        given["device"] = "cuda"
    return make_spec({"baseline": model, "tasks": [_TASK], **given}, origin="--model_args"), model


def _count_repeats(items: list[Item]) -> list[Item]:
    """The harness asks for repeats by sending one request several times; each gets noise of its own."""
    seen: dict[tuple[str, Any], int] = {}
    counted = []
    for item in items:
        key = (item.prompt_hash, item.requests[0])
        counted.append(replace(item, repeat=seen.get(key, 0)))
        seen[key] = seen.get(key, 0) + 1
    return counted


def _logprobs(answer: ItemAnswer) -> list[float]:
    """NaN where the logits were not finite: the harness then shows it, instead of a plausible number."""
    return [float("nan") if one.logprob is None else one.logprob for one in answer.choices or ()]


def _pair(answer: ItemAnswer) -> tuple[float, bool]:
    assert answer.choices is not None and len(answer.choices) == 1, answer
    return _logprobs(answer)[0], answer.choices[0].is_greedy
