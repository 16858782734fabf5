"""The batch entry point: requests in, answers out, in order; over several processes with bounded memory."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from advisor.catalog import Catalog, catalog
from advisor.errors import BadInput
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity
from advisor.request_lines import estimate_or_fault

CHUNK = 256  # lines handed to a process at once
AHEAD = 4  # chunks a process has waiting: enough to keep it busy, few enough to bound memory

_encode = msgspec.json.Encoder().encode

T = TypeVar("T")


class Shard(NamedTuple):
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
        rules, machines = catalog(roots), dict[str, Machine]()
        for line in lines:
            yield _encode(estimate_or_fault(line, rules, machines, strict))
        return
    from concurrent.futures import Future

    from advisor.workers import make_pool

    chunks = iter(lines)
    waiting: deque[Future[list[bytes]]] = deque()
    with make_pool(jobs) as pool:
        while True:
            while len(waiting) < jobs * AHEAD and (chunk := list(islice(chunks, CHUNK))):
                waiting.append(pool.submit(_answer, roots, chunk, strict))
            if not waiting:
                return
            yield from waiting.popleft().result()


def _answer(roots: Sequence[Path] | None, chunk: list[bytes], strict: bool) -> list[bytes]:
    """The answers to some lines, in a worker process, which keeps its catalogue and the machines that it has seen."""
    rules = catalog(roots)
    machines = _machines(rules)
    return [_encode(estimate_or_fault(line, rules, machines, strict)) for line in chunk]


@memoize_by_identity
def _machines(rules: Catalog) -> dict[str, Machine]:
    return {}
