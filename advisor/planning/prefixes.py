"""A replica that keeps the prompts it has seen: which tokens of the next ones it need not compute.

Blocks of a prompt are kept while a request holds them, and after that as long as nobody needs the room: the least
recently used goes first, and of a prompt the end before the beginning (vLLM, v1/core/kv_cache_manager.py).
"""

from __future__ import annotations

from collections import Counter, OrderedDict

from advisor.planning.scheduler import ServedRequest, Server
from advisor.speed.step_table import StepTable


class CachingServer(Server):
    """A replica under a scheduler, with the blocks that it keeps. `own` counts tokens of no whole block."""

    def __init__(self, table: StepTable, slower: float = 1.0) -> None:
        super().__init__(table, slower)
        self.holders = Counter[int]()  # block -> requests that hold it
        self.idle = OrderedDict[int, int]()  # block that nobody holds -> tokens; the first goes first
        self.held_tokens = self.idle_tokens = 0
        self.hit_tokens = self.asked_tokens = 0  # of all prompts

    @property
    def used(self) -> int:
        """Tokens that fill the pool."""
        return self.own + self.held_tokens

    def _look_up(self, request: ServedRequest) -> None:
        arrival = request.arrival
        if not arrival.block:
            return
        self._make_room()
        whole, found = arrival.cached + arrival.prompt, 0
        for block in arrival.blocks[: (whole - 1) // arrival.block]:  # the last token is always computed
            if block not in self.holders and block not in self.idle:
                break
            found += 1
        request.cached = found * arrival.block
        request.prompt = whole - request.cached
        request.left = request.prompt + request.generated

    def _hold(self, request: ServedRequest) -> None:
        arrival = request.arrival
        if not arrival.block:
            return
        self.hit_tokens += request.cached
        self.asked_tokens += arrival.cached + arrival.prompt
        blocks = self._list_held(request)
        self.own -= len(blocks) * arrival.block - request.cached  # are counted as own when they are computed
        for block in blocks:
            if block not in self.holders:
                self.idle_tokens -= self.idle.pop(block, 0)
                self.held_tokens += arrival.block
            self.holders[block] += 1

    def _release(self, request: ServedRequest) -> None:
        arrival = request.arrival
        if not arrival.block:
            return
        self._make_room(request.prompt + request.generated)
        blocks = self._list_held(request)
        self.own += len(blocks) * arrival.block - request.cached
        for block in blocks:
            self.holders[block] -= 1
            if not self.holders[block]:
                del self.holders[block]
                self.held_tokens -= arrival.block
        whole = (arrival.cached + arrival.prompt + request.generated) // arrival.block
        for block in reversed(arrival.blocks[:whole]):
            if block not in self.holders:
                self.idle_tokens += 0 if block in self.idle else arrival.block
                self.idle[block] = arrival.block
                self.idle.move_to_end(block)

    def _make_room(self, freed: int = 0) -> None:
        """Forget what the pool has no room for; `freed`: tokens that filled it until now, too."""
        room = (self.table.limits.pool or 0) - self.used - freed
        while self.idle and self.idle_tokens > room:
            self.idle_tokens -= self.idle.popitem(last=False)[1]

    def _list_held(self, request: ServedRequest) -> tuple[int, ...]:
        arrival = request.arrival
        return arrival.blocks[: (arrival.cached + arrival.prompt) // arrival.block]
