"""`advise fleet check`: is everything still placeable, also after losing nodes; do deployed files match the plan."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.errors import BadFile, BadInput
from advisor.fleet.candidates import Offer
from advisor.fleet.offers import collect_offers, find_models, find_node_prices
from advisor.fleet.plan import FleetRequest, plan_fleet
from advisor.fleet.plan_types import FleetCost, FleetPlan, Unserved
from advisor.fleet.surviving import find_least_left, solve_demands
from advisor.fleet.types import Fleet, Pool
from advisor.record import Answer, Record
from advisor.session import Session

MOST_LOST = 3
MOST_CASES = 2000


class LossAnswer(Record, frozen=True, kw_only=True):
    """What happens when so many nodes (or one device of a node) are gone."""

    lost: tuple[str, ...]  # pools that lose a node each; of a device `one device of a node of POOL`
    served: bool
    unserved: tuple[str, ...]
    left: float | None = None  # before anything is started: the least share of a model that the plan still serves


class DeployedDifference(Record, frozen=True, kw_only=True):
    """A kind of replica whose number in the deployed files is not that of the plan."""

    model: str
    engine: str
    devices: int | None  # of one replica; None = the files do not tell
    planned: int
    deployed: int


class FleetCheck(Answer, frozen=True, kw_only=True):
    """The answer to `advise fleet check`. `survives` and `differences` are null where that was not asked."""

    placeable: bool
    unserved: tuple[Unserved, ...]
    cost_per_hour: FleetCost
    lose: int
    survives: bool | None
    losses: tuple[LossAnswer, ...]  # the cases that are not survived, all cases if every one is
    differences: tuple[DeployedDifference, ...] | None  # None: no files were given
    notes: tuple[str, ...]

    @property
    def plan(self) -> FleetPlan:
        """The plan that was checked. Raises LookupError for an answer that was read from JSON."""
        return self.read_inner(FleetPlan)

    @property
    def exit_status(self) -> int:
        """0 placeable, survived and as planned; 1 not; 2 cannot tell."""
        return 1 if self.survives is False or self.differences else self.plan.exit_status


def check_fleet(request: FleetRequest, lose: int, files: Sequence[str], session: Session) -> FleetCheck:
    """Whether the demands are placeable, with `lose` nodes gone wherever they are missed most, and as deployed.

    Raises BadInput for more nodes than are looked at, and what `plan_fleet` raises.
    """
    if lose > MOST_LOST:
        raise BadInput(f"--lose {lose}: at most {MOST_LOST} nodes are looked at")
    plan = plan_fleet(request, session)
    losses: tuple[LossAnswer, ...] = ()
    if lose and not plan.unserved:
        losses = tuple(_lose_nodes(request, lose, plan, session))
        failing = tuple(x for x in losses if not x.served)
        losses = failing or losses
    answer = FleetCheck(
        placeable=not plan.unserved,
        unserved=plan.unserved,
        cost_per_hour=plan.cost_per_hour,
        lose=lose,
        survives=None if not lose or plan.unserved else all(x.served for x in losses),
        losses=losses,
        differences=compare_deployed(plan, files, session) if files else None,
        notes=plan.notes,
    )
    return answer.keep(plan)


def _lose_nodes(request: FleetRequest, lose: int, plan: FleetPlan, session: Session) -> Iterator[LossAnswer]:
    """Every way to lose so many nodes: equal nodes are alike, so one of each group stands for all."""
    rules = session.rules
    demands = find_models(request.demands, rules, [])
    groups = {p.group: p for p in request.fleet.pools}
    cases = itertools.islice(itertools.combinations_with_replacement(groups, lose), MOST_CASES)
    known: Mapping[Hashable, Offer] = {}
    for case in cases:
        gone = Counter(case)
        if any(n > len(groups[g].node_names) for g, n in gone.items()):
            continue
        rest = without_nodes(request.fleet, gone)
        offers = collect_offers(rest, demands, session, jobs=request.jobs, known=known)
        known = offers.known
        prices = find_node_prices(rest, request.prices, rules)
        served = solve_demands(offers, prices, request.confidence, rules)[1].served
        missing = tuple(d.demand.name for d, ok in zip(demands, served, strict=True) if not ok)
        yield LossAnswer(
            lost=tuple(groups[g].id for g in case),
            served=not missing,
            unserved=missing,
            left=_find_share(request, plan, [groups[g] for g in case]),
        )


def _find_share(request: FleetRequest, plan: FleetPlan, gone: Sequence[Pool]) -> float:
    """The least share of a demand that replicas on other nodes serve, one node of each of these pools being lost."""
    nodes = frozenset(n for pool in gone for n in pool.node_names)
    shares = [
        find_least_left([r for r in plan.replicas if r.name == d.name], len(gone), nodes) / d.amount
        for d in request.demands
    ]
    return round(max(0.0, min(1.0, *shares)), 4)


def without_nodes(fleet: Fleet, gone: Counter[str]) -> Fleet:
    """The fleet without so many nodes of each group, the last ones."""
    left: list[Pool] = []
    for pool in fleet.pools:
        names = pool.node_names[: len(pool.node_names) - gone.get(pool.group, 0)]
        if names:
            left.append(replace(pool, node_names=names))
    return replace(fleet, pools=tuple(left))


def compare_deployed(plan: FleetPlan, files: Sequence[str], session: Session) -> tuple[DeployedDifference, ...]:
    """Kinds of replicas that the files have more or fewer of than the plan. Raises BadFile."""
    from advisor.checks.one_file import CheckOptions
    from advisor.checks.run import check_files, find_files

    options = CheckOptions(named=frozenset(files), fit=False)
    report = check_files(list(find_files(files)), options, session)
    for problem in report.problems:
        if not problem.passed_over:
            raise BadFile(problem.file, problem.message, problem.line)
    deployed: Counter[tuple[str, str]] = Counter()
    for found in report.deployments:
        if found.model:
            deployed[_known_model(found.model, session.rules), found.engine] += (
                1 if found.replicas is None else found.replicas
            )
    planned = Counter((r.model, r.engine) for r in plan.replicas)
    devices = {(r.model, r.engine): r.devices for r in plan.replicas}
    return tuple(
        DeployedDifference(
            model=kind[0],
            engine=kind[1],
            devices=devices.get(kind),
            planned=planned.get(kind, 0),
            deployed=deployed.get(kind, 0),
        )
        for kind in sorted({*planned, *deployed})
        if planned.get(kind, 0) != deployed.get(kind, 0)
    )


def _known_model(name: str, rules: Catalog) -> str:
    """The catalogue's name of a model; the name itself where it has none."""
    from advisor.catalog.resolve import resolve_model
    from advisor.errors import AdvisorError

    try:
        return resolve_model(name, rules).model.id
    except AdvisorError:
        return name
