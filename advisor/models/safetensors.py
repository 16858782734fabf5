"""safetensors files: the JSON header only, read with bounds. Tensor data is never read.

Format: u64 header length, JSON object of name -> dtype, shape, data_offsets, then the data without holes.
Source: the safetensors format description and the checks of its reader (0.6).
"""

from __future__ import annotations

from math import prod
from pathlib import Path

import msgspec

from advisor.decoding import decode_json
from advisor.errors import BadFile
from advisor.files import parse_json, read_bytes
from advisor.models.headers import open_header
from advisor.models.tensors import TensorInfo
from advisor.units import MIB

MAX_HEADER = 100_000_000
MAX_INDEX = 64 * MIB
MAX_TENSORS = 200_000
MAX_SHARDS = 4096
MAX_ELEMENTS = 2**60
MAX_ENTRY = 4096  # bytes of JSON that describe one tensor
INDEX_NAME = "model.safetensors.index.json"

BITS: dict[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip


class _TensorEntry(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class _ShardIndex(msgspec.Struct):
    weight_map: dict[str, str]


def read_safetensors(path: Path | str) -> tuple[TensorInfo, ...]:
    """Tensors of one safetensors file, of an index and its shards, or of a model directory; in order of the data.

    Raises BadFile: not such a file, inconsistent, cut off, or a shard is missing (it is named).
    """
    path = Path(path)
    if path.is_dir():
        index, single = path / INDEX_NAME, path / "model.safetensors"
        if index.exists():
            return _read_index(index)
        if single.exists():
            return _read_file(single)
        try:
            files = sorted(p.name for p in path.iterdir() if p.name.endswith(".safetensors"))
        except OSError as e:
            raise BadFile(path, f"cannot be listed: {e.strerror or e}") from None
        if len(files) == 1:
            return _read_file(path / files[0])
        expected = f"{INDEX_NAME} or model.safetensors"
        if not files:
            raise BadFile(path, f"holds no safetensors files ({expected} is expected)")
        raise BadFile(
            path, f"holds {len(files)} safetensors files but neither {expected}, so what belongs together is unknown"
        )
    if path.name.endswith(".json"):
        return _read_index(path)
    return _read_file(path)


def _read_index(index: Path) -> tuple[TensorInfo, ...]:
    data = read_bytes(index, MAX_INDEX)
    try:
        weights = decode_json(data, _ShardIndex).weight_map
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        parse_json(data, index)  # says where the JSON is wrong, if it is
        raise BadFile(index, "has no `weight_map` of tensor names to file names") from None
    shards = sorted(set(weights.values()))
    if len(shards) > MAX_SHARDS or len(weights) > MAX_TENSORS:
        raise BadFile(index, f"names {len(shards)} files and {len(weights)} tensors, more than any model has")
    bad = [s for s in shards if not s or s in {".", ".."} or "/" in s or "\\" in s or "\0" in s]
    if bad:
        raise BadFile(index, f"names a file outside its own directory: {bad[0][:80]!r}")
    missing = [s for s in shards if not (index.parent / s).exists()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise BadFile(index, f"{len(missing)} of {len(shards)} files are missing: {', '.join(missing[:3])}{more}")
    tensors = [t for s in shards for t in _read_file(index.parent / s)]
    held = {t.name for t in tensors}
    absent = [name for name in weights if name not in held]
    if absent:
        raise BadFile(index, f"names {len(absent)} tensors that no file holds, first {absent[0][:80]!r}")
    if len(held) != len(tensors):
        raise BadFile(index, "its files hold the same tensor more than once")
    return tuple(tensors)


def _read_file(path: Path) -> tuple[TensorInfo, ...]:
    with open_header(path) as (stream, size):
        head = stream.read(8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > MAX_HEADER:
            raise BadFile(path, "is not a safetensors file (no plausible header length in its first 8 bytes)")
        if 8 + length > size:
            raise BadFile(path, f"is cut off: the header needs {length} bytes at byte 8, the file has {size} bytes")
        data = stream.read(length)
    return _tensors(path, data, size - 8 - len(data))


def _tensors(path: Path, header: bytes, data_bytes: int) -> tuple[TensorInfo, ...]:
    """The described tensors, checked against each other and the bytes that follow the header."""
    # Four colons a tensor; the rest is free metadata. Checked first: decoding makes an object per entry.
    if header.count(b":") > 5 * MAX_TENSORS:
        raise BadFile(path, f"describes more than {MAX_TENSORS} tensors")
    if not header.startswith(b"{"):
        raise BadFile(path, "is not a safetensors file (its header is not a JSON object)")
    name = ""
    try:
        raw = decode_json(header, dict[str, msgspec.Raw])
        raw.pop("__metadata__", None)
        entries: list[tuple[int, str, _TensorEntry]] = []
        for name, value in raw.items():
            if memoryview(value).nbytes > MAX_ENTRY:
                raise BadFile(path, f"tensor {name[:80]!r} has a description of more than {MAX_ENTRY} bytes")
            entry = decode_json(value, _TensorEntry)
            entries.append((entry.data_offsets[0], name, entry))
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        at = f" (tensor {name[:80]!r})" if name else ""
        raise BadFile(path, f"its header is not valid{at}: {str(e)[:200]}") from None
    except RecursionError:
        raise BadFile(path, "its header is nested too deeply to be a real file") from None
    entries.sort(key=lambda e: (e[0], e[2].data_offsets[1], e[1]))
    tensors: list[TensorInfo] = []
    end = 0
    for _, name, entry in entries:
        tensors.append(_tensor(path, name, entry, end))
        end = entry.data_offsets[1]
    if end > data_bytes:
        raise BadFile(path, f"is cut off: {end - data_bytes} of {end} bytes of tensor data are missing")
    if end < data_bytes:
        raise BadFile(path, f"holds {data_bytes - end} bytes after the last tensor that the header does not describe")
    return tuple(tensors)


def _tensor(path: Path, name: str, entry: _TensorEntry, start: int) -> TensorInfo:
    what = f"tensor {name[:80]!r}"
    bits = BITS.get(entry.dtype)
    if bits is None:
        raise BadFile(path, f"{what} has the unknown dtype {entry.dtype[:40]!r}")
    if (
        len(entry.shape) > 64
        or any(d < 0 or d >= MAX_ELEMENTS for d in entry.shape)
        or prod(entry.shape) >= MAX_ELEMENTS
    ):
        raise BadFile(path, f"{what} has the impossible shape {str(entry.shape)[:80]}")
    begin, end = entry.data_offsets
    if begin != start or end < begin:
        raise BadFile(path, f"{what} lies at bytes {begin} to {end}, {start} was expected (hole or overlap)")
    if prod(entry.shape) * bits != (end - begin) * 8:
        raise BadFile(
            path, f"{what}: {end - begin} bytes do not hold the shape {str(entry.shape)[:80]} of {entry.dtype}"
        )
    return TensorInfo(name=name, shape=tuple(entry.shape), type=entry.dtype, bytes=end - begin)
