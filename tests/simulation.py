"""A discrete simulation of an engine with continuous batching, independent of the planner's formulas for waiting.

Requests arrive at the times of a trace and are routed to the copy with the fewest for its weight. A copy admits a
request when a slot is free and the cache holds its tokens; each step decodes one token of every running request and
works on at most a chunk of prompts, as vLLM's scheduler does (first come, first served; chunked prefill).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

StepSeconds = Callable[[int, int], float]  # (running requests, prompt tokens in the step) -> seconds


class Arrival(NamedTuple):
    at: float
    prompt: int
    output: int
    cached: int = 0  # tokens of the prompt that were read elsewhere
    asked_at: float | None = None  # by the user, where that was earlier


class Served(NamedTuple):
    ttft_s: float
    tpot_s: float
    request: Arrival


class _Running:
    __slots__ = ("first_at", "left_prompt", "number", "request", "tokens")

    def __init__(self, request: Arrival, number: int) -> None:
        self.request, self.number = request, number  # which one of its copy it is
        self.left_prompt = request.prompt
        self.tokens = request.prompt + request.output + request.cached
        self.first_at = 0.0


class Copy:
    """One server. Steps without prompts are alike until the next request ends or arrives: they only count time."""

    def __init__(
        self, step: StepSeconds, most_running: int, cache_tokens: int, chunk: int, weight: float = 1.0
    ) -> None:
        self.weight = weight  # of the router: a server of twice the weight has twice the requests
        self.step, self.most_running, self.cache_tokens, self.chunk = step, most_running, cache_tokens, chunk
        self.now, self.steps, self.held, self.admitted = 0.0, 0, 0, 0
        self.queue, self.reading = deque[Arrival](), list[_Running]()
        self.decoding = list[tuple[int, int, _Running]]()  # a heap: by the step that ends the request, then as admitted
        self.served: list[Served] = []

    @property
    def running(self) -> int:
        return len(self.reading) + len(self.decoding)

    @property
    def load(self) -> int:
        return len(self.queue) + self.running

    def advance(self, until: float) -> None:
        """Steps up to a time; the last may end a little after it."""
        while self.now < until and self.load:
            self._admit()
            if self.reading:
                self._read()
            else:
                self._decode(until)
            self._end()
        if not self.load:
            self.now = max(self.now, until)

    def _admit(self) -> None:
        while self.queue and self.running < self.most_running:
            wanted = self.queue[0].prompt + self.queue[0].output + self.queue[0].cached
            if self.running and self.held + wanted > self.cache_tokens:
                break
            self.held += wanted
            self.admitted += 1
            self.reading.append(_Running(self.queue.popleft(), self.admitted))

    def _read(self) -> None:
        """A step that works on prompts, too."""
        room = whole = max(0, self.chunk - len(self.decoding))
        for r in self.reading:
            taken = min(room, r.left_prompt)
            r.left_prompt -= taken
            room -= taken
        self.now += self.step(max(1, len(self.decoding)), whole - room)
        self.steps += 1
        for r in self.reading:
            if not r.left_prompt:  # the step that ends a prompt gives the first token
                r.first_at = self.now
                heapq.heappush(self.decoding, (self.steps + max(1, r.request.output) - 1, r.number, r))
        self.reading = [r for r in self.reading if r.left_prompt]

    def _decode(self, until: float) -> None:
        seconds, last = self.step(len(self.decoding), 0), self.decoding[0][0]
        while self.now < until and self.steps < last:
            self.now += seconds
            self.steps += 1

    def _end(self) -> None:
        while self.decoding and self.decoding[0][0] <= self.steps:
            r = heapq.heappop(self.decoding)[2]
            self.held -= r.tokens
            n = max(1, r.request.output - 1)
            asked = r.request.at if r.request.asked_at is None else r.request.asked_at
            self.served.append(Served(r.first_at - asked, (self.now - r.first_at) / n, r.request))


def simulate(arrivals: Sequence[Arrival], copies: Sequence[Copy]) -> list[Served]:
    """What every request of the trace saw."""
    for arrival in arrivals:
        for copy in copies:
            copy.advance(arrival.at)
        least = min(copies, key=lambda c: (c.load + 1) / c.weight)
        least.now = max(least.now, arrival.at) if not least.load else least.now
        least.queue.append(arrival)
    for copy in copies:
        copy.advance(float("inf"))
    return [s for c in copies for s in c.served]


def simulate_split(
    arrivals: Sequence[Arrival], readers: Sequence[Copy], writers: Sequence[Copy], handover_s: float
) -> list[Served]:
    """What every request saw where some servers read prompts and others write: the cache of a prompt that was read is
    handed over (`handover_s` for each of its tokens), and a writer makes all tokens of the answer."""
    outputs = {a: a.output for a in arrivals}
    whole = {a._replace(output=1): a for a in arrivals}
    assert len(whole) == len(outputs) == len(arrivals)  # no two are alike in time and prompt
    handed = [
        Arrival(
            s.request.at + s.ttft_s + handover_s * s.request.prompt,
            1,
            whole[s.request].output,
            s.request.prompt,
            s.request.at,
        )
        for s in simulate(list(whole), readers)
    ]
    return simulate(sorted(handed), writers)
