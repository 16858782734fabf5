"""GGUF files: header, metadata and tensor table, read with bounds. Tensor data is never read.

Layout (versions 2 and 3, little endian): magic, version u32, tensor count u64, key count u64, the keys and values, the
tensor descriptions, padding, tensor data. Source: ggml's GGUF description and its reader.
"""

from __future__ import annotations

import re
import struct
from itertools import repeat
from math import prod
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from advisor.errors import BadFile
from advisor.models.headers import open_header
from advisor.models.tensors import BLOCKS, REMOVED_TYPES, TYPE_NAMES, TensorInfo
from advisor.record import Record
from advisor.units import MIB

Scalar = int | float | bool | str
Value = Scalar | tuple[Scalar, ...]
MAX_HEADER = 64 * MIB
MAX_KEYS = 100_000
MAX_TENSORS = 200_000
MAX_PARTS = 4096
MAX_ELEMENTS = 2**60
MAX_NAME = 65_535
MAX_STRING = MIB  # longest string that is kept
MAX_STRINGS = 4 * 2**20  # entries of a string array
MAX_INNER_ARRAYS = 4096  # arrays inside arrays, per file
KEPT_NUMBERS = 1024  # longest array of numbers that is kept
KEPT_STRINGS = 256
MAX_KEPT = 65_536  # array entries that are kept per file; further arrays are only counted
_PART = re.compile(r"(?P<stem>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


class GgufFile(Record, frozen=True, kw_only=True):
    """What the header of a GGUF file (or of all parts of a split one) says."""

    version: int
    metadata: dict[str, Value]  # scalars and short arrays
    lengths: dict[str, int]  # entries of every array, kept or not; characters of strings too long to keep
    tensors: tuple[TensorInfo, ...]
    parts: tuple[str, ...]  # the files that were read
    file_bytes: int
    tensor_bytes: int
    truncated: bool = False  # tensor data is described that the files do not hold
    bytes_missing: int = 0


def _read_metadata(cursor: Cursor, count: int) -> tuple[dict[str, Value], dict[str, int]]:
    metadata: dict[str, Value] = {}
    lengths: dict[str, int] = {}
    seen: set[str] = set()
    for i in range(count):
        key = cursor.name(f"the name of key {i}")
        shown = key[:80]
        if key in seen:
            raise BadFile(cursor.path, f"key {shown!r} appears twice")
        seen.add(key)
        kind = cursor.u32(f"the type of {shown!r}")
        value: Value | None
        if kind == ARRAY:
            value, lengths[key] = array(cursor, shown, 1)
        else:
            start = cursor.pos
            value = scalar(cursor, kind, shown)
            if value is None:
                lengths[key] = cursor.pos - start - 8
        if value is not None:
            metadata[key] = value
    return metadata, lengths


def _read_tensor(cursor: Cursor, i: int, expected: int, align: int) -> TensorInfo:
    """One tensor description; its data must start at `expected`, as the engine demands."""
    name = cursor.name(f"the name of tensor {i}")
    what = f"tensor {name[:80]!r}"
    dims = cursor.u32(what)
    if dims > 4:
        raise BadFile(cursor.path, f"{what} has {dims} dimensions, at most 4 are allowed")
    cursor.need(8 * dims + 12, what)
    shape: tuple[int, ...] = struct.unpack_from(f"<{dims}Q", cursor.data, cursor.pos)
    cursor.pos += 8 * dims
    number, offset = cursor.u32(what), cursor.u64(what)
    kind = TYPE_NAMES.get(number)
    if kind is None:
        word = "a type that llama.cpp no longer reads" if number in REMOVED_TYPES else "an unknown type"
        raise BadFile(cursor.path, f"{what} has {word} ({number})")
    if 0 in shape or prod(shape) >= MAX_ELEMENTS:
        raise BadFile(cursor.path, f"{what} has the impossible shape {list(shape)}")
    per_block, size = BLOCKS[kind]
    if (shape[0] if shape else 1) % per_block:
        raise BadFile(
            cursor.path, f"{what}: a row of {shape[0] if shape else 1} does not fill {kind} blocks of {per_block}"
        )
    if offset != expected:
        raise BadFile(cursor.path, f"{what} starts at data byte {offset}, {expected} was expected (alignment {align})")
    return TensorInfo(name=name, shape=shape, type=kind, bytes=prod(shape) // per_block * size)


def _alignment(cursor: Cursor, metadata: dict[str, Value]) -> int:
    align = metadata.get("general.alignment", 32)
    if isinstance(align, bool) or not isinstance(align, int) or not 0 < align <= MIB or align & (align - 1):
        raise BadFile(cursor.path, f"general.alignment must be a power of two up to {MIB}, is {str(align)[:40]!r}")
    return align


def _read_one(path: Path, limit: int) -> GgufFile:
    with open_header(path, "is a directory, a .gguf file is expected") as (stream, size):
        return _read_header(Cursor(path, stream, limit), size)


def read_header(path: Path, stream: BinaryIO, file_bytes: int, limit: int = MAX_HEADER) -> int:
    """Bytes of the header and tensor table at the start of `stream`, which is read no further. Raises BadFile."""
    cursor = Cursor(path, stream, limit)
    _read_header(cursor, file_bytes)
    return cursor.pos


def _read_header(cursor: Cursor, file_bytes: int) -> GgufFile:
    cursor.need(4, "the magic number")
    if cursor.data[:4] != b"GGUF":
        raise BadFile(cursor.path, f"is not a GGUF file (it starts with {cursor.data[:4]!r}, not b'GGUF')")
    cursor.pos = 4
    version = cursor.u32("the version")
    if version & 0xFFFF == 0 and version:
        raise BadFile(cursor.path, "is a big-endian GGUF file; only little-endian files can be read")
    if version not in (2, 3):
        raise BadFile(cursor.path, f"is GGUF version {version}; versions 2 and 3 can be read")
    n_tensors, n_keys = cursor.u64("the tensor count"), cursor.u64("the key count")
    if n_tensors > MAX_TENSORS or n_keys > MAX_KEYS:
        raise BadFile(
            cursor.path,
            f"claims {n_tensors} tensors and {n_keys} keys; at most {MAX_TENSORS} and {MAX_KEYS} are allowed",
        )
    metadata, lengths = _read_metadata(cursor, n_keys)
    align = _alignment(cursor, metadata)
    tensors: list[TensorInfo] = []
    names: set[str] = set()
    data_end = padded = 0
    for i in range(n_tensors):
        tensor_info = _read_tensor(cursor, i, padded, align)
        if tensor_info.name in names:
            raise BadFile(cursor.path, f"tensor {tensor_info.name[:80]!r} appears twice")
        names.add(tensor_info.name)
        tensors.append(tensor_info)
        data_end = padded + tensor_info.bytes
        padded = -(-data_end // align) * align
    data_start = -(-cursor.pos // align) * align
    missing = max(0, data_start + data_end - file_bytes) if tensors else 0
    return GgufFile(
        version=version,
        metadata=metadata,
        lengths=lengths,
        tensors=tuple(tensors),
        parts=(str(cursor.path),),
        file_bytes=file_bytes,
        tensor_bytes=sum(t.bytes for t in tensors),
        truncated=missing > 0,
        bytes_missing=missing,
    )


def part_paths(path: Path) -> list[Path]:
    """All parts of a split file by its name, or just the file. Raises BadFile naming the missing ones."""
    m = _PART.fullmatch(path.name)
    if not m:
        return [path]
    no, count = int(m["no"]), int(m["count"])
    if not 1 <= no <= count or count > MAX_PARTS:
        raise BadFile(path, f"the name says part {no} of {count}, which cannot be")
    parts = [path.with_name(f"{m['stem']}-{i:05d}-of-{count:05d}{path.suffix}") for i in range(1, count + 1)]
    missing = [p.name for p in parts if not p.exists()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise BadFile(path, f"is one of {count} parts; missing next to it: {', '.join(missing[:3])}{more}")
    return parts


def read_gguf(path: Path | str, max_header: int = MAX_HEADER) -> GgufFile:
    """The header of a GGUF file; of a split file all parts, joined, whichever part is given.

    `max_header`: bytes of header and tensor table that are read at most, per part. Raises BadFile. Tensor data that the
    file should hold but does not is reported in `bytes_missing`, not raised.
    """
    path = Path(path)
    parts = part_paths(path)
    files = [_read_one(p, max_header) for p in parts]
    first = files[0]
    declared = first.metadata.get("split.count", len(parts))
    if isinstance(declared, int) and declared > 1 and declared != len(parts):
        raise BadFile(
            path,
            f"is split into {declared} parts; its name must end in -00001-of-{declared:05d}.gguf to find the others",
        )
    if len(files) == 1:
        return first
    for no, gguf_file in enumerate(files):
        if gguf_file.metadata.get("split.no", no) != no:
            raise BadFile(
                gguf_file.parts[0],
                f"is named part {no + 1} but says it is part {gguf_file.metadata['split.no']} (counted from 0)",
            )
    tensors = tuple(t for f in files for t in f.tensors)
    if len(tensors) > MAX_TENSORS:
        raise BadFile(path, f"the parts hold {len(tensors)} tensors; at most {MAX_TENSORS} are allowed")
    announced = first.metadata.get("split.tensors.count", len(tensors))
    if len({t.name for t in tensors}) != len(tensors) or announced != len(tensors):
        raise BadFile(path, f"the parts do not belong together: {len(tensors)} tensors found, {announced} announced")
    return replace(
        first,
        tensors=tensors,
        parts=tuple(str(p) for p in parts),
        file_bytes=sum(f.file_bytes for f in files),
        tensor_bytes=sum(f.tensor_bytes for f in files),
        truncated=any(f.truncated for f in files),
        bytes_missing=sum(f.bytes_missing for f in files),
    )


STRING, ARRAY = 8, 9
_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_SIZES = {k: struct.calcsize("<" + f) for k, f in _FORMATS.items()}
_u32 = struct.Struct("<I").unpack_from
_u64 = struct.Struct("<Q").unpack_from


class Cursor:
    """A forward cursor over the first bytes of a file; grows as needed and never past its limit."""

    def __init__(self, path: Path, stream: BinaryIO, limit: int) -> None:
        self.path, self.stream, self.limit = path, stream, limit
        self.data = b""
        self.pos = 0
        self.kept = self.inner_arrays = 0

    def need(self, n: int, what: str) -> None:
        """Have `n` bytes at the cursor, or raise BadFile."""
        end = self.pos + n
        if end <= len(self.data):
            return
        if end > self.limit:
            raise BadFile(
                self.path, f"{what} at byte {self.pos} passes the limit of {self.limit // MIB} MiB for a GGUF header"
            )
        length = min(self.limit, max(end, 2 * len(self.data), 2 * MIB))
        self.data += self.stream.read(length - len(self.data))
        if end > len(self.data):
            raise BadFile(
                self.path,
                f"the header is cut off: {what} needs {n} bytes at byte {self.pos}, the file ends at {len(self.data)}",
            )

    def u32(self, what: str) -> int:
        self.need(4, what)
        self.pos += 4
        return int(_u32(self.data, self.pos - 4)[0])

    def u64(self, what: str) -> int:
        self.need(8, what)
        self.pos += 8
        return int(_u64(self.data, self.pos - 8)[0])

    def skip(self, n: int, what: str) -> None:
        self.need(n, what)
        self.pos += n

    def text(self, what: str, limit: int) -> str | int:
        """A string, or its length where it is longer than `limit`."""
        n = self.u64(what)
        self.skip(n, what)
        if n > limit:
            return n
        return self.data[self.pos - n : self.pos].decode("utf-8", "replace")

    def name(self, what: str) -> str:
        name = self.text(what, MAX_NAME)
        if isinstance(name, int):
            raise BadFile(
                self.path, f"{what} at byte {self.pos - name} is {name} bytes long, at most {MAX_NAME} are allowed"
            )
        return name

    def skip_strings(self, n: int, what: str) -> None:
        """Pass over `n` strings without decoding them. A vocabulary has 100,000s, so the loop is unrolled."""
        if n > MAX_STRINGS:
            raise BadFile(self.path, f"{what} has {n} strings, at most {MAX_STRINGS} are allowed")
        self.need(8 * n, what)
        while n:
            now = min(n, 4096)
            data, at = self.data, self.pos
            try:
                for _ in repeat(None, now // 4):
                    at += _u64(data, at)[0] + 8
                    at += _u64(data, at)[0] + 8
                    at += _u64(data, at)[0] + 8
                    at += _u64(data, at)[0] + 8
                for _ in repeat(None, now % 4):
                    at += _u64(data, at)[0] + 8
            except (struct.error, OverflowError, IndexError):
                # Past what is loaded: one string at a time loads more, or raises where the header ends.
                for _ in repeat(None, now):
                    self.skip(self.u64(what), what)
            else:
                self.skip(at - self.pos, what)
            n -= now


def scalar(cursor: Cursor, kind: int, key: str) -> Scalar | None:
    """One scalar; None for a string that is too long to keep."""
    if kind == STRING:
        text = cursor.text(f"the value of {key!r}", MAX_STRING)
        return text if isinstance(text, str) else None
    if kind not in _FORMATS:
        raise BadFile(cursor.path, f"{key!r} at byte {cursor.pos} has the unknown value type {kind}")
    size = _SIZES[kind]
    cursor.skip(size, f"the value of {key!r}")
    value: Scalar = struct.unpack_from("<" + _FORMATS[kind], cursor.data, cursor.pos - size)[0]
    return value


def array(cursor: Cursor, key: str, depth: int) -> tuple[tuple[Scalar, ...] | None, int]:
    """An array's values where it is short enough to keep, and its length."""
    what = f"array {key!r}"
    kind, n = cursor.u32(what), cursor.u64(what)
    if kind == ARRAY:
        cursor.inner_arrays += n
        if depth >= 2 or cursor.inner_arrays > MAX_INNER_ARRAYS:
            raise BadFile(cursor.path, f"{what} at byte {cursor.pos} nests more than any model file does")
        for _ in range(n):
            array(cursor, key, depth + 1)
        return None, n
    keep = depth == 1 and n <= (KEPT_STRINGS if kind == STRING else KEPT_NUMBERS) and cursor.kept + n <= MAX_KEPT
    cursor.kept += n if keep else 0
    if kind == STRING:
        if not keep:
            cursor.skip_strings(n, what)
            return None, n
        texts = [cursor.text(what, MAX_STRING) for _ in range(n)]
        return (None if any(isinstance(t, int) for t in texts) else tuple(texts)), n
    if kind not in _FORMATS:
        raise BadFile(cursor.path, f"{what} at byte {cursor.pos} has the unknown element type {kind}")
    cursor.skip(n * _SIZES[kind], what)
    if not keep:
        return None, n
    return struct.unpack_from(f"<{n}{_FORMATS[kind]}", cursor.data, cursor.pos - n * _SIZES[kind]), n
