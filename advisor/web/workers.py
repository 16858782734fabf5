"""Answers are worked out in threads: a few for estimates, which take milliseconds, others for what takes longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from advisor.errors import AdvisorError
from advisor.web.limits import ServerLimits

T = TypeVar("T")


class Busy(AdvisorError):
    """Too many questions wait already."""

    def __init__(self) -> None:
        super().__init__("busy", "too many questions wait for an answer: ask again in a second")


class TooLong(AdvisorError):
    """An answer took longer than this server allows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            "too_long", f"the answer took longer than {seconds:g} s: narrow the question, or use --timeout"
        )


class Workers:
    """Threads with a bounded queue. A thread whose answer came too late goes on; nobody waits for it."""

    def __init__(self, limits: ServerLimits, threads: int) -> None:
        self.limits = limits
        self.waiting = 0
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="answer")

    async def answer(self, work: Callable[..., T], *given: Any) -> T:
        """`work(*given)`. Raises Busy, TooLong, and what `work` raises."""
        if self.waiting >= self.limits.most_waiting:
            raise Busy
        self.waiting += 1
        future = self._pool.submit(work, *given)
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._count_down))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.limits.answer_s)
        except (TimeoutError, asyncio.TimeoutError):
            raise TooLong(self.limits.answer_s) from None

    def _count_down(self) -> None:
        self.waiting -= 1

    def close(self) -> None:
        """Ends without waiting for answers."""
        self._pool.shutdown(wait=False, cancel_futures=True)
