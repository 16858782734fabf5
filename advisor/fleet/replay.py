"""`advise replay`: a plan that was kept, or a launch file, under a trace of requests."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from advisor import engines
from advisor.checks.one_file import read_source
from advisor.checks.resolve.judge import check_launch
from advisor.checks.run import make_options, make_run_checker
from advisor.deployment import Deployment, Workload
from advisor.engines import capacity
from advisor.errors import BadFile, BadInput
from advisor.estimation import estimate, find_stated_machine
from advisor.files import parse_json, read_bytes
from advisor.fleet.plan_types import MOST_BYTES, PlannedReplica, read_plan
from advisor.fleet.render import group_replicas, make_replica_deployment, read_plan_file
from advisor.machines.types import Machine
from advisor.near import near_matches
from advisor.planning.arrivals import ServerGroup
from advisor.planning.replay import ReplayedTrace, replay
from advisor.planning.targets import TargetAnswer, answer_targets, find_named_limits
from advisor.planning.trace import read_requests
from advisor.planning.types import CardLayout
from advisor.questions import Asking
from advisor.questions.files import DeploymentFilesQuestion, ReplayQuestion
from advisor.record import Answer, Record, Value, pick_fields
from advisor.session import Session
from advisor.speed.efficiencies import load_engine_rules
from advisor.speed.step_table import make_step_table


class ReplayedServers(Record, frozen=True, kw_only=True):
    """Equal servers of the plan."""

    servers: int
    model: str
    engine: str
    quantization: str
    devices: int | None  # of one; None: all of the machine


class Replay(Answer, frozen=True, kw_only=True):
    """What a plan does under a trace of requests."""

    servers: tuple[ReplayedServers, ...]
    replayed: ReplayedTrace
    targets: TargetAnswer | None  # None: none was named
    notes: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """0 the requests are served and the targets are met, 1 they are not, 2 that is not known."""
        met = self.targets.met if self.targets is not None else self.replayed.arrivals.stable
        return {True: 0, False: 1, None: 2}[met]


class SavedMemory(Value, frozen=True):
    """Of the answer of `recommend`."""

    context_length: int
    sequences: int = 1


class SavedChoice(Value, frozen=True):
    """What `recommend` chose."""

    engine: str
    model: str
    quantization: str
    settings: dict[str, str | int | float | bool]
    memory: SavedMemory
    layout: CardLayout
    copies: int
    engine_version: str | None = None


class SavedAdvice(Value, frozen=True):
    """The answer of `recommend`, as far as it is replayed."""

    machine: Machine
    chosen: SavedChoice


class PlannedServers(Value, frozen=True):
    """So many equal servers."""

    count: int
    deployment: Deployment


def answer_question(question: ReplayQuestion, session: Session, asking: Asking) -> Replay:
    """What the plan does. Raises UnknownName, BadFile, BadInput."""
    planned = read_servers(question, session, asking)
    requests = read_requests(Path(question.trace))
    groups, longest, notes = [], 0, []
    mean = max(1, sum(r.prompt + r.output for r in requests) // max(1, len(requests)))
    for part in planned:
        memory = estimate(part.deployment, session)
        table = make_step_table(part.deployment, memory, session, min(mean, memory.context_length))
        if table is None:
            raise BadInput(f"{part.deployment.model.id}: the speed of a step is not known, so nothing can be replayed")
        entry = engines.find_running(part.deployment, session.rules)[1]
        keeps = capacity.keeps_prefixes(part.deployment, entry)
        groups.append(ServerGroup(replace(table, replicas=table.replicas * part.count), keeps))
        longest = max(longest, memory.context_length)
    cut = sum(r.prompt + r.output > longest for r in requests)
    if cut:
        notes.append(f"{cut:,} requests are longer than the context of {longest:,} tokens and are cut to it")
    workload = Workload(**pick_fields(question, "ttft_s", "tpot_s", "e2e_s", "confidence"))
    known, limits = load_engine_rules(session.rules).arrivals, find_named_limits(workload)
    found, verdicts = replay(groups, requests, longest, limits, known, question.confidence == "safe")
    if found.left_out:
        notes.append(f"the first {found.requests:,} requests are replayed, {found.left_out:,} are not")
    return Replay(
        servers=tuple(
            ReplayedServers(
                servers=p.count,
                model=p.deployment.model.id,
                devices=p.deployment.device_count,
                **pick_fields(p.deployment, "engine", "quantization"),
            )
            for p in planned
        ),
        replayed=found,
        targets=answer_targets(workload, verdicts, None),
        notes=tuple(notes),
    )


def read_servers(question: ReplayQuestion, session: Session, asking: Asking) -> list[PlannedServers]:
    """The servers of a plan, or those that a launch file starts. Raises UnknownName, BadFile, BadInput."""
    text = read_bytes(question.plan, MOST_BYTES)
    data = parse_json(text, Path(question.plan)) if text.lstrip().startswith(b"{") else None
    machine = find_stated_machine(question, session.rules, asking)
    if isinstance(data, dict) and "replicas" in data:
        return _read_fleet(question, session)
    if isinstance(data, dict) and "chosen" in data:
        if data["chosen"] is None:
            raise BadFile(question.plan, "holds no plan: nothing fitted")
        return [_read_choice(read_plan(question.plan, SavedAdvice), machine, session)]
    return _read_launches(question, text.decode("utf-8", "replace"), session, asking)


def _read_fleet(question: ReplayQuestion, session: Session) -> list[PlannedServers]:
    plan = read_plan_file(question.plan)
    names = list(dict.fromkeys(r.name for r in plan.replicas))
    asked = question.model or (names[0] if len(names) == 1 else None)
    mine = [r for r in plan.replicas if asked in (r.name, r.model)]
    if not mine:
        which = f"{asked!r} is not in the plan" if asked else "say with --model whose requests the trace has"
        raise BadInput(f"{which}: it serves {', '.join(names[:20])}", near_matches(asked or "", names))
    kinds = group_replicas(replace(plan, replicas=tuple(mine)), session.rules)
    return [PlannedServers(len(k.replicas), k.deployment) for k in kinds]


def _read_choice(advice: SavedAdvice, machine: Machine | None, session: Session) -> PlannedServers:
    chosen, layout = advice.chosen, advice.chosen.layout
    if layout.prefill:
        raise BadInput("servers for prompts and servers for answers are not replayed")
    servers = max(1, chosen.copies // (1 if layout.dp_attention else layout.data))
    nodes = -(-layout.nodes // servers)
    one = PlannedReplica(
        name=chosen.model,
        pool="",
        hardware=None,
        nodes=("",) * nodes,
        devices=len(layout.devices) * layout.nodes // servers,
        device_indices=(),
        port=0,
        command="",
        load=0.0,
        capacity=0.0,
        context_length=chosen.memory.context_length,
        sequences=max(1, chosen.memory.sequences),
        **pick_fields(chosen, "model", "engine", "engine_version", "quantization", "settings"),
    )
    return PlannedServers(servers, make_replica_deployment(one, session.rules, machine or advice.machine))


def _read_launches(question: ReplayQuestion, text: str, session: Session, asking: Asking) -> list[PlannedServers]:
    asked = DeploymentFilesQuestion(files=(question.plan,), **pick_fields(question, "hardware", "snapshot"))
    checker = make_run_checker(session, make_options(asked, asking))
    path = Path(question.plan)
    found = read_source(text, question.plan, path.parent, checker)
    checked = [check_launch(x, checker.book.know, checker.options, checker.machines, session) for x in found.launches]
    out = [PlannedServers(c.judged.replicas or 1, c.deployment) for c in checked if c.deployment is not None]
    if not out:
        why = [w for c in checked for w in c.judged.why] + ([found.problem.message] if found.problem else [])
        raise BadInput(f"{question.plan}: no launch that can be replayed: {'; '.join(why[:3]) or 'none was found'}")
    if len({p.deployment.model.id for p in out}) > 1:
        raise BadInput(f"{question.plan} starts several models: a trace is of one")
    return out
