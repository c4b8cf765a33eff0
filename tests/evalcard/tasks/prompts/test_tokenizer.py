"""Ids equal to those of the harness's hf model; digests, limits, stop ids; one BOS."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalcard.errors import UserError
from evalcard.tasks.prompts.segments import cut, last_cut
from evalcard.tasks.prompts.tokenizer import Tokenizer, _stop_ids

REAL_MODEL = os.environ.get("EVALCARD_TEST_MODEL")
UNSET = object()
TEXT = st.text(alphabet="ab1 \n\t.:#Aé\u2028<s>/", max_size=60)


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer.load(str(tokenizer_folder))


@pytest.fixture
def changed(tokenizer_folder: Path, tmp_path: Path) -> Callable[..., Tokenizer]:
    """The tiny tokenizer with other files."""

    def make(files: dict[str, dict[str, Any]], drop: tuple[str, ...] = ()) -> Tokenizer:
        folder = shutil.copytree(tokenizer_folder, tmp_path / f"copy{len(list(tmp_path.iterdir()))}")
        for name in drop:
            (folder / name).unlink()
        for name, values in files.items():
            path = folder / name
            old = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps({key: value for key, value in (old | values).items() if value is not UNSET}))
        return Tokenizer.load(str(folder))

    return make


def hf_model(tokenizer: Tokenizer) -> Any:
    """The harness's hf model without a model: only its encoding."""
    from lm_eval.models.huggingface import HFLM

    class Encoder(HFLM):
        def __init__(self) -> None:
            self.tokenizer = tokenizer.inner
            self.add_bos_token = None
            self.enable_thinking = False
            self.backend = "causal"
            self.custom_prefix_token_id = None
            self.encoded: list[Any] = []

        def _loglikelihood_tokens(self, requests: list[Any], **_: Any) -> list[Any]:
            self.encoded = [(tuple(context), tuple(ids)) for _, context, ids in requests]
            return []

    return Encoder()


def hf_pairs(tokenizer: Tokenizer, pairs: list[tuple[str, str]]) -> list[tuple[Any, Any]]:
    from types import SimpleNamespace

    model = hf_model(tokenizer)
    model.loglikelihood([SimpleNamespace(args=pair) for pair in pairs], disable_tqdm=True)
    return model.encoded


PAIRS = [
    ("Question: What is 3?\nAnswer:", " 12"),
    ("Question: What is 3?\nAnswer: ", "12"),
    ("Question: What is 3?\nAnswer:\n\n", "A"),
    ("A. circle\nB. cone\nAnswer:", " A\nB"),
    ("ends in a word\n", "next"),
    ("", "circle"),
    ("", "<s>circle"),
    ("<s>Question: one\nAnswer:", " B"),
]


def test_pairs_equal_the_hf_model(tokenizer: Tokenizer):
    ours = tokenizer.encode_pairs(PAIRS)
    assert [(context, ids) for context, ids, _ in ours] == hf_pairs(tokenizer, PAIRS)
    assert not any(merged for *_, merged in ours)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXT.filter(lambda t: t.strip()), TEXT.filter(bool)), min_size=1, max_size=6))
def test_any_pair_equals_the_hf_model(tokenizer: Tokenizer, pairs: list[tuple[str, str]]):
    for (context, ids, merged), (their_context, their_ids) in zip(
        tokenizer.encode_pairs(pairs), hf_pairs(tokenizer, pairs), strict=True
    ):
        assert context == their_context and (ids == their_ids or (merged and not their_ids and ids))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXT, min_size=1, max_size=8))
def test_any_text_equals_whole_encoding(tokenizer: Tokenizer, texts: list[str]):
    model = hf_model(tokenizer)
    assert tokenizer.encode_many(texts) == [tuple(model.tok_encode(text)) for text in texts]
    assert tokenizer.encode_many(texts, special=False) == [
        tuple(model.tok_encode(text, add_special_tokens=False)) for text in texts
    ]
    assert tokenizer.encoder.may_cut and tokenizer.encoder.is_wide, "the probes found a difference"


def test_pieces_are_encoded_once(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    sent: list[str] = []
    plain = tokenizer.encoder.backend.encode_batch_fast
    spy = type("Spy", (), {"encode_batch_fast": lambda _, batch, **k: sent.extend(batch) or plain(batch, **k)})()
    shots = "One shot\nis here\n\n" * 20
    monkeypatch.setattr(tokenizer.encoder, "backend", spy)
    tokenizer.encode_many([f"{shots}Question {i}" for i in range(50)])
    assert sum(map(len, sent)) < 10 * len(shots)  # whole texts would be 50 times as much


def test_a_token_across_the_border_is_encoded_by_itself(changed: Callable[..., Tokenizer], tokenizer: Tokenizer):
    word = next(t for t in tokenizer.inner.get_vocab() if t.isalpha() and t.isascii() and len(t) >= 4)
    context, continuation = "x " + word[:2], word[2:]
    ids = tokenizer.encode_many([context, context + continuation])
    ((context_ids, answer, merged),) = tokenizer.encode_pairs([(context, continuation)])
    assert len(answer) >= 1 and context_ids == ids[0]
    if len(ids[1]) <= len(ids[0]):
        assert merged and answer == tokenizer.encode_many([continuation], special=False)[0]


class TestOneBos:
    def test_plain_and_rendered_text(self, tokenizer: Tokenizer):
        bos = tokenizer.inner.bos_token_id
        rendered = tokenizer.render_chat([{"role": "user", "content": "hi"}])
        assert rendered.startswith("<s><|user|>")
        for ids in tokenizer.encode_many(["hi", rendered, "<s>hi"]):
            assert ids[0] == bos and ids.count(bos) == 1

    @pytest.mark.parametrize("adds", [True, False])
    def test_what_the_configuration_says_holds(
        self, changed: Callable[..., Tokenizer], tokenizer_folder: Path, adds: bool
    ):
        """Two folders that differ in ``add_bos_token`` only, whichever the tokenizer inside would do by itself."""
        inner = json.loads((tokenizer_folder / "tokenizer.json").read_text())
        files = {} if adds else {"tokenizer.json": inner | {"post_processor": None}}
        yes = changed(files | {"tokenizer_config.json": {"add_bos_token": True}})
        no = changed(files | {"tokenizer_config.json": {"add_bos_token": False}})
        bos, plain = yes.inner.bos_token_id, yes.encode_many(["What is 3"], special=False)[0]
        assert yes.encode_many(["What is 3", "<s>What is 3"]) == [(bos, *plain)] * 2
        assert no.encode_many(["What is 3", "<s>What is 3"]) == [plain, (bos, *plain)]
        assert yes.encode_pairs([("What is", " 3")])[0][0][0] == bos != no.encode_pairs([("What is", " 3")])[0][0][0]
        context, continuation, _ = yes.encode_pairs([("What is", " 3")])[0]
        assert context + continuation == (bos, *plain) and bos not in plain
        assert yes.digest != no.digest
        assert (yes.bos_note is None) is adds and (no.bos_note is None) is not adds

    def test_a_tokenizer_that_adds_none(self, changed: Callable[..., Tokenizer], tokenizer_folder: Path):
        inner = json.loads((tokenizer_folder / "tokenizer.json").read_text())
        without = changed({"tokenizer.json": inner | {"post_processor": None}})
        assert without.inner.bos_token_id not in without.encode_many(["hi"])[0]


class TestChat:
    def test_turns(self, tokenizer: Tokenizer):
        roles = ["user", "assistant", "user"]
        turns = [{"role": role, "content": text} for role, text in zip(roles, "abc", strict=True)]
        text = tokenizer.render_chat(turns)
        assert text == "<s><|user|>a<|end|>\n<|assistant|>b<|end|>\n<|user|>c<|end|>\n<|assistant|>"

    def test_an_answers_beginning_is_left_open(self, tokenizer: Tokenizer):
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "The best is"}]
        assert tokenizer.render_chat(turns, add_generation_prompt=False).endswith("<|assistant|>The best is")

    def test_a_template_that_refuses_system_turns(self, changed: Callable[..., Tokenizer]):
        template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}ok"
        strict = changed({"tokenizer_config.json": {"chat_template": template}}, drop=("chat_template.jinja",))
        turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        assert not strict.dropped_system and strict.render_chat(turns) == "ok" and strict.dropped_system

    def test_a_template_that_refuses_everything(self, changed: Callable[..., Tokenizer]):
        template = "{{ raise_exception('never') }}"
        broken = changed({"tokenizer_config.json": {"chat_template": template}}, drop=("chat_template.jinja",))
        with pytest.raises(UserError, match="never"):
            broken.render_chat([{"role": "user", "content": "u"}])


class TestTemplateVariables:
    DATED = "{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%B %-d, %Y (%A) %Y-%m-%d %H:%M') }}|{{ date_string }}"

    def test_the_date_is_pinned(self, changed: Callable[..., Tokenizer]):
        """A prompt must not depend on the day it is made: its hash would, and two models' prompts would differ."""
        dated = changed({"tokenizer_config.json": {"chat_template": self.DATED}}, drop=("chat_template.jinja",))
        turns = [{"role": "user", "content": "u"}]
        expected = "26 Jul 2024|July 26, 2024 (Friday) 2024-07-26 00:00|26 Jul 2024"
        assert dated.render_chat(turns) == expected and dated.prints_date
        assert dated.render_chat(turns, arguments={"date_string": "1 Jan"}).endswith("|1 Jan")

    @pytest.mark.parametrize("start", ["", "\n", "  ", "\n\n  x"])
    def test_pinning_changes_nothing_else(self, changed: Callable[..., Tokenizer], start: str):
        body = start + "{% if true %}\n  {{ messages[0]['content'] }}\n{% endif %}\n a"
        calls = body + "{% if false %}{{ strftime_now('%d') }}{% endif %}"
        plain, dated = (
            changed({"tokenizer_config.json": {"chat_template": text}}, drop=("chat_template.jinja",))
            for text in (body, calls)
        )
        turns = [{"role": "user", "content": "u"}]
        assert (
            dated.render_chat(turns)
            == plain.render_chat(turns)
            == plain.inner.apply_chat_template(turns, tokenize=False)
        )
        assert dated.prints_date and not plain.prints_date

    def test_unknown_variables_are_refused(self, changed: Callable[..., Tokenizer], tokenizer: Tokenizer):
        template = "{% if enable_thinking %}think{% else %}answer{% endif %}"
        thinking = changed({"tokenizer_config.json": {"chat_template": template}}, drop=("chat_template.jinja",))
        thinking.check_template_args({"enable_thinking": False})
        turns = [{"role": "user", "content": "u"}]
        assert thinking.render_chat(turns, arguments={"enable_thinking": False}) == "answer"
        assert thinking.render_chat(turns, arguments={"enable_thinking": True}) == "think"
        with pytest.raises(UserError, match="has no variable enable_thinkng that could be set"):
            thinking.check_template_args({"enable_thinkng": False})
        for name in ("messages", "tokenize", "add_generation_prompt"):
            with pytest.raises(UserError, match=f"no variable {name} "):
                tokenizer.check_template_args({name: True})


class TestFacts:
    def test_stop_ids_are_a_union(self, tokenizer: Tokenizer, changed: Callable[..., Tokenizer]):
        assert tokenizer.stop_ids == (1, 2) and tokenizer.eos_text == "</s>"
        assert changed({"generation_config.json": {"eos_token_id": 7}}).stop_ids == (1, 7)
        assert changed({}, drop=("generation_config.json",)).stop_ids == (1,)

    def test_length(self, tokenizer: Tokenizer, changed: Callable[..., Tokenizer]):
        assert tokenizer.max_len == 512
        assert changed({"config.json": {"text_config": {"max_position_embeddings": 99}}}).max_len == 99
        assert changed({"config.json": {"max_position_embeddings": UNSET}}).max_len == 2048
        stated = {"config.json": {"max_position_embeddings": UNSET}, "tokenizer_config.json": {"model_max_length": 77}}
        assert changed(stated).max_len == 77

    def test_digests(self, tokenizer: Tokenizer, changed: Callable[..., Tokenizer], tokenizer_folder: Path):
        same = changed({"generation_config.json": {"eos_token_id": 7}, "config.json": {"n_ctx": 5}})
        assert (same.digest, same.template_digest) == (tokenizer.digest, tokenizer.template_digest)
        inner = json.loads((tokenizer_folder / "tokenizer.json").read_text())
        assert changed({"tokenizer.json": inner | {"post_processor": None}}).digest != tokenizer.digest
        template = {"tokenizer_config.json": {"chat_template": "other"}}
        other = changed(template, drop=("chat_template.jinja",))
        assert other.digest == tokenizer.digest and other.template_digest != tokenizer.template_digest

    def test_truncation_in_the_files_is_not_applied(self, changed: Callable[..., Tokenizer], tokenizer_folder: Path):
        inner = json.loads((tokenizer_folder / "tokenizer.json").read_text())
        limit = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
        cut_short = changed({"tokenizer.json": inner | {"truncation": limit}})
        assert len(cut_short.encode_many(["Question: What is 3 plus 6?"])[0]) > 3

    def test_decoding_leaves_special_tokens_out(self, tokenizer: Tokenizer):
        ids = tokenizer.encode_many(["What is 3"])[0]
        assert tokenizer.decode((*ids, 1, 2)) == "What is 3"
        assert "".join(tokenizer.tokens(ids[1:])) == "What is 3"


def test_no_tokenizer(tmp_path: Path):
    with pytest.raises(UserError, match="cannot load a tokenizer from .*tokenizer=DIR"):
        Tokenizer.load(str(tmp_path))


@given(TEXT, st.booleans())
def test_cuts_lose_nothing(text: str, wide: bool):
    pieces = cut(text, wide)
    assert last_cut(text, wide) == len(text) - len(pieces[-1])
    assert "".join(pieces) == text and len(pieces) >= 1
    for piece, after in zip(pieces, pieces[1:], strict=False):
        assert after[0] == "\n" and (
            33 <= ord(piece[-1]) <= 126 if wide else piece[-1].isascii() and piece[-1].isalnum()
        )


def test_a_newline_that_punctuation_takes_for_itself_is_not_cut_off(tmp_path: Path):
    """With GPT-4's pattern ``.\\n`` is one piece of text, and the blanks behind it are another."""
    from tokenizers import Regex, models, pre_tokenizers, trainers
    from tokenizers import Tokenizer as Inner
    from transformers import PreTrainedTokenizerFast

    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    inner = Inner(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    corpus = ["word.\n  \nnext!\n\n  \n (12)\n", "word\n  \nnext"] * 30
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(corpus, trainers.BpeTrainer(special_tokens=["</s>"], initial_alphabet=alphabet))
    PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>").save_pretrained(tmp_path)
    tokenizer = Tokenizer.load(str(tmp_path))
    assert tokenizer.encoder.may_cut and not tokenizer.encoder.is_wide
    texts = [*corpus[:2], "next?\n  \nword", "(\n  \n)\n  \n."]
    assert tokenizer.encode_many(texts) == [tuple(tokenizer.inner.encode(text)) for text in texts]
    pairs = [(text, " word") for text in texts]
    assert [one[:2] for one in tokenizer.encode_pairs(pairs)] == hf_pairs(tokenizer, pairs)


@pytest.mark.parametrize("kind", ["prefix space", "no pieces", "appends eos", "spanning token", "wordlevel"])
def test_tokenizers_that_must_not_be_cut(kind: str, tmp_path: Path):
    from tokenizers import AddedToken, models, pre_tokenizers, processors, trainers
    from tokenizers import Tokenizer as Inner
    from transformers import PreTrainedTokenizerFast

    corpus = ["word\nnext word\n\nlast 12\n"] * 30
    words = models.WordLevel({"[UNK]": 0, "word": 1, "</s>": 2}, "[UNK]")
    inner = Inner(words if kind == "wordlevel" else models.BPE())
    if kind != "no pieces":
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=kind == "prefix space")
    if kind != "wordlevel":
        alphabet = pre_tokenizers.ByteLevel.alphabet() if kind != "no pieces" else []
        inner.train_from_iterator(corpus, trainers.BpeTrainer(special_tokens=["</s>"], initial_alphabet=alphabet))
    if kind == "appends eos":
        eos = inner.token_to_id("</s>")
        inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", eos)])
    if kind == "spanning token":
        inner.add_tokens([AddedToken("word\nnext")])
    PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>").save_pretrained(tmp_path)
    tokenizer = Tokenizer.load(str(tmp_path))
    texts = [*corpus[:2], "last 12\nword\nnext", "word\nnext word"]
    assert tokenizer.encode_many(texts) == [tuple(tokenizer.inner.encode(text)) for text in texts]
    assert not tokenizer.encoder.may_cut


@pytest.mark.skipif(not REAL_MODEL, reason="EVALCARD_TEST_MODEL names no model folder")
def test_a_real_tokenizer(toys: Any):
    from evalcard.tasks.build import build
    from evalcard.tasks.files.select import select
    from evalcard.tasks.prompts.requests import Chat

    tokenizer = Tokenizer.load(str(REAL_MODEL))
    built = build(select([toys.path("toy_mc")]), (toys.data_root,))
    for task in built.tasks:
        task.set_fewshot(None, 1234)
    pairs = [
        pair
        for task in built.tasks
        for prompt in task.prompts(range(len(task.docs)), Chat())
        for pair in prompt.arguments
    ]
    assert [one[:2] for one in tokenizer.encode_pairs(pairs)] == hf_pairs(tokenizer, pairs)
    assert tokenizer.encoder.may_cut and tokenizer.encoder.is_wide


@pytest.mark.parametrize("wrong", ["x", [2, "y"], True, 2.5])
def test_a_stop_token_that_is_no_number_is_refused(wrong: object):
    with pytest.raises(UserError, match="eos_token_id .* must be a token's number"):
        _stop_ids(2, wrong)  # type: ignore[arg-type]


def test_stop_tokens_of_both_places_count():
    assert _stop_ids(2, [5, 2]) == (2, 5) and _stop_ids(None, None) == () and _stop_ids(3, 4) == (3, 4)
