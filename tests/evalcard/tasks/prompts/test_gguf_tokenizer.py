"""A GGUF's tokenizer gives the ids of the tokenizer it was made from, whatever lies beside the file."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalcard.errors import UserError
from evalcard.tasks.prompts.tokenizer import Tokenizer, shared_tokenizer

gguf = pytest.importorskip("gguf", reason="the format's own library writes the files that are read here")

NORMAL, CONTROL = 1, 3
WriteGGUF = Callable[..., Path]


def lines(corpus: list[str]) -> list[str]:
    """1000: whole and cut texts, digits, spaces, special tokens, letters that no merge knows."""
    draw = random.Random(4)
    odd = ["<s>", "</s>", "<|end|>", "  ", "\n", "1234", "smörgås", "猫"]
    words = [word for text in corpus for word in text.split(" ")] + odd
    made = [" ".join(draw.choices(words, k=draw.randint(1, 12))) for _ in range(1000 - len(corpus[:100]))]
    return corpus[:100] + made


@pytest.fixture
def write(tokenizer_folder: Path, tmp_path: Path) -> WriteGGUF:
    """The tiny tokenizer's vocabulary as llama.cpp's converter writes it. ``tokens`` are more of them; None, none."""

    def make(name: str = "tiny.gguf", tokens: tuple[tuple[str, int], ...] | None = (), **changes: Any) -> Path:
        state = json.loads((tokenizer_folder / "tokenizer.json").read_text())
        special = {one["id"] for one in state["added_tokens"]}
        vocab = sorted(state["model"]["vocab"], key=state["model"]["vocab"].__getitem__)
        writer = gguf.GGUFWriter(tmp_path / name, "llama")
        writer.add_context_length(512)
        writer.add_embedding_length(64)
        writer.add_block_count(1)
        writer.add_feed_forward_length(64)
        writer.add_head_count(4)
        writer.add_layer_norm_rms_eps(1e-5)
        fields = {
            "model": "gpt2", "pre": "gpt-2", "tokens": None if tokens is None else vocab + [text for text, _ in tokens],
            "token_type": [CONTROL if number in special else NORMAL for number in range(len(vocab))]
            + [kind for _, kind in tokens or ()],
            "merges": [" ".join(pair) for pair in state["model"]["merges"]], "bos_token_id": 0, "eos_token_id": 1,
            "eot_token_id": 2, "add_bos_token": True,
        } | changes  # fmt: skip
        for key, value in fields.items():
            if value is not None:
                writer.add_key_value(f"tokenizer.ggml.{key}", value, gguf.GGUFValueType.get_type(value))
        template = (tokenizer_folder / "chat_template.jinja").read_text()
        writer.add_chat_template(template)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return tmp_path / name

    return make


def test_ids_of_a_thousand_lines(write: WriteGGUF, tokenizer_folder: Path, corpus: list[str]) -> None:
    ours, original = Tokenizer.load(str(write())), Tokenizer.load(str(tokenizer_folder))
    texts = lines(corpus)
    assert len(texts) == 1000
    for special in (None, True, False):
        assert ours.encode_many(texts, special) == original.encode_many(texts, special)
    pairs = [(text, " " + text[:5]) for text in texts[:200]]
    assert ours.encode_pairs(pairs) == original.encode_pairs(pairs)
    ids = original.encode_many(["a <|end|> b"])[0]
    assert ours.decode(ids) == original.decode(ids)


def test_everything_else_is_that_of_the_folder(write: WriteGGUF, tokenizer_folder: Path) -> None:
    ours, original = Tokenizer.load(str(write())), Tokenizer.load(str(tokenizer_folder))
    for name in ("eos_id", "prefix_id", "eos_text", "stop_ids", "num_positions", "max_len", "template_digest"):
        assert getattr(ours, name) == getattr(original, name), name
    assert ours.name == "tiny" and ours.stop_ids == (1, 2)
    assert len(ours.inner) == len(original.inner) and "<|endoftext|>" not in ours.inner.get_vocab()


def test_what_lies_beside_the_file_does_not_matter(write: WriteGGUF, tokenizer_folder: Path, tmp_path: Path) -> None:
    alone = Tokenizer.load(str(write())).digest
    for file in tokenizer_folder.iterdir():
        shutil.copy(file, tmp_path)
    state = json.loads((tmp_path / "tokenizer.json").read_text())
    state["model"]["merges"] = []
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    assert Tokenizer.load(str(tmp_path / "tiny.gguf")).digest == alone
    assert shared_tokenizer(str(tmp_path)).digest == alone  # a folder whose weights are the file


@pytest.mark.parametrize(("stated", "begins"), [(True, True), (False, False), (None, False)])
def test_bos_is_put_as_the_file_says(write: WriteGGUF, stated: bool | None, begins: bool) -> None:
    tokenizer = Tokenizer.load(str(write(add_bos_token=stated)))
    assert (tokenizer.encode_many(["circle"], True)[0][0] == 0) is begins


def test_llama_3_takes_known_words_whole_and_begins_with_bos(write: WriteGGUF) -> None:
    """No merge leads to this token, so that only a tokenizer that looks words up first finds it."""
    new = (("xqzkv", NORMAL),)
    by_merges = Tokenizer.load(str(write(tokens=new, add_bos_token=None)))
    whole = Tokenizer.load(str(write("l3.gguf", tokens=new, add_bos_token=None, pre="llama-bpe")))
    number = len(whole.inner) - 1
    assert whole.encode_many(["xqzkv"], True) == [(0, number)]
    assert number not in by_merges.encode_many(["xqzkv"])[0]
    never = Tokenizer.load(str(write("l3b.gguf", tokens=new, add_bos_token=False, pre="llama-bpe")))
    assert never.encode_many(["xqzkv"], True) == [(number,)]


def test_a_tokenizer_that_comes_out_otherwise_is_refused(write: WriteGGUF) -> None:
    """transformers passes over control tokens that are not spelled in bytes, so that text would be cut inside them."""
    odd = (("<｜end▁of▁sentence｜>", CONTROL),)
    file = write(tokens=odd)
    stated = len(gguf.GGUFReader(file).fields["tokenizer.ggml.tokens"].data) - 1
    with pytest.raises(UserError, match=r"other ids for 1 control tokens \(<｜end▁of▁sentence｜>\).*tokenizer=DIR"):
        Tokenizer.load(str(file))
    with pytest.raises(UserError, match=f"EOS None, not {stated}"):
        Tokenizer.load(str(write("eos.gguf", tokens=odd, eos_token_id=stated)))


def test_files_that_cannot_be_read(write: WriteGGUF, tmp_path: Path) -> None:
    whole = write().read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[:5000])
    with pytest.raises(UserError, match="cut.gguf: it is cut off or damaged"):
        Tokenizer.load(str(cut))
    with pytest.raises(UserError, match="none.gguf carries no tokenizer.*tokenizer=DIR"):
        Tokenizer.load(str(write("none.gguf", tokens=None)))
    (tmp_path / "none.gguf").unlink()
    with pytest.raises(UserError, match="2 GGUF files: cut.gguf; tiny.gguf"):
        Tokenizer.load(str(tmp_path))
    with pytest.raises(UserError, match=r"cannot load the tokenizer of .*'bert'.*tokenizer=DIR"):
        Tokenizer.load(str(write("bert.gguf", model="bert")))


def test_a_missing_library_is_named(write: WriteGGUF, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoTokenizer

    def missing(*_: Any, **__: Any) -> None:
        raise ImportError("gguf")

    file = write()
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", missing)
    with pytest.raises(UserError, match=r"pip install gguf.*tokenizer=DIR"):
        Tokenizer.load(str(file))


def test_the_real_file_gives_the_ids_of_its_converted_folder(corpus: list[str]) -> None:
    file, folder = os.environ.get("EVALCARD_TEST_GGUF"), os.environ.get("EVALCARD_TEST_MODEL")
    if not file or not folder:
        pytest.skip("EVALCARD_TEST_GGUF and EVALCARD_TEST_MODEL name no file and its converted folder")
    ours, original = Tokenizer.load(file), Tokenizer.load(folder)
    assert ours.encode_many(lines(corpus)) == original.encode_many(lines(corpus))
    assert (ours.digest, ours.template_digest) == (original.digest, original.template_digest)
