"""What a pool engine would refuse or say about a deployment before it serves."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.deployment import Deployment
from advisor.engines import fitting
from advisor.engines.base import get
from advisor.engines.parallel import Refusal
from advisor.engines.pool_constants import Constants
from advisor.engines.pool_settings import Resolved
from advisor.machines.types import Device
from advisor.memory.paged_cache import PagedCache
from advisor.units import gib

# with one of these a length above the trained one is meant, and the engines accept it
LONGER_MEANT = ("hf-overrides", "rope-scaling", "json-model-override-args")


def refusals(
    d: Deployment, r: Resolved, c: Constants, devices: Sequence[Device], uneven: Sequence[Refusal]
) -> list[str]:
    """Why the engine would not start, one line each; empty when it would. `uneven` is what does not divide."""
    out = [x.text for x in uneven]
    if d.machine is not None and devices and r.ranks > len(devices) * d.machine.nodes:
        parts = [f"{what} {n}" for what, n in (("tensor", r.tp), ("pipeline", r.pp), ("data", r.dp)) if n > 1]
        out.append(f"{' x '.join(parts)} parallel needs {r.ranks} devices, {len(devices)} are there")
    longest = d.model.max_context
    if longest and r.length > longest and r.length_given and get(d.settings, *LONGER_MEANT) is None:
        out.append(f"{r.length} tokens are more than {d.model.id} was trained for ({longest})")
    if c.wants_budget_free:
        for x in devices[: r.ranks]:
            total = fitting.allocatable(x)
            if total is not None and x.free_bytes is not None and x.free_bytes < int(total * r.fraction):
                out.append(
                    f"{x.name}: {gib(x.free_bytes)} free at start is less than the desired share "
                    f"({r.fraction:g} of {gib(total)}): stop what else runs there or lower "
                    f"{c.names.fraction[0]} to {_floor(x.free_bytes / total)}"
                )
    return list(dict.fromkeys(out))


def states(r: Resolved, c: Constants, plans: Sequence[PagedCache], low: int, high: int) -> tuple[bool, str] | None:
    """(whether it surely refuses, what it says) where the recurrent state of the admitted sequences has too few blocks.

    vLLM captures its decode graphs with one state block a sequence; `low` and `high` bound the pool, bytes.
    """
    if c.planner != "groups" or r.eager:
        return None
    for p in plans:
        least, most = p.state_blocks(max(0, low)), p.state_blocks(max(0, high))
        if least is None or most is None or r.sequences <= least:
            continue
        sure = r.sequences > most and r.sequences_given  # versions differ in the default and in the check
        there = f"{least}" if least == most else f"{least} to {most}"
        return sure, (
            f"max_num_seqs ({r.sequences}) exceeds available Mamba cache blocks ({there}): "
            f"lower {c.names.sequences[0]} to {least}, or raise the memory fraction"
        )
    return None


def _floor(share: float) -> str:
    return f"{int(share * 100) / 100:g}"


def notes(d: Deployment, r: Resolved, used: Sequence[Device]) -> list[str]:
    """What a reader should know although the engine starts."""
    out = []
    if not r.length_given:
        out.append(f"no context length given: {r.length} tokens, the model's trained context")
    if d.sequences > r.sequences * r.dp:
        limit = r.sequences * r.dp
        out.append(
            f"{d.sequences} requests are asked, the engine runs at most {limit} at once: the rest waits in its queue"
        )
    if len({x.total_bytes for x in used}) > 1:
        least = min((x for x in used if x.total_bytes is not None), key=lambda x: x.total_bytes or 0, default=None)
        if least is not None:
            out.append(
                f"unlike devices: every rank holds the same share, so {least.name} decides how large the pool is"
            )
    if used and used[0].total_bytes is None:
        out.append(f"the memory of {used[0].name} is not known: batch defaults are those of the smallest devices")
    return out


def too_long(
    r: Resolved, plans: Sequence[PagedCache], requests: Sequence[tuple[int, int]], rooms: Sequence[int]
) -> str | None:
    """What the engine says when one request of full length does not fit the pool, with the length that would."""
    one = max(sum(b) for b in requests)
    room = min(rooms, default=None)
    if room is None or one <= room:
        return None
    if room <= 0:
        return "No available memory for the cache blocks: raise the memory fraction, or take a smaller quantization."
    fits = min(largest_length(p, room, r.batched_tokens, r.length) for p in plans)
    return (
        f"To serve at least one request with the model's max seq len ({r.length}), {gib(one)} KV cache is needed, "
        f"which is larger than the available KV cache memory ({gib(room)}). Estimated maximum model length: {fits}."
    )


def largest_length(cache: PagedCache, room: int, batched_tokens: int, at_most: int) -> int:
    """Longest request, tokens, whose cache fits into `room` bytes; 0 when none does."""
    low, high = 0, at_most
    while low < high:
        mid = (low + high + 1) // 2
        low, high = (mid, high) if sum(cache.request(mid, batched_tokens)) <= room else (low, mid - 1)
    return low
