"""The GGUF reader against files written by the `gguf` package, by hand, and damaged at random."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path

import gguf
import gguf_files as g
import pytest
from effort import calls
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.errors import AdvisorError, BadFile
from advisor.models import gguf as reader
from advisor.models.gguf import MAX_KEPT, Cursor, read_gguf
from advisor.models.gguf_model import model_from_gguf
from advisor.models.tensors import BLOCKS, FILE_TYPES, TYPE_NAMES, row_bytes

ARCHITECTURES = catalog([shipped_root()]).gguf_architectures


def test_block_sizes_and_numbers_are_those_of_the_gguf_package() -> None:
    assert {k.name: v for k, v in gguf.GGML_QUANT_SIZES.items()} == BLOCKS
    assert {k.value: k.name for k in gguf.GGMLQuantizationType} == TYPE_NAMES
    named = {f.value: f.name.removeprefix("MOSTLY_").removeprefix("ALL_") for f in gguf.LlamaFileType if f.value < 1024}
    assert named == FILE_TYPES


def test_row_bytes() -> None:
    assert row_bytes("Q4_K", 4096) == 4096 // 256 * 144
    with pytest.raises(ValueError, match="blocks of 32"):
        row_bytes("Q8_0", 33)


def test_reads_what_the_gguf_reader_reads(tmp_path: Path) -> None:
    path = g.tiny(tmp_path / "tiny.gguf", type_of=lambda name, shape: "F32" if len(shape) == 1 else "Q5_0")
    theirs, ours = gguf.GGUFReader(path), read_gguf(path)
    assert [(t.name, tuple(int(n) for n in t.shape), t.tensor_type.name, int(t.n_bytes)) for t in theirs.tensors] == [
        (t.name, t.shape, t.type, t.bytes) for t in ours.tensors
    ]
    assert ours.metadata["general.architecture"] == "llama"
    assert ours.metadata["llama.attention.head_count_kv"] == 2
    assert ours.lengths["tokenizer.ggml.tokens"] == 96
    assert ours.metadata["tokenizer.ggml.tokens"][5] == "token000005"  # type: ignore[index]
    assert (ours.version, ours.truncated, ours.bytes_missing) == (3, False, 0)
    assert ours.file_bytes == path.stat().st_size


def test_large_arrays_are_counted_not_kept(tmp_path: Path) -> None:
    path = g.write(tmp_path / "v.gguf", "llama", {".block_count": 1}, g.ends(64, 32), vocabulary=128_000)
    file = read_gguf(path)
    assert calls(lambda: read_gguf(path)) < 100_000  # one for each of 256,000 strings would be more
    names = ("tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.merges")
    assert [file.lengths[n] for n in names] == [128_000] * 3
    assert not any(n in file.metadata for n in names)
    assert [t.name for t in file.tensors] == ["token_embd.weight", "output_norm.weight", "output.weight"]


def test_version_2_is_read_and_others_are_refused(tmp_path: Path) -> None:
    path = g.tiny(tmp_path / "t.gguf")
    data = bytearray(path.read_bytes())
    for version, says in ((2, None), (1, "version 1"), (4, "version 4"), (0x03000000, "big-endian")):
        data[4:8] = struct.pack("<I", version)
        path.write_bytes(data)
        if says is None:
            assert read_gguf(path).version == 2
        else:
            with pytest.raises(BadFile, match=says):
                read_gguf(path)


def test_missing_tensor_data_is_reported(tmp_path: Path) -> None:
    path = g.tiny(tmp_path / "t.gguf")
    size = path.stat().st_size
    os.truncate(path, size - 1000)
    file = read_gguf(path)
    assert (file.truncated, file.bytes_missing) == (True, 1000)
    assert "1000 bytes are missing" in (model_from_gguf(file, None, ARCHITECTURES).notes or "")


def test_cut_header_says_where(tmp_path: Path) -> None:
    path = g.tiny(tmp_path / "t.gguf", data=False)
    whole = path.read_bytes()
    last = whole.rindex(b"blk.1.ffn_down.weight") + 40
    for cut in (5, 20, 60, 400, 3000, last):
        path.write_bytes(whole[:cut])
        with pytest.raises(BadFile) as e:
            read_gguf(path)
        assert "cut off" in e.value.line()
        assert f"ends at {cut}" in e.value.line()


def split(tmp_path: Path, count: int = 3) -> list[Path]:
    """A file in parts as llama-gguf-split writes them: all keys in the first, tensors spread."""
    tensors = [(f"blk.{i}.attn_norm.weight", (64,)) for i in range(6)]
    out = []
    for no in range(count):
        keys = {"split.no": no, "split.count": count, "split.tensors.count": 6}
        if no == 0:
            keys[".block_count"] = 6
        path = tmp_path / f"m-{no + 1:05d}-of-{count:05d}.gguf"
        out.append(g.write(path, "llama", keys, tensors[no * 2 : no * 2 + 2]))
    return out


def test_split_files_are_joined_from_any_part(tmp_path: Path) -> None:
    parts = split(tmp_path)
    for part in parts:
        file = read_gguf(part)
        assert [t.name for t in file.tensors] == [f"blk.{i}.attn_norm.weight" for i in range(6)]
        assert file.metadata["llama.block_count"] == 6
        assert file.parts == tuple(str(p) for p in parts)
        assert file.file_bytes == sum(p.stat().st_size for p in parts)


def test_missing_and_foreign_parts_are_named(tmp_path: Path) -> None:
    parts = split(tmp_path)
    kept = parts[1].read_bytes()
    parts[1].unlink()
    with pytest.raises(BadFile, match=r"missing next to it: m-00002-of-00003\.gguf"):
        read_gguf(parts[0])
    parts[1].write_bytes(parts[2].read_bytes())
    with pytest.raises(BadFile, match="named part 2"):
        read_gguf(parts[0])
    parts[1].write_bytes(kept)
    alone = tmp_path / "renamed.gguf"
    alone.write_bytes(parts[0].read_bytes())
    with pytest.raises(BadFile, match="split into 3 parts"):
        read_gguf(alone)


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def by_hand(keys: list[bytes], tensors: list[bytes], n_keys: int | None = None, n_tensors: int | None = None) -> bytes:
    counts = struct.pack(
        "<QQ", len(tensors) if n_tensors is None else n_tensors, len(keys) if n_keys is None else n_keys
    )
    return b"GGUF" + struct.pack("<I", 3) + counts + b"".join(keys) + b"".join(tensors)


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


ARRAY, U32, U8, STRING = 9, 4, 0, 8


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cut off"),
        (b"GGML" + b"\0" * 60, "not a GGUF file"),
        (by_hand([], [], n_tensors=2**40), "claims"),
        (by_hand([], [], n_keys=2**63), "claims"),
        (by_hand([string("a") + struct.pack("<I", 99)], []), "unknown value type 99"),
        (by_hand([string("a") + struct.pack("<IIQ", ARRAY, U32, 2**62)], []), "limit"),
        (by_hand([string("a") + struct.pack("<IIQ", ARRAY, STRING, 2**40)], []), "strings"),
        (by_hand([string("a") + struct.pack("<IIQ", ARRAY, STRING, 10**6)], []), "cut off"),
        (by_hand([string("a") + struct.pack("<IIQIQIQ", ARRAY, ARRAY, 1, ARRAY, 1, ARRAY, 1)], []), "nests"),
        (by_hand([struct.pack("<Q", 2**60) + b"a"], []), "limit"),
        (by_hand([string("a") + struct.pack("<II", U32, 1)] * 2, []), "appears twice"),
        (by_hand([string("general.alignment") + struct.pack("<II", U32, 7)], []), "power of two"),
        (by_hand([string("general.alignment") + struct.pack("<II", U32, 0)], []), "power of two"),
        (by_hand([], [tensor("t", (2**31, 2**31), 0, 0)]), "impossible shape"),
        (by_hand([], [tensor("t", (0,), 0, 0)]), "impossible shape"),
        (by_hand([], [tensor("t", (1,) * 5, 0, 0)]), "5 dimensions"),
        (by_hand([], [tensor("t", (100,), 8, 0)]), "does not fill Q8_0 blocks of 32"),
        (by_hand([], [tensor("t", (32,), 5, 0)]), "no longer reads"),
        (by_hand([], [tensor("t", (32,), 77, 0)]), r"unknown type \(77\)"),
        (by_hand([], [tensor("t", (32,), 0, 64)]), "starts at data byte 64, 0 was expected"),
        (by_hand([], [tensor("t", (32,), 0, 0), tensor("t", (32,), 0, 128)]), "appears twice"),
    ],
)
def test_lies_in_the_header_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(BadFile, match=says) as e:
        read_gguf(path)
    assert "\n" not in e.value.message


def test_what_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no such file"):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(BadFile, match="directory"):
        read_gguf(tmp_path)
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(BadFile, match="not a regular file"):
        read_gguf(tmp_path / "pipe.gguf")


def test_header_limit(tmp_path: Path) -> None:
    path = g.write(tmp_path / "v.gguf", "llama", {}, g.ends(64, 32), vocabulary=2000)
    with pytest.raises(BadFile, match="limit of 0 MiB"):
        read_gguf(path, max_header=10_000)
    long = by_hand([string("a") + struct.pack("<I", STRING) + string("x" * (2 * 2**20))], [])
    path.write_bytes(long)
    assert read_gguf(path).lengths == {"a": 2 * 2**20}


def test_strings_across_every_growth_of_the_buffer(tmp_path: Path) -> None:
    texts = ["y" * (i % 300) for i in range(40_000)]  # 6 MB: the buffer grows twice
    array = string("words") + struct.pack("<IIQ", ARRAY, STRING, len(texts)) + b"".join(map(string, texts))
    after = string("after") + struct.pack("<II", U32, 7)
    path = tmp_path / "w.gguf"
    path.write_bytes(by_hand([array, after], []))
    file = read_gguf(path)
    assert (file.lengths["words"], file.metadata["after"]) == (40_000, 7)


def test_nested_and_many_arrays_cost_little(tmp_path: Path) -> None:
    strings = struct.pack("<IQ", STRING, 255) + bytes(8 * 255)
    nested = struct.pack("<IIQ", ARRAY, ARRAY, 4000) + strings * 4000
    path = tmp_path / "n.gguf"
    few = struct.pack("<IIQ", ARRAY, ARRAY, 1000) + strings * 1000
    for keys, says in (
        ([string("a") + few], None),
        ([string(f"k{i}") + nested for i in range(2)], "nests more"),
        ([string(f"k{i}") + struct.pack("<I", ARRAY) + strings for i in range(2500)], None),
    ):
        path.write_bytes(by_hand(keys, []))
        if says:
            with pytest.raises(BadFile, match=says):
                read_gguf(path)
            continue
        file = read_gguf(path)
        assert len(file.lengths) == len(keys)
        assert sum(len(v) for v in file.metadata.values() if isinstance(v, tuple)) <= MAX_KEPT
        assert calls(lambda: read_gguf(path)) < 500_000  # at least 255,000 strings, two calls each: too many


def test_long_names_do_not_make_long_messages(tmp_path: Path) -> None:
    path = tmp_path / "l.gguf"
    long = string("k" * 60_000)
    for data in (by_hand([long + struct.pack("<I", 99)], []), by_hand([long + struct.pack("<II", U32, 1)] * 2, [])):
        path.write_bytes(data)
        with pytest.raises(BadFile) as e:
            read_gguf(path)
        assert len(e.value.message) < 500


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = g.tiny(tmp_path_factory.mktemp("gguf") / "t.gguf", data=False)
    return path.read_bytes()


def damaged(data: bytes, edits: list[tuple[int, bytes]], cut: int | None) -> bytes:
    out = bytearray(data)
    for at, new in edits:
        at %= len(out)
        out[at : at + len(new)] = new
    return bytes(out if cut is None else out[: cut % len(out)])


EDITS = st.lists(
    st.tuples(
        st.integers(0, 2**20),
        st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff" * 8, b"\0" * 8, struct.pack("<Q", 2**31)]),
    ),
    min_size=1,
    max_size=4,
)


def read_or_refuse(data: bytes) -> None:
    """Read bytes as a file and a model: only errors with one clear line may come out, and after little work."""
    problem = ""

    def read() -> None:
        nonlocal problem
        try:
            header = Cursor(Path("fuzz.gguf"), io.BytesIO(data), reader.MAX_HEADER)
            model_from_gguf(reader._read_header(header, len(data)), None, ARCHITECTURES)
        except AdvisorError as e:
            problem = e.message

    assert calls(read) < 50_000
    assert "\n" not in problem
    assert len(problem) < 1000


@settings(max_examples=150)
@given(edits=EDITS, cut=st.none() | st.integers(0, 2**20))
def test_damaged_files(sample: bytes, edits: list[tuple[int, bytes]], cut: int | None) -> None:
    read_or_refuse(damaged(sample, edits, cut))


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_random_bytes_after_the_magic(data: bytes) -> None:
    read_or_refuse(b"GGUF\x03\0\0\0" + data)


@pytest.mark.slow
@settings(max_examples=8_000)
@given(edits=EDITS, cut=st.none() | st.integers(0, 2**20))
def test_damaged_files_at_length(sample: bytes, edits: list[tuple[int, bytes]], cut: int | None) -> None:
    read_or_refuse(damaged(sample, edits, cut))


def test_a_line_end_in_the_architecture_stays_out_of_the_message(sample: bytes) -> None:
    """Found by the test above: the name stood as it was in `... is missing`."""
    at = sample.index(b"llama", 40)
    header = Cursor(Path("x.gguf"), io.BytesIO(damaged(sample, [(at, b"\n")], None)), reader.MAX_HEADER)
    with pytest.raises(BadFile) as e:
        model_from_gguf(reader._read_header(header, len(sample)), None, ARCHITECTURES)
    assert "which no architecture name is" in e.value.message
    assert "\n" not in e.value.message
