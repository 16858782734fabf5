"""What a pool engine would refuse or say about a deployment before it serves."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.deployment import Deployment
from advisor.engines import fitting
from advisor.engines.base import get_setting
from advisor.engines.parallel import TensorParallelRefusal
from advisor.engines.pool_constants import PoolConstants
from advisor.engines.pool_settings import PoolSettings
from advisor.engines.versions import is_before
from advisor.machines.types import Device
from advisor.memory.paged_cache import PagedCache
from advisor.units import format_gib

# with one of these a length above the trained one is meant, and the engines accept it
LONGER_MEANT = ("hf-overrides", "rope-scaling", "json-model-override-args")


def find_refusals(
    deployment: Deployment,
    settings: PoolSettings,
    constants: PoolConstants,
    devices: Sequence[Device],
    uneven: Sequence[TensorParallelRefusal],
) -> list[str]:
    """Why the engine would not start, one line each; empty when it would. `uneven` is what does not divide."""
    out = [x.text for x in uneven]
    if deployment.machine is not None and devices and settings.ranks > len(devices) * deployment.machine.nodes:
        parts = [
            f"{what} {n}"
            for what, n in (("tensor", settings.tp), ("pipeline", settings.pp), ("data", settings.dp))
            if n > 1
        ]
        out.append(f"{' x '.join(parts)} parallel needs {settings.ranks} devices, {len(devices)} are there")
    longest = deployment.model.max_context
    if (
        longest
        and settings.length > longest
        and settings.length_given
        and get_setting(deployment.settings, *LONGER_MEANT) is None
    ):
        out.append(f"{settings.length} tokens are more than {deployment.model.id} was trained for ({longest})")
    if constants.wants_budget_free:
        for device in devices[: settings.ranks]:
            total = fitting.allocatable_bytes(device)
            if (
                total is not None
                and device.free_bytes is not None
                and device.free_bytes < int(total * settings.fraction)
            ):
                out.append(
                    f"{device.name}: {format_gib(device.free_bytes)} free at start is less than the desired share "
                    f"({settings.fraction:g} of {format_gib(total)}): stop what else runs there or lower "
                    f"{constants.names.memory_share.flags[0]} to {_floor(device.free_bytes / total)}"
                )
    return list(dict.fromkeys(out))


def find_state_shortage(
    settings: PoolSettings, constants: PoolConstants, plans: Sequence[PagedCache], low: int, high: int
) -> tuple[bool, str] | None:
    """(whether it surely refuses, what it says) where the recurrent state of the admitted sequences has too few blocks.

    vLLM captures its decode graphs with one state block a sequence; `low` and `high` bound the pool, bytes.
    """
    if constants.planner != "groups" or settings.eager:
        return None
    for paged_cache in plans:
        least, most = paged_cache.state_blocks(max(0, low)), paged_cache.state_blocks(max(0, high))
        if least is None or most is None or settings.sequences <= least:
            continue
        sure = settings.sequences > most and settings.sequences_given  # versions differ in the default and in the check
        there = f"{least}" if least == most else f"{least} to {most}"
        return sure, (
            f"max_num_seqs ({settings.sequences}) exceeds available Mamba cache blocks ({there}): "
            f"lower {constants.names.sequences.flags[0]} to {least}, or raise the memory fraction"
        )
    return None


def list_reported_failures(deployment: Deployment, constants: PoolConstants, used: Sequence[Device]) -> list[str]:
    """What was seen to fail in the stated release, on such a card, in this weight format."""
    version = deployment.engine_version
    if version is None:
        return []
    generations = {(x.compute_capability or "").split(".")[0] for x in used}
    return [
        f"{x.said} ({x.source}): whether this runs is not known"
        for x in constants.reported_failures
        if deployment.quantization in x.formats
        and str(x.generation) in generations
        and is_before(version, x.before)
        and not is_before(version, x.since)
    ]


def _floor(share: float) -> str:
    return f"{int(share * 100) / 100:g}"


def list_notes(deployment: Deployment, settings: PoolSettings, used: Sequence[Device]) -> list[str]:
    """What a reader should know although the engine starts."""
    out = []
    if not settings.length_given:
        out.append(f"no context length given: {settings.length} tokens, the model's trained context")
    if settings.oldest_version is not None:
        out.append(f"no engine version given: bounds cover releases {settings.oldest_version} to {settings.version}")
    if deployment.sequences > settings.sequences * settings.dp:
        limit = settings.sequences * settings.dp
        out.append(
            f"{deployment.sequences} requests are asked, the engine runs at most {limit} at once: the rest waits in "
            "its queue"
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


def find_length_refusal(
    settings: PoolSettings, plans: Sequence[PagedCache], requests: Sequence[tuple[int, int]], rooms: Sequence[int]
) -> str | None:
    """What the engine says when one request of full length does not fit the pool, with the length that would."""
    one = max(sum(b) for b in requests)
    room = min(rooms, default=None)
    if room is None or one <= room:
        return None
    if room <= 0:
        return "No available memory for the cache blocks: raise the memory fraction, or take a smaller quantization."
    fits = min(largest_length(p, room, settings.batched_tokens, settings.length) for p in plans)
    return (
        f"To serve at least one request with the model's max seq len ({settings.length}), {format_gib(one)} KV cache "
        "is needed, "
        f"which is larger than the available KV cache memory ({format_gib(room)}). Estimated maximum model length: "
        f"{fits}."
    )


def largest_length(cache: PagedCache, room: int, batched_tokens: int, at_most: int) -> int:
    """Longest request, tokens, whose cache fits into `room` bytes; 0 when none does."""
    low, high = 0, at_most
    while low < high:
        mid = (low + high + 1) // 2
        low, high = (mid, high) if sum(cache.request(mid, batched_tokens)) <= room else (low, mid - 1)
    return low
