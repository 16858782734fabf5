"""Header folders: what `--online` keeps of a hub repository. Real headers, without the tensor data behind them.

`advise-headers.json` in the folder says where the files come from and how large they really are, so that the same
readers serve them; everything else about them is checked as in a full file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import msgspec

from advisor.decoding import decode_json
from advisor.errors import BadFile
from advisor.files import Stamp, stamp_files
from advisor.record import Record

MARK = "advise-headers.json"
_LIMIT = 4 * 2**20


class HeaderOrigin(Record, frozen=True, kw_only=True):
    """Where the headers of a folder were read."""

    repository: str  # org/name
    revision: str  # commit
    sizes: dict[str, int]  # file name -> bytes of the whole file


def read_origin(path: Path | str) -> HeaderOrigin | None:
    """The origin of a header folder or of a file in one; None for anything else. Raises BadFile."""
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    mark = folder / MARK
    return _read(mark, stamp_files(mark)) if mark.is_file() else None


@lru_cache(maxsize=16)
def _read(mark: Path, seen: Stamp) -> HeaderOrigin:
    from advisor.files import read_bytes

    try:
        return decode_json(read_bytes(mark, _LIMIT), HeaderOrigin)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
        raise BadFile(mark, f"is not what --online writes: {str(e)[:200]}; delete the folder and ask again") from None


def full_size(path: Path) -> int:
    """Bytes of a file, or of the whole file of which only the header is kept here. Raises OSError, BadFile."""
    found = read_origin(path)
    return found.sizes.get(path.name, path.stat().st_size) if found else path.stat().st_size


@contextmanager
def open_header(path: Path, of_folder: str = "is not a regular file") -> Iterator[tuple[BinaryIO, int]]:
    """A file to read a header from, and the bytes of the whole file; `of_folder` is what is wrong with a folder.

    Raises BadFile, also for what the body reads.
    """
    try:
        if path.exists() and not path.is_file():  # a FIFO would block
            raise BadFile(path, of_folder if path.is_dir() else "is not a regular file")
        size = full_size(path)
        with path.open("rb") as stream:
            yield stream, size
    except FileNotFoundError:
        raise BadFile(path, "no such file") from None
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else e
        raise BadFile(path, f"cannot be read: {reason}") from None
