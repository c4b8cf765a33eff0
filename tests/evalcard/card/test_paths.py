"""Nothing of the measuring machine's folders or addresses reaches a card."""

import pytest

from evalcard.card.paths import portable_command, without_paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch 2.13, /usr/lib/cuda/libx.so loaded", "torch 2.13, libx.so loaded"),
        ("'/a b'/c/d/e", "'/a b'e"),
        ("C:\\Users\\me\\model ok", "model ok"),
        ("~/models/toy", "toy"),
        ("5 tokens/s, n/a, 1/2", "5 tokens/s, n/a, 1/2"),
        ("acme/toy-1b at https://huggingface.co/acme/toy-1b", "acme/toy-1b at https://huggingface.co/acme/toy-1b"),
    ],
)
def test_without_paths(text: str, expected: str):
    assert without_paths(text) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("/opt/models/toy-1b", "toy-1b"),
        ("/opt/models/toy-1b/", "toy-1b"),
        ("../models/toy-1b:w8a8", "toy-1b:w8a8"),
        ("models/toy-1b", "toy-1b"),
        ("acme/toy-1b", "acme/toy-1b"),
        ("acme/toy-1b:w8a8", "acme/toy-1b:w8a8"),
        ("acme/toy-1b@abc:w8a8", "acme/toy-1b@abc:w8a8"),
        ("--baseline=/opt/models/toy-1b", "--baseline=toy-1b"),
        ("pretrained=/opt/x/y,dtype=float16", "pretrained=y,dtype=float16"),
        ("lm_eval/mmlu", "lm_eval/mmlu"),
        ("gsm8k,./mine.yaml,lm_eval/arc_easy", "gsm8k,mine.yaml,lm_eval/arc_easy"),
        ("/data/in/invoices.jsonl:contains", "invoices.jsonl:contains"),
        ("/data/in/dates.csv:regex=(\\d+/\\d+/x)", "'dates.csv:regex=(\\d+/\\d+/x)'"),
        ("http://10.2.42.198:1234/v1", "URL"),
        ("base_url=http://10.2.42.198:1234/v1", "base_url=URL"),
        ("C:\\models\\toy", "toy"),
        ("~", "FOLDER"),
        ("/", "FOLDER"),
        ("two words", "'two words'"),
    ],
)
def test_words_of_a_command(word: str, expected: str):
    assert portable_command(["evalcard", word], {"acme/toy-1b"}).split(" ", 1)[1].removeprefix("\\\n    ") == expected


def test_options_stand_on_lines_of_their_own():
    command = ["/opt/bin/evalcard", "run", "spec.yaml", "--tasks", "a,b", "--fresh"]
    assert portable_command(command, set()) == "evalcard run spec.yaml \\\n    --tasks a,b \\\n    --fresh"


def test_no_command():
    assert portable_command([], set()) == ""
