"""A bounded cursor over the header of a GGUF file: numbers, strings and arrays, read forward, never past a limit."""

from __future__ import annotations

import struct
from itertools import repeat
from pathlib import Path
from typing import BinaryIO

from advisor.errors import BadFile
from advisor.units import MIB

Scalar = int | float | bool | str

MAX_NAME = 65_535
MAX_STRING = MIB  # longest string that is kept
MAX_STRINGS = 4 * 2**20  # entries of a string array
MAX_INNER_ARRAYS = 4096  # arrays inside arrays, per file
KEPT_NUMBERS = 1024  # longest array of numbers that is kept
KEPT_STRINGS = 256
MAX_KEPT = 65_536  # array entries that are kept per file; further arrays are only counted

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
        wanted = min(self.limit, max(end, 2 * len(self.data), 2 * MIB))
        self.data += self.stream.read(wanted - len(self.data))
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
