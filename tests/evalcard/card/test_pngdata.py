"""The digest inside a figure: written by whoever draws it, read without a library, refused where it cannot be true."""

import dataclasses
import io
import struct
import zlib

import pytest

from evalcard.card.pngdata import KEYWORD, data_digest, digest_of

DIGEST = "0123456789abcdef" * 4


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(*texts: bytes) -> bytes:
    """One grey pixel, with these tEXt chunks."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    body = b"".join(chunk(b"tEXt", text) for text in texts)
    return b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


OURS = f"{KEYWORD}\0{DIGEST}".encode()


def test_the_digest_is_read_whatever_else_is_there():
    assert data_digest(png(b"Software\0gimp", OURS)) == DIGEST
    assert data_digest(png(OURS) + b"more after the end") == DIGEST


def test_pillow_finds_the_same():
    """Its reader is another's; matplotlib writes through it."""
    image = pytest.importorskip("PIL.Image")
    assert image.open(io.BytesIO(png(OURS))).text == {KEYWORD: DIGEST}


@pytest.mark.parametrize(
    "foreign",
    [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", png(), png(b"Software\0x"), png(f"{KEYWORD}\0".encode()),
     png(KEYWORD.encode()),
     png(f"{KEYWORD}\0{DIGEST[:-1]}".encode()), png(f"{KEYWORD}\0{DIGEST.upper()}".encode())],
)  # fmt: skip
def test_other_files_have_none(foreign: bytes):
    assert data_digest(foreign) is None


def test_damage_anywhere_takes_the_digest_away():
    whole = png(OURS)
    for at in range(len(whole)):
        damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        assert data_digest(damaged) is None, at
        assert data_digest(whole[:at]) is None, at


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    label: str
    values: tuple[float | None, ...]


def test_equal_data_have_equal_digests_and_others_do_not():
    first = digest_of("kl", Shown("a", (0.1 + 0.2, None)))
    assert first == digest_of("kl", Shown("a", (0.3, None))) and len(first) == 64
    others = [digest_of("kl", Shown("a", (0.300001, None))), digest_of("kl", Shown("b", (0.3, None))),
              digest_of("flips", Shown("a", (0.3, None))), digest_of("kl", Shown("a", (0.3, 0.0)))]  # fmt: skip
    assert len({first, *others}) == 5


def test_names_in_any_script_can_be_digested():
    assert digest_of("kl", ["常识", "\ud800"]) != digest_of("kl", ["常识", "?"])


def test_a_number_that_is_none_is_an_error_of_ours():
    with pytest.raises(ValueError):
        digest_of("kl", [float("nan")])
