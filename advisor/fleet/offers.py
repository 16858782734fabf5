"""What every pool offers for every model, and the covering problem that follows from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import ceil, inf
from pathlib import Path

import msgspec
from msgspec.structs import replace

from advisor.ability.lookup import classify_licence
from advisor.advice.hardware.budget import load_budget_rules
from advisor.advice.hardware.prices import catalogue_prices, read_prices
from advisor.advice.models.choice import ALLOWED
from advisor.catalog import Catalog, catalog
from advisor.catalog.resolve import ResolvedModel, resolve_or_size
from advisor.errors import AdvisorError, BadInput
from advisor.fleet.candidates import (
    PARTS,
    Confidence,
    LaunchParts,
    Offer,
    Refusal,
    ReplicaCandidate,
    list_candidates,
    settle,
)
from advisor.fleet.demand import ModelDemand, load_fleet_rules
from advisor.fleet.inventory.labels import read_node_words
from advisor.fleet.plan_types import Unserved
from advisor.fleet.problem import Demand, DevicePool, FleetProblem, NodeGroup, Variant
from advisor.fleet.types import Fleet, Pool
from advisor.machines.types import Machine
from advisor.money import convert_currency
from advisor.record import Value
from advisor.session import Session

Progress = Callable[[int, int], None]  # (done, of)
LEAST_FOR_JOBS = 64  # questions: fewer take less than starting processes does
CHUNK = 10  # questions that a process takes at once
UNPRICED = 1.0  # a device and hour, where no price is known at all: the fewest devices are taken
WIDER = 1.01  # times the capacity that a wider format may lack and still be taken


class PlannedDemand(Value, frozen=True):
    """A demand with its model, and the reason where it is not looked at."""

    demand: ModelDemand
    found: ResolvedModel
    refusal: Refusal | None = None


class PoolOffers(Value, frozen=True):
    """Offers by (demand, pool), both by position."""

    pools: tuple[Pool, ...]  # the usable ones
    demands: tuple[PlannedDemand, ...]
    offers: Mapping[tuple[int, int], Offer]
    known: Mapping[Hashable, Offer]  # by demand and node, for further collections


class Question(Value, frozen=True):
    """A demand on a node like this one, of which there are so many (up to what a plan takes together)."""

    demand: int
    machine: Machine
    node_count: int


class PosedProblem(Value, frozen=True):
    """The covering problem, and the candidate that each of its variants is."""

    problem: FleetProblem
    candidates: tuple[ReplicaCandidate, ...]
    groups: tuple[str, ...]


class PosedDemand(Value, frozen=True):
    """A demand of the problem, the least that a replica has to serve of it, and the most that one counts for."""

    demand: Demand
    least: float
    most: float


class NodePrices(Value, frozen=True):
    """By group of pools: the price of one node an hour; groups without one are not in it."""

    by_group: Mapping[str, float]
    currency: str | None
    notes: tuple[str, ...]


def find_models(
    demands: Sequence[ModelDemand], rules: Catalog, unsized: list[Unserved] | None = None
) -> tuple[PlannedDemand, ...]:
    """The models of the demands; next to others, those of a kind that nothing here sizes (speech, images) go to
    `unsized`. Raises what `resolve_or_size` raises, and BadInput for a model without layers."""
    out = []
    for demand in demands:
        try:
            found = resolve_or_size(demand.model, rules)
        except AdvisorError as error:
            if unsized is None or type(error) is not AdvisorError or len(unsized) == len(demands) - 1:
                raise  # a name that may be mistaken, or nothing else to plan
            helps = "cards of its own, left out of the nodes file"
            why = {"code": error.code, "why": error.message, "what_would_help": helps}
            unsized.append(Unserved(model=demand.model, name=demand.name, **why))
            continue
        if found.model.layout is None:
            raise BadInput(
                f"{demand.model}: its layers are not in the catalogue, so nothing can be sized; "
                "give a directory with config.json"
            )
        refusal, what = None, found.model.kind
        if demand.reranks and what != "reranker":
            raise BadInput(f"{demand.model} is no reranker ({what}): `use_case: rerank` takes models that score pairs")
        if what != "chat":  # requests are read, and nothing is written
            work = demand.workload
            demand = replace(demand, workload=replace(work, use_case="embeddings", output_tokens=None))
        if demand.licence is not None:
            kind = classify_licence(found.model.license, rules)
            if kind not in ALLOWED[demand.licence]:
                text = f"its licence ({found.model.license or 'unknown'}) is not among `{demand.licence}` ones"
                refusal = Refusal("licence", text)
        out.append(PlannedDemand(demand, found, refusal))
    return tuple(out)


PLACES = {"region": "topology.kubernetes.io/region", "zone": "topology.kubernetes.io/zone"}
SPOT = re.compile(r"spot|preemptible", re.I)


def is_spot(pool: Pool, rules: Catalog) -> bool:
    """Whether labels say that its nodes may be taken away: `capacity-type: spot`, `gke-spot: "true"`."""
    kinds = read_node_words(rules).capacity_types
    return any(
        SPOT.search(value) or (SPOT.search(key) and value.lower() in ("true", "1", "yes"))
        for key, value in pool.labels.items()
        if SPOT.search(key) or "capacity" in key.lower() or key in kinds
    )


def may_stand_on(demand: ModelDemand, pool: Pool, rules: Catalog) -> bool:
    """Whether a pool is where the demand wants its replicas."""
    own = {"pool": pool.id, **{word: pool.labels.get(label) for word, label in PLACES.items()}, **pool.labels}
    placed = all(v in (own.get(k) or "", *(own.get(f"{k}s") or "").split(",")) for k, v in demand.where.items())
    return placed and demand.spot in (None, is_spot(pool, rules))


def list_usable_pools(fleet: Fleet) -> tuple[Pool, ...]:
    """Pools that plans can use: their memory is known, and devices are known to be free."""
    return tuple(
        p for p in fleet.pools if p.memory_known and (p.devices == 0 or (p.devices_free is not None and p.devices_free))
    )


def free_machine(pool: Pool) -> Machine:
    """A node of the pool with its free devices only."""
    if not pool.devices or is_sliced(pool):  # of slices one is visible: no server spans several
        return pool.machine
    free = find_free_indices(pool)
    devices = tuple(
        d if position in free else replace(d, visible=False) for position, d in enumerate(pool.machine.devices)
    )
    return replace(pool.machine, devices=devices) if len(free) < pool.devices else pool.machine


def is_sliced(pool: Pool) -> bool:
    """Whether its devices are slices of cards (MIG), which have no numbers that a launch could name."""
    return any(d.mig_profile is not None for d in pool.machine.usable_devices)


def find_free_indices(pool: Pool) -> tuple[int, ...]:
    """Positions of the free devices of a node; the first ones where the source only counts them."""
    if pool.free_indices is not None:
        return pool.free_indices
    return tuple(range(pool.devices_free if pool.devices_free is not None else pool.devices))


def collect_offers(
    fleet: Fleet,
    demands: Sequence[PlannedDemand],
    session: Session,
    progress: Progress | None = None,
    jobs: int = 1,
    known: Mapping[Hashable, Offer] | None = None,
) -> PoolOffers:
    """Every offer, each worked out once for equal machines; many of them over `jobs` processes.

    `known`: those of another collection, which need not be worked out again.
    """
    pools = list_usable_pools(fleet)
    most = load_fleet_rules(session.rules).most_nodes
    machines = [(free_machine(p), min(len(p.node_names), most)) for p in pools]
    encoded = [(msgspec.json.encode(machine), count) for machine, count in machines]
    keys: dict[tuple[int, int], Hashable] = {}
    questions: dict[Hashable, Question] = {}
    for d, planned in enumerate(demands):
        if planned.refusal is None:
            asked = msgspec.json.encode(planned.demand)
            for p, (machine, count) in enumerate(machines):
                if not may_stand_on(planned.demand, pools[p], session.rules):
                    continue
                keys[d, p] = (asked, *encoded[p])
                questions.setdefault(keys[d, p], Question(d, machine, count))
    answers = dict(known or {})
    new = [key for key in questions if key not in answers]
    found = _answer_all([questions[key] for key in new], demands, session, progress, jobs)
    answers |= zip(new, found, strict=True)
    return PoolOffers(pools, tuple(demands), {place: answers[key] for place, key in keys.items()}, answers)


def _answer_all(
    questions: Sequence[Question],
    demands: Sequence[PlannedDemand],
    session: Session,
    progress: Progress | None,
    jobs: int,
) -> list[Offer]:
    show = progress or (lambda done, of: None)
    out: list[Offer] = []
    if jobs <= 1 or len(questions) < LEAST_FOR_JOBS:
        for question in questions:
            show(len(out) + 1, len(questions))
            out.append(_answer(demands[question.demand], question, session))
        return out
    from advisor.workers import make_pool

    chunks = [questions[k : k + CHUNK] for k in range(0, len(questions), CHUNK)]
    with make_pool(jobs) as pool:
        waiting = [pool.submit(_answer_chunk, session.rules.roots, [(demands[q.demand], q) for q in c]) for c in chunks]
        for answered in waiting:
            out += answered.result()
            show(len(out), len(questions))
    return out


def _answer(planned: PlannedDemand, question: Question, session: Session) -> Offer:
    return list_candidates(planned.demand, planned.found, question.machine, question.node_count, session)


def _answer_chunk(roots: Sequence[Path], chunk: Sequence[tuple[PlannedDemand, Question]]) -> list[Offer]:
    """Offers whose candidates are figures alone, in a worker process."""
    rules = catalog(roots)
    offers = [_answer(planned, question, Session(rules)) for planned, question in chunk]
    return [replace(offer, candidates=[_strip(c) for c in offer.candidates]) for offer in offers]


def _strip(candidate: ReplicaCandidate) -> ReplicaCandidate:
    return replace(candidate, made=None, pending=tuple(replace(a, made=None) for a in candidate.pending))


def complete(offers: PoolOffers, demand: int, pool: int, candidate: ReplicaCandidate, session: Session) -> LaunchParts:
    """What a candidate's launch is made of; worked out again where another process found it."""
    if candidate.made is not None:
        return candidate.made
    here = offers.pools[pool]
    question = Question(
        demand, free_machine(here), min(len(here.node_names), load_fleet_rules(session.rules).most_nodes)
    )
    again = _answer(offers.demands[demand], question, session)
    found = settle(next(c for c in again.candidates if c.kind == candidate.kind))
    assert found.made is not None
    return found.made


def pose_problem(
    found: PoolOffers,
    prices: NodePrices,
    confidence: Confidence,
    likely_for: Sequence[tuple[int, str | None]] = (),
    left: Sequence[float] | None = None,
    apart: int = 0,
    settled: bool = False,
) -> PosedProblem:
    """The problem at one confidence.

    `likely_for`: (demand, accelerator) whose speed counts as measured; `left`: what of each demand is still to be
    served; `apart`: further nodes than the fewest that replicas of a demand stand on which survives a loss; `settled`:
    with candidates alone whose capacity is known, and not only bounded.
    """
    groups = tuple(dict.fromkeys(p.group for p in found.pools))
    sizes = {p.group: len(p.node_names) for p in found.pools}
    priced = [_fallback_price(g, found, prices) for g in groups]
    shared = any(d.demand.share_card for d in found.demands)
    unit = round(1 / min(PARTS)) if shared else 1
    pools = tuple(DevicePool(groups.index(p.group), unit * (len(find_free_indices(p)) or 1)) for p in found.pools)
    variants: list[Variant] = []
    candidates: list[ReplicaCandidate] = []
    for (d, p), offer in found.offers.items():
        accelerator = find_accelerator(found.pools[p])
        mode: Confidence = "likely" if (d, accelerator) in likely_for else confidence
        best: dict[tuple[int, int], ReplicaCandidate] = {}
        for candidate in offer.candidates:
            key = (round(unit * candidate.devices * candidate.part), candidate.nodes)
            amount = candidate.amount(mode)
            if settled and candidate.pending:
                continue
            if amount > (best[key].amount(mode) if key in best else 0.0):
                best[key] = candidate
        for (devices, nodes), candidate in best.items():
            variants.append(Variant(d, p, devices, nodes, candidate.amount(mode), float(nodes > 1)))
            candidates.append(candidate)
    amounts = left if left is not None else [planned.demand.amount for planned in found.demands]
    most = [max((v.capacity for v in variants if v.demand == d), default=0.0) for d in range(len(amounts))]
    posed = [_pose_demand(d.demand, a, m, apart) for d, a, m in zip(found.demands, amounts, most, strict=True)]
    able = [k for k, v in enumerate(variants) if v.capacity >= posed[v.demand].least]
    variants = [replace(variants[k], capacity=min(variants[k].capacity, posed[variants[k].demand].most)) for k in able]
    candidates = [candidates[k] for k in able]
    demands = tuple(p.demand for p in posed)
    problem = FleetProblem(
        tuple(NodeGroup(sizes[g], priced[k]) for k, g in enumerate(groups)), pools, tuple(variants), demands, unit
    )
    return PosedProblem(problem, tuple(candidates), groups)


def _pose_demand(demand: ModelDemand, amount: float, most: float, apart: int) -> PosedDemand:
    """A demand of which one replica serves `most`. None counts for more than its share of the least number, so at least
    as many are taken. Of k equal parts on k nodes k - N serve it after N are lost: k of them are asked for, of replicas
    that serve one each."""
    if not demand.survive:
        share = amount / demand.least if demand.least > 1 else inf
        return PosedDemand(Demand(amount, demand.priority, demand.variants, demand.spread), 0.0, share)
    stay = max(ceil(amount / most - 1e-9) if most else 1, demand.least - demand.survive, 1) + apart
    nodes, part = stay + demand.survive, amount / stay
    asked = Demand(part * nodes, demand.priority, demand.variants, max(demand.spread, nodes))
    return PosedDemand(asked, part * (1 - 1e-9), part)


def find_accelerator(pool: Pool) -> str | None:
    """The catalogue's name of the devices of a pool."""
    first = next(iter(pool.machine.usable_devices), None)
    return first.accelerator if first is not None else None


def _fallback_price(group: str, found: PoolOffers, prices: NodePrices) -> float:
    """The price of a node; of one without a price what the dearest device known costs, for each of its devices."""
    if group in prices.by_group:
        return prices.by_group[group]
    devices = sum(max(1, p.devices) for p in found.pools if p.group == group)
    each = [
        prices.by_group[p.group] / sum(max(1, q.devices) for q in found.pools if q.group == p.group)
        for p in found.pools
        if p.group in prices.by_group
    ]
    return devices * max(each, default=UNPRICED)


def find_wider(found: PoolOffers, demand: int, pool: int, candidate: ReplicaCandidate) -> list[ReplicaCandidate]:
    """Other formats of the same engine and as many devices with more bits, the widest first."""
    offer = found.offers[demand, pool]
    others = [
        offer.settle(c)
        for c in list(offer.candidates)
        if (c.devices, c.nodes, c.part, c.engine)
        == (candidate.devices, candidate.nodes, candidate.part, candidate.engine)
        and c.bits > candidate.bits
    ]
    return sorted(others, key=lambda c: -c.bits)


def find_node_prices(fleet: Fleet, path: str | None, rules: Catalog) -> NodePrices:
    """The price of a node of each group. A price of the inventory comes first. Raises what `read_prices` raises."""
    budget = load_budget_rules(rules)
    if path is not None:
        offers = read_prices(path, rules, budget.counts, budget.rates.per_usd, budget.hours_per_month).prices
        basis = f"prices of {path}"
    else:
        offers = catalogue_prices(rules, budget, ()).prices
        basis = "prices of cards as clouds rent them (advise hardware)"
    own = any(p.price_per_hour is not None for p in fleet.pools)
    currency = fleet.currency or ("USD" if not own else None)
    hourly: dict[str, float] = {}
    for offer in offers:
        if offer.per_hour is None or offer.kind == "spot" or currency is None:
            continue
        amount = convert_currency(offer.per_hour, offer.currency, currency, budget.rates.per_usd)
        hourly[offer.accelerator] = min(amount, hourly.get(offer.accelerator, amount))
    groups: dict[str, list[Pool]] = {}
    for pool in fleet.pools:
        groups.setdefault(pool.group, []).append(pool)
    found: dict[str, float] = {}
    lacking, used = [], False
    for group, pools in groups.items():
        if pools[0].price_per_hour is not None:
            found[group] = pools[0].price_per_hour
            continue
        amounts = [_price_devices(p, hourly) for p in pools]
        known = [a for a in amounts if a is not None]
        if known and len(known) == len(amounts) and sum(known) > 0:
            found[group], used = sum(known), True
        else:
            lacking.append(pools[0].id)
    notes = [f"{basis}: {currency} a card and hour"] if used else []
    if lacking:
        shown = ", ".join(lacking[:4]) + (f" and {len(lacking) - 4} more" if len(lacking) > 4 else "")
        notes.append(f"no price is known of nodes of {shown}: a plan that uses them has no cost")
    if not found:
        notes.append("no prices: the plan uses the fewest devices")
    return NodePrices(found, currency, tuple(notes))


def _price_devices(pool: Pool, hourly: Mapping[str, float]) -> float | None:
    """What renting the devices of a node costs, the lost ones too; None where that is not known."""
    first = next(iter(pool.machine.usable_devices), None)
    amount = hourly.get(first.accelerator or "") if first is not None and first.mig_profile is None else None
    return (pool.whole or pool.devices) * amount if amount is not None else None
