"""How much work something is, in what no load of the machine changes: calls of functions, and memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable


def calls(work: Callable[[], object], c_too: bool = False) -> int:
    """Calls of Python functions while `work` runs; with `c_too` also those of functions written in C."""
    events = ("call", "c_call") if c_too else ("call",)
    count = 0

    def counted(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in events

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that `work` held at once through Python's allocator, bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
