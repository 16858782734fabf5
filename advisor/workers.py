"""Worker processes that end with the process that started them, however that one ends."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor


def make_pool(jobs: int) -> ProcessPoolExecutor:
    """So many worker processes. A parent that is killed leaves none behind."""
    return ProcessPoolExecutor(jobs, initializer=_end_with_parent)


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
