"""The safetensors reader against files written by hand from the format description, and damaged at random."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from effort import calls, peak_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import catalog
from advisor.errors import AdvisorError, BadFile
from advisor.models.hf_config import read_model_dir
from advisor.models.safetensors import read_safetensors

Spec = dict[str, tuple[str, list[int], int]]  # name -> dtype, shape, bytes


def header(tensors: Spec, **meta: str) -> bytes:
    at, out = 0, {}
    if meta:
        out["__metadata__"] = meta
    for name, (dtype, shape, size) in tensors.items():
        out[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return json.dumps(out).encode()


def file(path: Path, head: bytes, data: int) -> Path:
    path.write_bytes(len(head).to_bytes(8, "little") + head)
    os.truncate(path, 8 + len(head) + data)
    return path


def write(path: Path, tensors: Spec, **meta: str) -> Path:
    return file(path, header(tensors, **meta), sum(t[2] for t in tensors.values()))


SMALL: Spec = {"a": ("BF16", [2, 3], 12), "b": ("F8_E4M3", [8], 8), "c": ("F4", [4, 4], 8), "scalar": ("F32", [], 4)}


def test_reads_names_shapes_and_sizes(tmp_path: Path) -> None:
    tensors = read_safetensors(write(tmp_path / "m.safetensors", SMALL, format="pt", dtype="x"))
    assert {t.name: (t.type, list(t.shape), t.bytes) for t in tensors} == SMALL
    assert sum(t.elements for t in tensors) == 6 + 8 + 16 + 1


def test_index_and_missing_shards(tmp_path: Path) -> None:
    write(tmp_path / "x-1.safetensors", {"a": ("F16", [4], 8)})
    write(tmp_path / "x-2.safetensors", {"b": ("F16", [4], 8)})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}}))
    assert [t.name for t in read_safetensors(tmp_path)] == ["a", "b"]
    assert read_safetensors(index) == read_safetensors(tmp_path)
    (tmp_path / "x-2.safetensors").unlink()
    with pytest.raises(BadFile, match=r"1 of 2 files are missing: x-2\.safetensors"):
        read_safetensors(tmp_path)
    write(tmp_path / "x-2.safetensors", {"other": ("F16", [4], 8)})
    with pytest.raises(BadFile, match="no file holds, first 'b'"):
        read_safetensors(tmp_path)


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""])
def test_index_stays_in_its_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(BadFile, match="outside its own directory"):
        read_safetensors(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"weight_map": [1]}', '{"weight_map": {"a": 1}}', "{"])
def test_bad_index(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(BadFile):
        read_safetensors(tmp_path)


def test_which_files_of_a_directory(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="holds no safetensors"):
        read_safetensors(tmp_path)
    write(tmp_path / "x.safetensors", SMALL)
    assert len(read_safetensors(tmp_path)) == 4
    write(tmp_path / "y.safetensors", SMALL)
    with pytest.raises(BadFile, match="what belongs together is unknown"):
        read_safetensors(tmp_path)


def entry(dtype: Any, shape: Any, offsets: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("tensors", "data", "says"),
    [
        ({"a": entry("F32", [2], [0, 8])}, 7, "cut off: 1 of 8"),
        ({"a": entry("F32", [2], [0, 8])}, 9, "1 bytes after the last tensor"),
        ({"a": entry("F32", [2], [0, 4])}, 4, "4 bytes do not hold"),
        ({"a": entry("F32", [2], [4, 12])}, 12, "0 was expected"),
        ({"a": entry("F32", [2], [0, 8]), "b": entry("F32", [2], [4, 12])}, 12, "8 was expected"),
        ({"a": entry("F32", [2], [0, 8]), "b": entry("F32", [2], [12, 20])}, 20, "8 was expected"),
        ({"a": entry("F99", [2], [0, 8])}, 8, "unknown dtype 'F99'"),
        ({"a": entry("F32", [-2], [0, 8])}, 8, "impossible shape"),
        ({"a": entry("F32", [2**40, 2**40], [0, 8])}, 8, "impossible shape"),
        ({"a": entry("F32", ["2"], [0, 8])}, 8, "not valid"),
        ({"a": entry("F32", [2], [8])}, 8, "not valid"),
        ({"a": 3}, 8, "not valid"),
        ([], 0, "not a JSON object"),
    ],
)
def test_inconsistent_headers(tmp_path: Path, tensors: Any, data: int, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        read_safetensors(file(tmp_path / "m.safetensors", json.dumps(tensors).encode(), data))


def test_not_a_safetensors_file(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    for data, says in (
        (b"", "plausible header"),
        (b"\xff" * 32, "plausible header"),
        ((1000).to_bytes(8, "little") + b"{}", "cut off"),
        ((200_000).to_bytes(8, "little") + b'{"a":' + b"[" * 199_995, "nested too deeply|not valid"),
    ):
        path.write_bytes(data)
        with pytest.raises(BadFile, match=says):
            read_safetensors(path)
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(BadFile, match="regular"):
        read_safetensors(tmp_path / "pipe.safetensors")


def refused_with(path: Path, says: str) -> int:
    """The most memory that was held until a file was refused, bytes: what is decoded takes several times its text."""

    def read() -> None:
        with pytest.raises(BadFile, match=says):
            read_safetensors(path)

    return peak_bytes(read)


def test_a_long_description_is_not_decoded(tmp_path: Path) -> None:
    head = json.dumps({"a": entry("F32", [1] * 3_000_000, [0, 4])}).encode()
    assert refused_with(file(tmp_path / "m.safetensors", head, 4), "description of more than 4096 bytes") < 2 * len(
        head
    )


def test_a_header_of_many_entries_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    head = b"{" + b",".join(b'"%d":{}' % i for i in range(1_100_000)) + b"}"
    assert refused_with(file(tmp_path / "m.safetensors", head, 0), "more than 200000 tensors") < 2 * len(head)


CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 10,
    "tie_word_embeddings": False,
}  # fmt: skip


def test_model_directory(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    bare = read_model_dir(tmp_path, catalog().config_classes)
    assert (bare.params_total, bare.params_stored) == (2 * 80 + 8 + 4 * 64 + 3 * 128 + 16, None)
    text: Spec = {"model.all": ("BF16", [bare.params_total], 2 * bare.params_total)}
    write(tmp_path / "model.safetensors", {**text, "visual.proj": ("BF16", [50], 100)})
    model = read_model_dir(tmp_path, catalog().config_classes)
    assert model.params_stored == bare.params_total + 50
    assert model.published["safetensors"].bytes == 2 * model.params_stored
    assert model.vision is not None
    assert model.vision.params == 50
    assert model.params_total == bare.params_total + 50


def test_packed_weights_are_not_counted_as_parameters(tmp_path: Path) -> None:
    config = {**CONFIG, "quantization_config": {"quant_method": "awq", "bits": 4}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    write(tmp_path / "model.safetensors", {"model.layers.0.mlp.up_proj.qweight": ("I32", [8, 2], 64)})
    model = read_model_dir(tmp_path, catalog().config_classes)
    assert (model.params_stored, model.native_quant) == (None, "awq int4")
    assert model.published["safetensors"].bytes == 64


SAMPLE = len(header(SMALL, format="pt")).to_bytes(8, "little") + header(SMALL, format="pt") + b"\0" * 32


def read_or_refuse(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    problem = ""

    def read() -> None:
        nonlocal problem
        try:
            for tensor in read_safetensors(path):
                assert tensor.bytes >= 0
        except AdvisorError as e:
            problem = e.message

    assert calls(read) < 5000
    assert "\n" not in problem
    assert len(problem) < 1000


EDITS = st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.binary(min_size=1, max_size=6)), min_size=1, max_size=4)


def damaged(edits: list[tuple[int, bytes]], cut: int | None) -> bytes:
    out = bytearray(SAMPLE)
    for at, new in edits:
        out[at : at + len(new)] = new
    return bytes(out if cut is None else out[:cut])


@settings(max_examples=120)
@given(edits=EDITS, cut=st.none() | st.integers(0, len(SAMPLE)))
def test_damaged_files(tmp_path: Path, edits: list[tuple[int, bytes]], cut: int | None) -> None:
    read_or_refuse(tmp_path / "m.safetensors", damaged(edits, cut))


@pytest.mark.slow
@settings(max_examples=8_000)
@given(edits=EDITS, cut=st.none() | st.integers(0, len(SAMPLE)))
def test_damaged_files_at_length(tmp_path: Path, edits: list[tuple[int, bytes]], cut: int | None) -> None:
    read_or_refuse(tmp_path / "m.safetensors", damaged(edits, cut))


@settings(max_examples=200)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda s: s != "__metadata__"),
        st.tuples(st.sampled_from(["F32", "I32"]), st.lists(st.integers(0, 5), max_size=3)),
        max_size=6,
    )
)
def test_round_trip(tmp_path: Path, shapes: dict[str, tuple[str, list[int]]]) -> None:
    spec: Spec = {}
    for name, (dtype, shape) in shapes.items():
        size = 4
        for n in shape:
            size *= n
        spec[name] = (dtype, shape, size)
    tensors = read_safetensors(write(tmp_path / "m.safetensors", spec))
    assert {t.name: (t.type, list(t.shape), t.bytes) for t in tensors} == spec
