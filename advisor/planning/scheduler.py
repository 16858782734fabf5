"""An engine's scheduler, simulated step by step: one replica under requests that arrive.

First come, first served; a step decodes one token of each running request and works on prompts within its budget of
tokens; a request is taken while a place and room in the cache are free; where the cache runs full the last one taken
starts again (vLLM, v1/core/sched/scheduler.py). Engines that schedule a step while the one before it runs take a step
later what comes in that time (vLLM, v1/engine/core.py, step_with_batch_queue). Decoding alone is leapt over, up to what
comes next.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from copy import copy

from msgspec.structs import replace

from advisor.record import Value
from advisor.speed.step_table import StepTable


class Arrival(Value, frozen=True):
    """One request: seconds, tokens of the prompt that are computed and that the cache has, tokens of the answer."""

    at: float
    prompt: int
    output: int
    cached: int = 0
    blocks: tuple[int, ...] = ()  # of the prompt, and of the answer where later prompts may begin with it: names
    block: int = 0  # tokens of each


class ServedRequest:
    """One request on its way."""

    __slots__ = ("arrival", "cached", "done_at", "ends", "first_at", "generated", "left", "order", "prompt", "taken_at")

    def __init__(self, arrival: Arrival) -> None:
        self.arrival = arrival
        self.prompt, self.cached = max(1, arrival.prompt), arrival.cached  # tokens that are computed, and that are not
        self.left = self.prompt
        self.generated = 0
        self.first_at = self.done_at = self.taken_at = math.nan
        self.ends = self.order = 0

    def start_again(self) -> None:
        """What was answered so far is computed again, as a prompt."""
        self.left = self.prompt + self.generated


class Server:
    """One replica under a scheduler. Every step takes `slower` times what the table says."""

    def __init__(self, table: StepTable, slower: float = 1.0) -> None:
        self.table, self.slower = table, slower
        self.now = self.prompt_s = 0.0
        self.scheduled = math.inf  # when the next step was, where that is done ahead; infinite: it is not yet
        self.running, self.waiting = Counter[int](), Counter[int]()  # how many -> seconds
        self.queue: deque[ServedRequest] = deque()
        self.reading: deque[ServedRequest] = deque()
        self.decoding: dict[int, ServedRequest] = {}
        self.ends: list[tuple[int, int]] = []  # (step at whose end a request is done, its order)
        self.lack = ""  # places or cache, for those that wait
        self.steps = self.taken = self.context = self.own = 0  # tokens that are attended to, and that fill the pool
        self.done: list[ServedRequest] = []
        self.samples: list[tuple[float, float, int, int]] | None = None  # (end, seconds, running, waiting) where asked
        self.dropped = 0  # requests that started again
        self.lacks = Counter[str]()  # what those that wait have none of, places or cache -> seconds

    @property
    def load(self) -> int:
        return len(self.queue) + len(self.reading) + len(self.decoding)

    @property
    def used(self) -> int:
        """Tokens that fill the pool."""
        return self.own

    def advance(self, until: float) -> None:
        """Steps up to a time; the last may end a little after it."""
        while self.now < until and self.load:
            self._take()
            if self.reading:
                self._read()
            else:
                self._leap(until)
        if not self.load:
            self.now = max(self.now, until) if until < math.inf else self.now

    def _take(self) -> None:
        limits = self.table.limits
        self.lack = "places"
        if not (self.reading or self.decoding):
            self.scheduled = math.inf
        while self.queue and len(self.reading) + len(self.decoding) < limits.running:
            request = self.queue[0]
            if request.arrival.at > self.scheduled:
                self.lack = ""
                break
            self._look_up(request)
            promised = sum(r.left for r in self.reading)
            if limits.pool and self.load > len(self.queue) and self.used + promised + request.left > limits.pool:
                self.lack = "cache"
                break
            self.queue.popleft()
            self.taken += 1
            request.order = self.taken
            if math.isnan(request.taken_at):
                request.taken_at = self.now
            self.context += request.cached
            self.reading.append(request)
            self._hold(request)

    def _look_up(self, request: ServedRequest) -> None:
        """Find what is kept of a prompt: here nothing but what every prompt has in common."""

    def _hold(self, request: ServedRequest) -> None:
        """A request takes what is kept of its prompt."""

    def _release(self, request: ServedRequest) -> None:
        """It gives it back."""

    def _read(self) -> None:
        """A step with chunks of prompts."""
        limits = self.table.limits
        alone, running = limits.prompts == "first", len(self.reading) + len(self.decoding)
        n = 0 if alone else len(self.decoding)
        room, tokens, weighted, finished = max(1, limits.chunk - n), 0, 0.0, []
        while self.reading and room > 0:
            request = self.reading[0]
            part = min(room, request.left)
            before = request.cached + request.prompt + request.generated - request.left
            weighted += part * (before + part / 2)
            request.left -= part
            tokens, room = tokens + part, room - part
            if request.left:
                break
            finished.append(self.reading.popleft())
        context = 0 if alone else self.context
        seconds = self.slower * self.table.step(n, context, tokens, weighted / tokens)
        without = self.slower * self.table.decode(n, context) if n else 0.0
        self.prompt_s += seconds - without
        self._pass(seconds, running)
        self.context += tokens
        self.own += tokens
        if n:
            self._decode(1)
        for request in finished:
            self._begin(request)

    def _begin(self, request: ServedRequest) -> None:
        """The first token of an answer, or the next one of a request that started again."""
        if not request.generated:
            request.first_at = self.now
        request.generated += 1
        self.own, self.context = self.own + 1, self.context + 1
        if request.generated >= request.arrival.output:
            self._end(request)
        else:
            request.ends = self.steps + request.arrival.output - request.generated
            self.decoding[request.order] = request
            heapq.heappush(self.ends, (request.ends, request.order))

    def _leap(self, until: float) -> None:
        """Steps of decoding alone, up to the next end, the next arrival, or a full cache."""
        n, pool = len(self.decoding), self.table.limits.pool
        count = self.ends[0][0] - self.steps
        if pool and self.used + n * count > pool and n > 1:
            count = min(count, (pool - self.used) // n)
            if count < 1:
                self._drop_last()
                return
        seconds = self.slower * self.table.decode(n, self.context + n * (count - 1) / 2)
        if self.queue and not self.lack:
            count = 1
        elif until < math.inf:
            count = max(1, min(count, math.ceil((until - self.now) / seconds)))
        self._pass(seconds * count, n, count)
        self._decode(count)

    def _decode(self, count: int) -> None:
        self.steps += count
        self.context += count * len(self.decoding)
        self.own += count * len(self.decoding)
        while self.ends and self.ends[0][0] <= self.steps:
            ends, order = heapq.heappop(self.ends)
            request = self.decoding.get(order)
            if request is not None and request.ends == ends:
                del self.decoding[order]
                request.generated = request.arrival.output
                self._end(request)

    def _end(self, request: ServedRequest) -> None:
        request.done_at = self.now
        self._free(request)
        self.done.append(request)

    def _free(self, request: ServedRequest) -> None:
        tokens = request.prompt + request.generated
        self.own -= tokens
        self.context -= tokens + request.cached
        self._release(request)

    def _drop_last(self) -> None:
        """The last one taken gives its place in the cache back and starts again, its answer so far as a prompt."""
        order = max(self.decoding)
        request = self.decoding.pop(order)
        request.generated = request.arrival.output - (request.ends - self.steps)
        self._free(request)
        request.start_again()
        self.dropped += 1
        self.ends = [x for x in self.ends if x[1] != order]
        heapq.heapify(self.ends)
        self.queue.appendleft(request)

    def _pass(self, seconds: float, running: int, steps: int = 1) -> None:
        self.now += seconds
        if self.table.limits.ahead:
            self.scheduled = self.now - seconds / steps
        self.running[running] += seconds  # type: ignore[assignment]  # seconds, not counts
        self.waiting[len(self.queue)] += seconds  # type: ignore[assignment]
        if self.samples is not None:
            self.samples.append((self.now, seconds, running, len(self.queue)))
        if self.queue and self.lack:
            self.lacks[self.lack] += seconds  # type: ignore[assignment]


def simulate(arrivals: Sequence[Arrival], table: StepTable, slower: float = 1.0) -> list[Server]:
    """The replicas of a deployment after all requests, in the order of their arrival, were answered. A router gives
    each to the replica with the fewest."""
    servers = [Server(table, slower) for _ in range(table.replicas)]
    serve(arrivals, servers)
    return servers


def serve(arrivals: Iterable[Arrival], servers: Sequence[Server]) -> None:
    """Give each request to the server with the fewest, and answer all of them."""
    for arrival in arrivals:
        for server in servers:
            server.advance(arrival.at)
        least = min(servers, key=lambda s: s.load)
        least.queue.append(ServedRequest(arrival))
    for server in servers:
        server.advance(math.inf)


class ClosedServer(Server):
    """A replica that so many users ask, each again as soon as the last request is answered."""

    def __init__(self, table: StepTable, slower: float, users: int, lengths: Sequence[Arrival]) -> None:
        super().__init__(table, slower)
        self.coming = deque(lengths[users:])
        self.steady: Server = self  # as it was before the last ones had nobody behind them
        self.queue.extend(ServedRequest(replace(a, at=0.0)) for a in lengths[:users])

    def _end(self, request: ServedRequest) -> None:
        super()._end(request)
        if self.coming:
            self.queue.append(ServedRequest(replace(self.coming.popleft(), at=self.now)))
        elif self.steady is self:
            self.steady = copy(self)
            self.steady.running, self.steady.waiting = copy(self.running), copy(self.waiting)
