"""Worker processes that end with the process that started them, however that one ends."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

from advisor.garbage import look_for_cycles_rarely


def make_pool(jobs: int) -> ProcessPoolExecutor:
    """So many worker processes. A parent that is killed leaves none behind."""
    return ProcessPoolExecutor(jobs, initializer=_begin)


def _begin() -> None:
    look_for_cycles_rarely()
    _end_with_parent()


def count_cores() -> int:
    """Cores that this process may use, at most 8."""
    import os

    may_use = getattr(os, "sched_getaffinity", None)  # not everywhere
    return min(8, len(may_use(0)) if may_use is not None else os.cpu_count() or 1)


def _end_with_parent() -> None:
    import multiprocessing
    import os
    import threading

    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent").start()
