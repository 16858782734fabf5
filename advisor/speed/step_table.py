"""Seconds of every step that a replica of a deployment may take, by what runs in it: one table for all loads.

A step decodes one token of each running sequence and, where the engine joins them, works on chunks of prompts:

    mixed = ((reading of the step)^p + (products of the step and of the chunks)^p)^(1/p) + launches of a decode step
            + links and scans of the chunks + sequence x (sequences - 1)

with p of `laws`. Engines that give prompts passes of their own take them first and alone, or add them to the step.
With speculative decoding a round makes several tokens: what a token takes of it stands for the decode step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

from advisor import engines
from advisor.deployment import Deployment, MemoryEstimate, UseCase
from advisor.record import Value
from advisor.session import Session
from advisor.speed import laws
from advisor.speed.efficiencies import (
    EfficiencyKeys,
    find_efficiencies,
    find_error_bound,
    load_speed_rules,
    schedules_ahead,
)
from advisor.speed.estimator import Drafted, find_drafted, make_efficiency_keys
from advisor.speed.steps import PassTokens, describe_ranks, make_link_name, plan_pass, plan_passes
from advisor.speed.work import RequestLoad

Prompts = Literal["joined", "first", "added"]  # to passes of decoding; alone, before them; passes between them
MOST_SEQUENCES = 2048  # of the table; more run as so many
ALONE = 1e-9  # a step of prompts alone reads no cache


class StepLimits(Value, frozen=True):
    """What a replica takes at once. Tokens."""

    running: int  # sequences
    pool: int | None  # of the cache; None: each sequence has its own place
    chunk: int  # of a step, decoded ones and those of prompts
    prompts: Prompts
    ahead: bool  # a step is scheduled while the one before it runs


class StepTable(Value, frozen=True):
    """Seconds of the steps of one replica. `memory` and the rest are lists by number of sequences, pairs by depth."""

    limits: StepLimits
    replicas: int
    sequences: tuple[int, ...]
    depth: float  # tokens in the cache of each sequence, of the second of every pair; the first has none
    memory: tuple[tuple[float, float], ...]
    products: tuple[tuple[float, float], ...]
    rest: tuple[tuple[float, float], ...]
    least: float  # a step of so few that no matrix units are used, which larger ones do not undercut
    experts: tuple[float, ...]  # seconds of reading routed experts, by tokens of a step as in `sequences`
    read: tuple[float, float]  # seconds of products of one token of a prompt, at the start and at `depth`
    read_rest: tuple[float, float]  # what else a token costs
    sequence: float
    around: tuple[float, float]  # factors on a step: the shortest and the longest that it may be
    drafted: tuple[float, ...] = ()  # seconds a token over those of a step without speculation, as in `sequences`

    def decode(self, sequences: float, cached: float) -> float:
        """Seconds of a step of so many sequences with so many tokens in the cache, all of them."""
        memory, products, rest = self._parts(sequences, cached)
        seconds = float(laws.overlap_seconds(memory, products)) + rest
        plain = max(self.least, seconds) + self.sequence * (sequences - 1)
        return plain * _interpolate(self.drafted, self.sequences, sequences) if self.drafted else plain

    def step(self, sequences: float, cached: float, tokens: float, position: float) -> float:
        """Seconds of a step that also works on `tokens` of prompts, in the mean at a `position` of theirs."""
        if tokens <= 0:
            return self.decode(sequences, cached)
        at = position / self.depth if self.depth else 0.0
        products = tokens * (self.read[0] + at * (self.read[1] - self.read[0]))
        more = tokens * (self.read_rest[0] + at * (self.read_rest[1] - self.read_rest[0]))
        if self.limits.prompts == "added":
            alone = max(products + more, self.decode(1.0, ALONE))
            return alone + (self.decode(sequences, cached) if sequences else 0.0)
        memory, own, rest = self._parts(max(1.0, sequences), cached if sequences else ALONE)
        memory += self._expert_seconds(sequences + tokens) - self._expert_seconds(max(1.0, sequences))
        late = self.sequence * max(0.0, sequences - 1)
        seconds = float(laws.overlap_seconds(memory, products + (own if sequences else 0.0))) + rest + more + late
        if not (self.drafted and sequences):
            return seconds
        drafted = self.decode(sequences, cached)
        return seconds + drafted - drafted / _interpolate(self.drafted, self.sequences, sequences)

    def find_most_rate(self, prompt: float, cached: float, output: float) -> float:
        """Requests a second at which every step is full, all replicas: no queue is served faster in the mean. `prompt`
        tokens are computed, `cached` ones lie in the cache, `output` ones are answered."""
        kept = prompt + output / 2
        most = min(self.limits.running, self.limits.pool / kept if self.limits.pool else self.limits.running)
        counts = [float(n) for n in self.sequences if n < most] + [max(1.0, most)]
        return self.replicas * max(self._rate_of(n, prompt, cached, output) for n in counts)

    def _rate_of(self, n: float, prompt: float, cached: float, output: float) -> float:
        held = n * (cached + prompt + output / 2)
        tokens, chunk = n / output * prompt, float(self.limits.chunk)
        if self.limits.prompts == "joined":
            tokens = min(tokens, max(1.0, chunk - n))
            seconds = self.step(n, held, tokens, cached + prompt / 2)
            return min(n / output, tokens / prompt) / seconds
        alone = self.step(0.0, 0.0, min(tokens, chunk), cached + prompt / 2) * max(1.0, tokens / chunk)
        return n / output / (self.decode(n, held) + alone)

    def _parts(self, sequences: float, cached: float) -> tuple[float, float, float]:
        i, share = _find_place(self.sequences, sequences)
        at = cached / sequences / self.depth if self.depth else 0.0

        def between(table: tuple[tuple[float, float], ...]) -> float:
            low = table[i][0] + at * (table[i][1] - table[i][0])
            high = table[i + 1][0] + at * (table[i + 1][1] - table[i + 1][0])
            return low + share * (high - low)

        return between(self.memory), between(self.products), between(self.rest)

    def _expert_seconds(self, tokens: float) -> float:
        return _interpolate(self.experts, self.sequences, tokens) if self.experts else 0.0


def _interpolate(values: Sequence[float], sequences: Sequence[int], n: float) -> float:
    i, share = _find_place(sequences, n)
    return values[i] + share * (values[i + 1] - values[i])


def _find_place(sequences: Sequence[int], n: float) -> tuple[int, float]:
    """The row below a number, and how far it is on the way to the next one; at most the last."""
    i = min(len(sequences) - 2, max(0, bisect_right(sequences, n) - 1))
    return i, min(1.0, max(0.0, (n - sequences[i]) / (sequences[i + 1] - sequences[i])))


def make_step_table(
    deployment: Deployment, estimate: MemoryEstimate, session: Session, depth: int, use_case: UseCase = "chat"
) -> StepTable | None:
    """The steps of a deployment whose memory is `estimate`, for requests of up to `depth` tokens; `use_case`: what they
    write, where it is drafted. None where its speed is not known, as for `estimate_speed`. Raises BadInput where a
    setting allows no answer."""
    rules = session.rules
    if estimate.refused:
        return None
    quantization = rules.quantization(deployment.quantization)
    entry = engines.find_running(deployment, rules)[1]
    known = describe_ranks(deployment, estimate, entry, quantization, rules)
    if known is None or (not known[2].gbs and known[2].host_tflops is None):
        return None
    work, plan, rates = known
    if plan.from_disk and rates.disk_gbs is None:
        return None
    keys = make_efficiency_keys(deployment, quantization, plan, make_link_name(plan, rates), rules)
    efficiencies = find_efficiencies(load_speed_rules(rules), keys)
    stages = plan.stages if plan.server else 1
    ahead = schedules_ahead(entry, deployment.engine_version)
    prompts: Prompts = "added" if not plan.server else "joined" if plan.joins else "first"
    most = min(MOST_SEQUENCES, max(2, plan.most_running, plan.chunk if work.experts else 0))
    sequences = (*(2**i for i in range(most.bit_length()) if 2**i < most), most)

    def decode(n: float, cached: float) -> laws.PassSeconds:
        tokens = PassTokens(max(1.0, n / stages), 1.0, cached)
        return laws.split_pass(plan_pass(deployment, work, plan, rates, tokens, decode=True), efficiencies.decode)

    rows = [(decode(n, 0.0), decode(n, float(depth))) for n in sequences]
    few = decode(float(plan.vector_tokens), 0.0).whole if 0 < plan.vector_tokens < most else 0.0
    experts = [
        plan_pass(deployment, work, plan, rates, PassTokens(float(n), 1.0, 0.0), decode=True).experts_s
        / (efficiencies.decode.experts * efficiencies.decode.memory)
        for n in (sequences if work.experts else ())
    ]

    def read(before: float) -> tuple[float, float]:
        chunk = float(max(1, min(plan.chunk, depth)))
        cost = plan_pass(deployment, work, plan, rates, PassTokens(1.0, chunk, before), decode=False)
        if prompts == "added":
            return laws.pass_seconds(cost, efficiencies.prefill) / chunk, 0.0
        added = laws.split_added(cost, efficiencies.prefill)
        return added.products / chunk / stages, added.rest / chunk / stages

    first, last = read(0.0), read(float(depth))
    bound = find_error_bound(load_speed_rules(rules), keys, "tpot", "static", "closed").factor
    half = max(1, depth // 2)
    loads = [RequestLoad(concurrency=n * plan.replicas, prompt=half, output=half, use_case=use_case) for n in sequences]
    drafted = _list_drafted(deployment, estimate, session, loads, keys)
    faster = min((d.least / d.usual for d in drafted), default=1.0)
    slower = max((d.most / d.usual for d in drafted), default=1.0)
    return StepTable(
        limits=StepLimits(
            running=plan.most_running,
            pool=plan.pool_tokens // plan.replicas if plan.pool_tokens else None,
            chunk=plan.chunk,
            prompts=prompts,
            ahead=ahead,
        ),
        replicas=plan.replicas,
        sequences=sequences,
        depth=float(depth),
        memory=tuple((a.memory, b.memory) for a, b in rows),
        products=tuple((a.products, b.products) for a, b in rows),
        rest=tuple((a.rest, b.rest) for a, b in rows),
        least=few,
        experts=tuple(experts),
        read=(first[0], last[0]),
        read_rest=(first[1], last[1]),
        sequence=0.0 if ahead else efficiencies.waits.sequence,  # scheduling runs while the devices work
        around=(faster / bound, slower * bound),
        drafted=tuple(d.usual / d.plain for d in drafted),
    )


def _list_drafted(
    deployment: Deployment,
    estimate: MemoryEstimate,
    session: Session,
    loads: Sequence[RequestLoad],
    keys: EfficiencyKeys,
) -> list[Drafted]:
    """What speculative decoding makes of a token under each of the loads; empty where the settings ask for none."""
    rules, out = session.rules, []
    entry = engines.find_running(deployment, rules)[1]
    for load in loads:
        made = plan_passes(deployment, estimate, entry, rules.quantization(deployment.quantization), rules, load)
        drafted = find_drafted(deployment, estimate, session, load, made[0], keys) if made is not None else None
        if drafted is None:
            return []
        out.append(drafted)
    return out
