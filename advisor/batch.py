"""The batch door: requests in, answers out, in order; over several processes with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from advisor.catalog import Catalog, catalog
from advisor.machines.types import Machine
from advisor.memo import memoize_by_identity
from advisor.request_lines import estimate_or_fault

CHUNK = 256  # lines handed to a process at once
AHEAD = 4  # chunks a process has waiting: enough to keep it busy, few enough to bound memory

_encode = msgspec.json.Encoder().encode


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
