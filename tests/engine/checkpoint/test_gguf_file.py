"""A header is believed only where it agrees with its file; every damage is named before a tensor is read."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evalcard_engine.checkpoint.gguf_file import TYPES, gguf_in, read_gguf
from evalcard_engine.errors import EngineError, UnsupportedModel

gguf = pytest.importorskip("gguf", reason="the format's own library writes the files that are read here")

ROWS = np.arange(64, dtype=np.float32).reshape(2, 32)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(name: str, dims: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def header(fields: list[bytes], entries: list[bytes], data: int = 4096, version: int = 3) -> bytes:
    start = b"GGUF" + struct.pack("<IQQ", version, len(entries), len(fields)) + b"".join(fields + entries)
    return start + bytes(-len(start) % 32) + bytes(data)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def make(content: bytes) -> Path:
        path = tmp_path / "made.gguf"
        path.write_bytes(content)
        return path

    return make


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """By gguf-py: every kind of value, and tensors of three types."""
    path = tmp_path / "good.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("a.u8", 250)
    writer.add_int8("a.i8", -5)
    writer.add_uint16("a.u16", 60000)
    writer.add_int16("a.i16", -600)
    writer.add_uint32("a.u32", 4_000_000_000)
    writer.add_int32("a.i32", -70000)
    writer.add_float32("a.f32", 0.5)
    writer.add_bool("a.bool", True)
    writer.add_string("a.text", "smörgås\n")
    writer.add_array("a.texts", ["", "ab", "▁x"])
    writer.add_array("a.numbers", [3, -4, 5])
    writer.add_uint64("a.u64", 2**60)
    writer.add_int64("a.i64", -(2**60))
    writer.add_float64("a.f64", 0.1)
    writer.add_tensor("one", ROWS)
    writer.add_tensor("two", ROWS.reshape(-1).astype(np.float16))
    q4 = gguf.GGMLQuantizationType.Q4_0
    writer.add_tensor("three", gguf.quantize(ROWS, q4), raw_dtype=q4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_values_and_places_are_those_of_the_library(written: Path) -> None:
    found, expected = read_gguf(written), gguf.GGUFReader(written)
    fields = {key: one.contents() for key, one in expected.fields.items() if not key.startswith("GGUF.")}
    assert dict(found.metadata) == fields and fields["a.texts"] == ["", "ab", "▁x"]
    assert {
        name: (one.type, list(one.shape), one.offset, one.num_bytes) for name, one in found.tensors.items()
    } == {
        one.name: (one.tensor_type.name, one.shape.tolist()[::-1], one.data_offset, one.n_bytes)
        for one in expected.tensors
    }  # fmt: skip
    one = found.tensors["one"]
    assert np.fromfile(written, np.float32, 64, offset=one.offset).reshape(one.shape).tolist() == ROWS.tolist()


def test_block_sizes_are_those_of_the_library() -> None:
    """All but Q8_1, which no file holds and whose size the library still states as it was before 2024."""
    known = {kind.value: (kind.name, *gguf.GGML_QUANT_SIZES[kind]) for kind in gguf.GGMLQuantizationType}
    assert {kind: one for kind, one in known.items() if kind in TYPES and kind != 9} == {
        kind: one for kind, one in TYPES.items() if kind != 9
    }


def test_a_file_cut_off_anywhere_is_refused(written: Path, write: Callable[[bytes], Path]) -> None:
    whole = written.read_bytes()
    end = max(one.offset + one.num_bytes for one in read_gguf(written).tensors.values())
    assert read_gguf(write(whole[:end])).tensors.keys() == {"one", "two", "three"}  # nothing but padding follows
    for size in (*range(0, end, 7), end - 1):
        with pytest.raises(EngineError, match="made.gguf"):
            read_gguf(write(whole[:size]))


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"GGML" + bytes(100), EngineError, "begins with b'GGML', not b'GGUF'"),
        (header([], [], version=1), UnsupportedModel, "version 1; this engine reads versions 2 and 3"),
        (header([], [], version=4), UnsupportedModel, "version 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), UnsupportedModel, "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**62, 0) + bytes(99), EngineError, "damaged.*4611686018427387904"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40) + bytes(99), EngineError, "damaged.*1099511627776 fields"),
        (header([struct.pack("<Q", 2**63) + b"x"], []), EngineError, "a text of 9223372036854775808 bytes"),
        (header([text("k") + struct.pack("<I", 13)], []), EngineError, "k is of the unknown type 13"),
        (header([text("k") + struct.pack("<IIQ", 9, 8, 2**61)], []), EngineError, "2305843009213693952 strings of k"),
        (header([text("k") + struct.pack("<IIQ", 9, 4, 2**61)], []), EngineError, "2305843009213693952 values of k"),
        (header([text("k") + struct.pack("<IIQ", 9, 9, 1)], []), EngineError, "k is an array of the unknown type 9"),
        (header(2 * [text("k") + struct.pack("<IB", 0, 1)], []), EngineError, "key k comes twice"),
        (header([text("general.alignment") + struct.pack("<II", 4, 12)], []), EngineError, "alignment is 12"),
        (header([], 2 * [entry("t", (32,), 0, 0)]), EngineError, "tensor t comes twice"),
        (header([], [entry("t", (), 0, 0)]), EngineError, "t has 0 dimensions; 1 to 4"),
        (header([], [entry("t", (1,) * 5, 0, 0)]), EngineError, "t has 5 dimensions"),
        (header([], [entry("t", (32, 0), 0, 0)]), EngineError, r"shape \[0, 32\], which holds nothing"),
        (header([], [entry("t", (32,), 5, 0)]), UnsupportedModel, r"not known: t \(type 5\)"),
        (header([], [entry("t", (33,), 8, 0)]), EngineError, "t: rows of 33 values.*Q8_0's blocks of 32"),
        (header([], [entry("t", (8,), 0, 33)]), EngineError, "t: bytes"),
        (header([], [entry("t", (2**40,), 0, 0)]), EngineError, "t: bytes 64 to 4398046511168 of 4160"),
        (header([], [entry("t", (8,), 0, 2**63)]), EngineError, "t: bytes"),
        (header([], [entry("t", (64,), 0, 0), entry("u", (8,), 0, 32)]), EngineError, "t and u overlap"),
        (header([], [struct.pack("<Q", 2) + b"\xff\xfe" + struct.pack("<IQIQ", 1, 8, 0, 0)]), EngineError, "not UTF-8"),
        (b"", EngineError, "cannot be read as GGUF"),
    ],
)  # fmt: skip
def test_damage_is_named(write: Callable[[bytes], Path], content: bytes, kind: type[EngineError], message: str) -> None:
    with pytest.raises(kind, match=message):
        read_gguf(write(content))


def test_all_misplaced_tensors_are_named_at_once(write: Callable[[bytes], Path]) -> None:
    entries = [entry("good", (8,), 0, 0), entry("first", (8,), 0, 2**30), entry("second", (8,), 0, 2**31)]
    with pytest.raises(EngineError, match=r"header says \(2\): first: bytes.*; second: bytes"):
        read_gguf(write(header([], entries)))


def test_the_file_of_a_folder(tmp_path: Path) -> None:
    one = tmp_path / "a.gguf"
    one.write_bytes(b"")
    assert gguf_in(one, "m") == one and gguf_in(tmp_path, "m") == one
    (tmp_path / "b.gguf").write_bytes(b"")
    with pytest.raises(EngineError, match=f"2 GGUF files: a.gguf; b.gguf. Give one of them: {one}"):
        gguf_in(tmp_path, "m")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert gguf_in(tmp_path, "m") is None
