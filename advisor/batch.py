"""The batch entry point: requests in, answers out, in order; over several processes with bounded memory."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec

from advisor.catalog import Catalog, catalog
from advisor.decoding import decode_json
from advisor.errors import BadInput
from advisor.estimation import RememberedNames
from advisor.memo import memoize_by_identity
from advisor.record import Value
from advisor.request_lines import estimate_or_fault
from advisor.session import Session

# Lines handed to a process at once: so many, and further ones about the same model, up to so many. A process keeps what
# it has worked out for a model, so no two should work on one
FEWEST, MOST = 256, 2048
AHEAD = 2  # chunks a process has waiting: enough to keep it busy, few enough to bound memory

_encode = msgspec.json.Encoder().encode

T = TypeVar("T")


class Shard(Value, frozen=True):
    """Every `of`-th request, from number `number` on. Requests and shards are counted from 0."""

    number: int
    of: int


WHOLE = Shard(0, 1)


def parse_shard(text: str) -> Shard:
    """`"3/16"` -> Shard(3, 16). Raises BadInput."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", str(text))  # callers of the library may give anything
    of = int(found[2]) if found else 0
    if found is None or of == 0:
        raise BadInput(f"shard {str(text)[:40]!r} is not I/N: the shards of 16 are 0/16 to 15/16")
    if int(found[1]) >= of:
        raise BadInput(f"shard {text!r}: shards are counted from 0, so the last one of {of} is {of - 1}/{of}")
    return Shard(int(found[1]), of)


def take_shard(requests: Iterable[T], shard: Shard) -> Iterator[T]:
    """The requests of a shard, in order, taken one at a time.

    Number k of the whole is number k // N of shard k % N, whatever the length of the whole.
    """
    return islice(requests, shard.number, None, shard.of)


def answer_lines(
    lines: Iterable[bytes], roots: Sequence[Path] | None = None, jobs: int = 1, strict: bool = False
) -> Iterator[bytes]:
    """Lines of `advise estimate --jsonl` -> their answers as JSON, in order. Lines are taken as answers go out.

    `strict`: a setting that the engine does not have is an error of its line.
    """
    if jobs <= 1:
        session, remembered = Session(catalog(roots)), RememberedNames()
        for line in lines:
            yield _encode(estimate_or_fault(line, session, remembered, strict))
        return
    from concurrent.futures import Future

    from advisor.workers import make_pool

    chunks = cut_into_chunks(iter(lines))
    waiting: deque[Future[list[bytes]]] = deque()
    with make_pool(jobs) as pool:
        while True:
            for chunk in islice(chunks, jobs * AHEAD - len(waiting)):
                waiting.append(pool.submit(_answer, roots, chunk, strict))
            if not waiting:
                return
            yield from waiting.popleft().result()


class _ModelName(msgspec.Struct):
    """What of a request tells where a chunk may end."""

    model: str


def _name_model(line: bytes) -> str | None:
    """The model that a line is about; None where that is not known."""
    try:
        return decode_json(line, _ModelName).model
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def cut_into_chunks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Lines as they are handed to processes: chunks that end where the model changes, unless they are very long."""
    chunk = list(islice(lines, FEWEST))
    while chunk:
        model, following = _name_model(chunk[-1]), list[bytes]()
        for line in lines:
            if len(chunk) == MOST or model is None or _name_model(line) != model:
                following = [line]
                break
            chunk.append(line)
        yield chunk
        chunk = [*following, *islice(lines, FEWEST - len(following))]


def _answer(roots: Sequence[Path] | None, chunk: list[bytes], strict: bool) -> list[bytes]:
    """The answers to some lines, in a worker process, which keeps its catalogue and the names that it has seen."""
    session = Session(catalog(roots))
    remembered = _remembered_names(session.rules)
    return [_encode(estimate_or_fault(line, session, remembered, strict)) for line in chunk]


@memoize_by_identity
def _remembered_names(rules: Catalog) -> RememberedNames:
    return RememberedNames()
