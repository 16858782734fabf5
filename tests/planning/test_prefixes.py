"""What a replica keeps of prompts: against block tables kept one block at a time, and by hand."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from step_tables import make_table

from advisor.planning.prefixes import CachingServer
from advisor.planning.scheduler import Arrival, serve

BLOCK = 16


def draw_sessions(seed: int, sessions: int = 12, turns: int = 8) -> list[Arrival]:
    """Agents whose prompts grow by an answer and a tool's output each turn; far enough apart to come one by one."""
    rng, out = random.Random(seed), []
    for session in range(sessions):
        at, prompt = rng.uniform(0, 50), rng.randint(100, 900)
        for _ in range(turns):
            output = rng.randint(20, 120)
            count = (prompt + output) // BLOCK
            names = tuple(range(session * 2**20, session * 2**20 + count))
            out.append(Arrival(at, prompt, output, blocks=names, block=BLOCK))
            at += rng.uniform(20, 60)
            prompt += output + rng.randint(30, 400)
    return sorted(out, key=lambda a: a.at)


def count_hits_plainly(arrivals: list[Arrival], pool: int) -> int:
    """Tokens found by a table of blocks with a clock, where requests come one after the other."""
    last_used: dict[int, tuple[int, int]] = {}
    hits = 0
    for now, a in enumerate(arrivals):
        found = 0
        while found < (a.prompt - 1) // BLOCK and a.blocks[found] in last_used:
            found += 1
        hits += found * BLOCK
        mine = set(a.blocks)
        while len(set(last_used) | mine) * BLOCK > pool - BLOCK:
            others = [b for b in last_used if b not in mine]
            if not others:
                break
            del last_used[min(others, key=lambda b: last_used[b])]
        for place, block in enumerate(a.blocks):
            last_used[block] = (now, -place)
    return hits


@pytest.mark.parametrize("pool", [6_000, 12_000, 40_000])
@pytest.mark.parametrize("seed", [1, 2])
def test_hits_and_evictions_as_in_a_table_of_blocks(pool: int, seed: int) -> None:
    """Requests that do not overlap; within a tenth, as answers are counted while they grow."""
    arrivals = [Arrival(20.0 * i, a.prompt, a.output, 0, a.blocks, BLOCK) for i, a in enumerate(draw_sessions(seed))]
    server = CachingServer(make_table(pool=pool))
    serve(arrivals, [server])
    assert server.hit_tokens == pytest.approx(count_hits_plainly(arrivals, pool), rel=0.1)
    assert server.asked_tokens == sum(a.prompt for a in arrivals)


@pytest.mark.parametrize("pool", [6_000, 9_000, 10**6])
def test_no_token_is_lost_where_requests_overlap(pool: int) -> None:
    server = CachingServer(make_table(pool=pool, running=6))
    arrivals = draw_sessions(3)
    serve([Arrival(a.at / 20, a.prompt, a.output, 0, a.blocks, BLOCK) for a in arrivals], [server])
    assert len(server.done) == len(arrivals)
    assert (server.own, server.held_tokens, server.context) == (0, 0, 0)
    assert not server.holders
    assert server.idle_tokens == BLOCK * len(server.idle) <= pool


def test_all_that_was_said_before_is_kept_where_there_is_room() -> None:
    """Of each turn but the first the whole blocks of the turn before, answer included."""
    arrivals = draw_sessions(4, sessions=1)
    server = CachingServer(make_table(pool=10**6))
    serve(arrivals, [server])
    expected = sum(min((a.prompt + a.output) // BLOCK, (b.prompt - 1) // BLOCK) for a, b in pairwise(arrivals))
    assert server.hit_tokens == BLOCK * expected


def test_more_room_is_never_slower() -> None:
    def wait(pool: int) -> float:
        server = CachingServer(make_table(pool=pool))
        serve([Arrival(a.at / 10, a.prompt, a.output, 0, a.blocks, BLOCK) for a in draw_sessions(5)], [server])
        return sum(r.first_at - r.arrival.at for r in server.done)

    assert wait(5_000) >= wait(20_000) >= wait(10**6)
