"""Servers that read prompts (prefill) and servers that write answers (decode): how many of each, and how fast together.

Tried where targets were named that equal copies miss: prompts no longer delay tokens, so both targets can be met by
cards that one kind of server would miss one of them with. It answers no more in all (vLLM's documentation says so of
its own), so it is never taken for throughput. Nothing of it was measured here: bounds are those of the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from advisor.catalog.types import Engine
from advisor.deployment import Deployment, Interval, Setting, SpeedEstimate
from advisor.planning.layouts import list_servers, show_devices, with_settings
from advisor.planning.objective import SizedUnit
from advisor.planning.targets import Targets, meets_targets
from advisor.planning.traffic import Traffic, wait_in_line
from advisor.planning.types import CardLayout, Plan
from advisor.record import Value
from advisor.speed.work import RequestLoad

TURNS = 40  # of the fixed point: the wait depends on the rate, and the rate on the wait


LoadRates = Callable[[SizedUnit, RequestLoad], SpeedEstimate | None]  # of one server; None where it is not known


class Split(Value, frozen=True):
    """Servers that read prompts and servers that write answers, with the speed of the whole."""

    reader: SizedUnit
    writer: SizedUnit
    prefill: int  # servers that read
    decode: int  # servers that write
    speed: SpeedEstimate
    on_time: bool | None

    @property
    def cards(self) -> int:
        """Cards of all servers."""
        return self.prefill * self.reader.unit.cards + self.decode * self.writer.unit.cards


class StageTimes(Value, frozen=True):
    """Seconds: one prompt's pass on a server, handing its cache over, between two tokens."""

    prompt: float
    handover: float
    between: float


def choose_split(
    sized: Sequence[SizedUnit],
    node_cards: int,
    traffic: Traffic,
    targets: Targets,
    link_gbs: float,
    same: float,
    rate: LoadRates,
) -> Split | None:
    """The split that meets the targets with the fewest cards of one node, of these the one that answers the most; None
    where no split meets them. `link_gbs`: what caches are handed over with; `same`: the factor below which rates are
    the same."""
    units = [s for s in sized if s.held and _is_plain(s)]
    between = replace(targets, most={k: v for k, v in targets.most.items() if k == "tpot_s"})  # what writers decide
    found: list[Split] = []
    for writer in units:
        for decode in range(1, min(node_cards // writer.unit.cards, traffic.users) + 1):
            writes = _write(writer, decode, traffic, rate)
            if writes is None or meets_targets(writes, None, between) is False:
                continue
            for reader in units:
                if writer.unit.layout.tensor % reader.unit.layout.tensor:
                    continue  # a rank that writes takes its part of what whole ranks have read
                left = node_cards - decode * writer.unit.cards
                for prefill in range(1, left // reader.unit.cards + 1):
                    split = time_split(reader, writer, prefill, decode, traffic, targets, link_gbs, rate)
                    if split is not None and split.on_time:
                        found.append(split)
                        break  # further readers take more cards
    if not found:
        return None
    least = min(x.cards for x in found)
    here = [x for x in found if x.cards == least]
    best = max(_rate(x) for x in here)
    return min((x for x in here if _rate(x) * same >= best), key=lambda x: (x.prefill + x.decode, x.prefill))


def _is_plain(sized: SizedUnit) -> bool:
    layout = sized.unit.layout
    return layout.nodes == 1 and layout.pipeline == 1 and layout.expert == 1 and not layout.dp_attention


def _write(writer: SizedUnit, decode: int, traffic: Traffic, rate: LoadRates) -> SpeedEstimate | None:
    """Speed of a server that writes answers only, its prompts being in the cache; None where it does not hold them."""
    each = -(-traffic.users // decode)
    if decode > traffic.users or writer.held < each:
        return None
    load = RequestLoad(
        concurrency=each, prompt=1, output=max(1, traffic.output.mean), depth=traffic.depth + traffic.prompt.mean
    )
    found = rate(writer, load)
    return found if found is not None and found.tpot_s is not None and found.tpot_s.value > 0 else None


def time_split(
    reader: SizedUnit,
    writer: SizedUnit,
    prefill: int,
    decode: int,
    traffic: Traffic,
    targets: Targets,
    link_gbs: float,
    rate: LoadRates,
) -> Split | None:
    """So many servers of each role under the traffic; None where they do not hold it, or a speed is not known."""
    mean, output = max(1, traffic.prompt.mean), max(1, traffic.output.mean)
    long = max(mean, traffic.prompt.p95)
    writes = _write(writer, decode, traffic, rate)
    reads, late = (
        rate(reader, RequestLoad(concurrency=1, prompt=n, output=1, depth=traffic.depth)) for n in (mean, long)
    )
    if writes is None or writes.tpot_s is None or reads is None or late is None:
        return None
    reading, between = reads.prefill_tps, writes.tpot_s
    if reading is None or late.prefill_tps is None:
        return None
    handed = (reader.memory.kv_cache.bytes_per_token or 0) * reader.unit.cards / (link_gbs * 1e9)
    fast, likely, slow = (
        solve_closed(traffic, prefill, StageTimes(mean / tps, handed * mean, seconds))
        for tps, seconds in (
            (reading.high, between.low),
            (reading.value, between.value),
            (reading.low, between.high),
        )
    )

    def first_token(tokens: int, tps: Interval) -> Interval:
        return Interval(
            value=likely.wait + tokens / tps.value + handed * tokens + between.value,
            low=fast.wait + tokens / tps.high + handed * tokens + between.low,
            high=slow.wait + tokens / tps.low + handed * tokens + between.high,
        )

    ttft, late_ttft = first_token(mean, reading), first_token(long, late.prefill_tps)
    out = Interval(value=likely.rate * output, low=slow.rate * output, high=fast.rate * output)
    speed = SpeedEstimate(  # figures that are not among these are not known of such a pair
        decode_tps=writes.decode_tps,
        prefill_tps=reading,
        ttft_s=ttft,
        tpot_s=between,
        output_tps=out,
        basis=writes.basis,
        limited=writes.limited,
        prompt_tokens=mean,
        cached_tokens=traffic.depth,
        calibration=writes.calibration,
        notes=(*writes.notes, "servers for prompts and for answers: no measurement of such a pair is behind this"),
    )
    on_time = meets_targets(speed, replace(speed, ttft_s=late_ttft), targets)
    return Split(reader, writer, prefill, decode, speed, on_time)


class ClosedAnswer(Value, frozen=True):
    """Requests a second that are answered, and the mean wait before a prompt is read, seconds."""

    rate: float
    wait: float


def solve_closed(traffic: Traffic, servers: int, times: StageTimes) -> ClosedAnswer:
    """Users who ask again when they are answered: `users = rate x (wait + prompt + handover + output)` (Little's law),
    and the wait at `servers` that read one prompt after the other (Erlang C with Allen and Cunneen's correction).

    The wait rises and the rate falls with it, so halving the interval of the rate finds the only solution.
    """
    alone = times.prompt + times.handover + max(1, traffic.output.mean) * times.between  # the first by a writer, too
    low, high = 0.0, min(traffic.users / alone, servers / times.prompt)
    for _ in range(TURNS):
        rate = (low + high) / 2
        wait = _wait(rate, traffic, servers, times)
        if rate * (alone + wait) > traffic.users:
            high = rate
        else:
            low = rate
    return ClosedAnswer(low, _wait(low, traffic, servers, times))


def _wait(rate: float, traffic: Traffic, servers: int, times: StageTimes) -> float:
    load = rate * times.prompt
    return math.inf if load >= servers else wait_in_line(load, servers, times.prompt, traffic.prompt)


def _rate(split: Split) -> float:
    return split.speed.output_tps.value if split.speed.output_tps is not None else 0.0


def list_plan_servers(
    plan: Plan, entry: Engine, deployment: Deployment | None = None, port: int | None = None
) -> list[Deployment]:
    """The servers of a plan, equal or split by roles, each with its own cards and port. `deployment`: the plan's, with
    another address."""
    own, at = deployment or plan.deployment, port or entry.port or 8000
    if plan.prefill is None:
        return list_servers(own, plan.layout, plan.servers, at)
    reader = replace(plan.prefill, host=own.host, served_name=own.served_name)
    return list_role_servers(reader, own, plan.layout, entry, own.port or at)


def list_role_servers(
    reader: Deployment, writer: Deployment, layout: CardLayout, entry: Engine, port: int
) -> list[Deployment]:
    """The servers of a split, those that read prompts first: each with its cards, a port behind the router's, the
    settings of its role, and the port on which it announces caches."""
    known = entry.disaggregation
    assert known is not None
    out: list[Deployment] = []
    at = 0
    while at < len(layout.devices):
        i = len(out)
        base, role = (reader, known.prefill) if i < layout.prefill else (writer, known.decode)
        cards = layout.devices[at : at + (base.device_count or 1)]
        handshake = known.handshake_port + i * known.handshake_step
        settings: dict[str, Setting] = {**role}
        if known.handshake_flag and i < layout.prefill:
            settings[known.handshake_flag] = handshake
        made = show_devices(with_settings(base, settings), cards)
        if known.handshake_variable:
            environment = {**made.environment, known.handshake_variable: str(handshake)}
            made = replace(made, environment=environment)
        out.append(replace(made, port=port + 1 + i))
        at += len(cards)
    return out
