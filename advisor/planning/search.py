"""The best plan of one engine for a model on a machine, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from advisor import engines, formats
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.filters import judge_engine
from advisor.decision.types import Reason
from advisor.engines.additions import run_from_disk
from advisor.errors import BadInput
from advisor.planning import objective
from advisor.planning.arrange import plan_attempt
from advisor.planning.candidates import (
    SPECULATIVE,
    Attempt,
    Bounds,
    EngineTools,
    PlannedCopy,
    Trial,
    ask,
    estimate_rate,
    find_engine_additions,
    find_smallest,
    find_too_large,
    list_attempts,
    make_base,
    make_plan,
    note_failure,
)
from advisor.planning.format_candidates import find_usable_formats, has_download
from advisor.planning.layouts import list_units
from advisor.planning.recipes import find_draft_recipe, list_recipe_notes
from advisor.planning.rules import load_plan_rules
from advisor.planning.slots import on_all_layers
from advisor.planning.targets import find_targets, measure_distance
from advisor.planning.traffic import P99_OF_NORMAL
from advisor.planning.types import CardLayout, Plan, Rejection, SearchRequest, TriedFormat
from advisor.planning.utility import EIGHT_BITS, add_up, load_utility, may_be_worth_more, value_plan
from advisor.render.words import find_repository
from advisor.session import Session
from advisor.units import format_gib

MOST_USERS = 4096  # at once, that a rate may come to


def find_best_plan(entry: Engine, search: SearchRequest, session: Session) -> Plan | Rejection:
    """The engine's best plan, or why there is none. A rate of requests is planned for as so many users at once as
    answer it (Little's law), the fewest that are enough."""
    if search.traffic.rate is None:
        found = _find_for_users(entry, search, session)
        return _try_speculating(entry, search, session, found) if search.workload.priority == "latency" else found
    spare = load_plan_rules(session.rules).spare

    def enough(found: Plan | Rejection) -> bool:
        return isinstance(found, Plan) and answers_rate(found, search, spare) is True

    low, high, found = 0, 1, _find_for_users(entry, _with_users(search, 1), session)
    if isinstance(found, Rejection):
        return found
    last = found
    if answers_rate(last, search, spare) is None:
        note = (
            f"how fast {entry.name} answers here is not known: whether it keeps up with the rate cannot be determined"
        )
        return replace(last, on_time=None, notes=(*last.notes, note))
    if not enough(last):  # each of several users is answered no faster than one alone
        share = find_answered_share(last, search, spare)
        low = math.ceil(1 / share) - 1 if share else 1
        high = min(max(2, low + 1), MOST_USERS)
        found = _find_for_users(entry, _with_users(search, high), session)
    while isinstance(found, Plan) and not enough(found) and high < MOST_USERS and found.holds_all:
        low, high, last = high, min(high + max(1, high // 2), MOST_USERS), found
        found = _find_for_users(entry, _with_users(search, high), session)
    while isinstance(found, Plan) and high - low > max(1, high // 16):
        middle = (low + high) // 2
        smaller = _find_for_users(entry, _with_users(search, middle), session)
        if enough(smaller):
            high, found = middle, smaller
        else:
            low = middle
    if isinstance(found, Rejection) or not enough(found):
        return replace(last if isinstance(found, Rejection) else found, on_time=False)
    peak = high + math.ceil(P99_OF_NORMAL * math.sqrt(high))  # arrivals are independent, so their number varies
    most = _find_for_users(entry, _with_users(search, peak), session)
    return most if isinstance(most, Plan) else found


def _try_speculating(
    entry: Engine, search: SearchRequest, session: Session, found: Plan | Rejection
) -> Plan | Rejection:
    """The plan, or one with speculative decoding, where that answers sooner."""
    asked = ask_for_speculation(entry, search, session.rules)
    if asked is None:
        return found
    rules, other = session.rules, _find_for_users(entry, asked, session)
    if isinstance(other, Rejection) or not other.starts or other.on_time is False:
        return found
    if isinstance(found, Rejection):
        return other
    now, then = (objective.rate_speed(p.speed, search.traffic, "latency") for p in (found, other))
    return other if then > load_plan_rules(rules).same * now else found


def speculate_where_sure(entry: Engine, plan: Plan, search: SearchRequest, session: Session) -> Plan:
    """The plan, or the same weights with speculative decoding, where the low end of its gain is worth it already, or
    where the model's own recipe has it and it is likely to gain; never one that answers later."""
    asked = ask_for_speculation(entry, search, session.rules)
    cards = search.machine.usable_devices  # nobody has published what it brings on processors alone
    if asked is None or search.traffic.rate is not None or plan.offload or not plan.starts or not cards:
        return plan
    other = _find_for_users(entry, replace(asked, quantization=plan.quantization.id), session)
    if isinstance(other, Rejection) or not other.starts or not other.holds_all or other.speed is None:
        return plan
    gain, known = other.speed.gain, load_plan_rules(session.rules)
    recipe = find_draft_recipe(entry.id, search.model, search.machine, session.rules)
    taken = gain is not None and (gain.low >= known.drafted_from or (recipe and gain.value >= known.drafted_by_recipe))
    now, then = (objective.rate_speed(p.speed, search.traffic, "latency") for p in (plan, other))
    return other if taken and then >= now else plan


def ask_for_speculation(entry: Engine, search: SearchRequest, rules: Catalog) -> SearchRequest | None:
    """The same question with speculative decoding; None where it is asked for, for too many or has no settings here."""
    if search.facts.get(SPECULATIVE) or search.traffic.users > load_plan_rules(rules).drafted_users:
        return None
    asked = replace(search, facts={**search.facts, SPECULATIVE: True})
    same = find_engine_additions(entry, asked, rules).settings == find_engine_additions(entry, search, rules).settings
    return None if same else asked


def answers_rate(plan: Plan, search: SearchRequest, spare: float) -> bool | None:
    """Whether the plan answers `spare` times as many requests as come; None where its speed is not known."""
    if search.traffic.rate is None:
        return True
    share = find_answered_share(plan, search, spare)
    return None if share is None else share >= 1


def find_answered_share(plan: Plan, search: SearchRequest, spare: float) -> float | None:
    """What the plan answers of `spare` times the requests that come; None where its speed is not known."""
    traffic = search.traffic
    if traffic.rate is None or plan.speed is None or plan.speed.output_tps is None:
        return None
    rate = plan.speed.output_tps
    sure = rate.low if search.workload.confidence == "safe" else rate.value
    return sure / (spare * traffic.rate * traffic.burst * max(1, traffic.output.mean))


def _with_users(search: SearchRequest, users: int) -> SearchRequest:
    return replace(search, traffic=replace(search.traffic, users=users))


def _find_for_users(entry: Engine, search: SearchRequest, session: Session) -> Plan | Rejection:
    """The engine's best plan for so many users at once.

    Formats are tried in their order of preference, a smaller cache after all of them, host memory last. The first whose
    plan starts for sure, holds the users and is on time is taken; else the best of what starts; else what may start.
    """
    tools = prepare_engine(entry, search, session)
    if isinstance(tools, Rejection):
        return tools
    refused: list[Reason] = []
    usable = list(find_usable_formats(entry, search, session.rules, refused))
    attempts = list_attempts(tools, search, usable)
    tried: list[TriedFormat] = []
    found = _search_attempts(tools, search, attempts, tried)
    if found is not None:
        attempt, plan = found
        others = tuple(
            _compare(t, plan, session.rules) for t in dict.fromkeys(tried) if t.quantization != plan.quantization.id
        )
        noted = (attempt.chosen.note,) if attempt.chosen.note else ()
        added = (*tools.added.notes, *list_recipe_notes(plan.deployment, session.rules))
        return replace(plan, notes=(*plan.notes, *noted, *tools.warnings), tried=others, added=added)
    if not tried and not refused:
        text = f"{entry.name}: nothing could be estimated"
        return Rejection((Reason(code="does_not_fit", rule=f"{entry.id}/memory", text=text),))
    texts = "; ".join(dict.fromkeys(t.text for t in tried if t.fits is False)) or None
    if texts:
        refused.append(Reason(code="does_not_fit", rule=f"{entry.id}/memory", text=texts, source="memory estimate"))
    least = min((t.needs_bytes for t in tried if t.fits is False and t.needs_bytes is not None), default=None)
    return Rejection(tuple(dict.fromkeys(refused)), least)


def _compare(tried: TriedFormat, plan: Plan, rules: Catalog) -> TriedFormat:
    """A format that was tried, with whether it would have been the wider one."""
    wider = rules.quantization(tried.quantization).bits_nominal > plan.quantization.bits_nominal
    return replace(tried, larger=wider and tried.fits is False)


def prepare_engine(entry: Engine, search: SearchRequest, session: Session) -> EngineTools | Rejection:
    """What estimates of the engine need, or why it is not looked at."""
    rules = session.rules
    forbidden = search.policy.forbidden(entry.id, search.facts)
    if forbidden is not None:
        return Rejection((forbidden,))
    verdict = judge_engine(
        entry, search.facts, None, search.model, search.workload, asked=search.asked, requires=search.requires
    )
    if verdict.reasons:
        return Rejection(verdict.reasons)
    foreign = _foreign_gguf(entry, search, rules)
    if foreign is not None:
        return Rejection((foreign,))
    if entry.kind == "client":
        return Rejection(())
    try:
        module, inner = engines.find_engine_module(entry.id, rules.engines())
        named = engines.settings_entry(entry.id, rules.engines())
        if search.backend is not None:
            from advisor.engines.device_choice import read_backend

            read_backend(search.backend, search.machine, inner)
    except BadInput as e:  # no such backend; an overlay's engine without a module
        return Rejection((Reason(code="not_asked_for", rule=f"{entry.id}/module", text=e.message),))
    added, warnings = find_engine_additions(entry, search, rules), tuple(r.text for r in verdict.warnings)
    return EngineTools(entry, module, inner, named, added, session, warnings)


def _foreign_gguf(entry: Engine, search: SearchRequest, rules: Catalog) -> Reason | None:
    """A GGUF checkpoint alone never selects an engine of another format: those load it by plugins, with limits."""
    if entry.id in search.asked or search.quantization is None or formats.is_shorthand(search.quantization, rules):
        return None
    if rules.quantization(search.quantization).family != "gguf" or formats.format_family(entry, rules) == "gguf":
        return None
    support = entry.formats.get("gguf")
    note = f": {support.note}" if support and support.note else ""
    text = f"{entry.name}: GGUF is not its own format{note}; named with --engine it is looked at"
    return Reason(code="format_not_loadable", rule=f"{entry.id}/formats.gguf", text=text)


def _search_attempts(
    tools: EngineTools, search: SearchRequest, attempts: list[Attempt], tried: list[TriedFormat]
) -> tuple[Attempt, Plan] | None:
    """The attempt whose plan is worth the most of the first stage that has one over the floors; else the best of what
    starts, else what may start."""
    bounds, found = Bounds(), list[tuple[Attempt, Plan]]()
    targets = find_targets(search.workload, search.machine, tools.session.rules)
    behind = 0.0 if targets.named else load_plan_rules(tools.session.rules).behind  # of a floor that nobody named
    for narrow, offload in STAGES:
        stage = [a for a in attempts if a.narrow is narrow and a.offload is offload]
        found += _plan_stage(tools, search, stage, bounds, tried, bool(found))
        if any(
            _is_sure(p) and (p.on_time is not False or (measure_distance(p.speed, targets) or math.inf) <= behind)
            for _, p in found
        ):
            break
    return _take_best(found, tools, search) or _run_from_disk(tools, search, attempts, tried)


# (below four bits, with host memory): experts on the host cost less than two bits do
STAGES = ((False, False), (False, True), (True, False), (True, True))


def _plan_stage(
    tools: EngineTools,
    search: SearchRequest,
    attempts: Sequence[Attempt],
    bounds: Bounds,
    tried: list[TriedFormat],
    downloads_only: bool,
) -> list[tuple[Attempt, Plan]]:
    """The plans of attempts: a format with the engine's own cache type, and where that does not hold everybody with the
    smaller one; what no download is known of only where nothing else starts."""
    found: list[tuple[Attempt, Plan]] = []
    probe = find_smallest(attempts, bool(attempts) and attempts[0].offload)
    served, best = set[str](), None
    for attempt in attempts:
        quantization = attempt.chosen.quantization
        known = has_download(tools.entry, search, quantization)
        if best is not None and not may_be_worth_more(quantization, attempt.cache, best, search, tools.session.rules):
            continue
        if quantization.id in served or (not known and (downloads_only or any(p.starts for _, p in found))):
            continue
        host = attempt.offload or bool(tools.inner.memory.get("experts_on_host"))
        much = find_too_large(tools, search, quantization, host)
        if much is not None:
            tried.append(much)
            continue
        if tried and probe is not None:  # the first was refused: is there any use in going on?
            _probe(Trial(tools, search, probe, bounds, tried))
            probe = None
        if bounds.refuses(attempt):
            continue
        plan = plan_attempt(Trial(tools, search, attempt, bounds, tried))
        if plan is None:
            continue
        found.append((attempt, plan))
        if _is_sure(plan) and plan.holds_all:
            served.add(quantization.id)
            answers = answers_rate(plan, search, load_plan_rules(tools.session.rules).spare)
            best = plan if plan.on_time is not False and answers is not False else best
    return found


def _is_sure(plan: Plan) -> bool:
    """Whether it starts; where only the engine leaves that open, no other format settles it."""
    return bool(plan.starts or (plan.memory.fits and plan.why_not))


def _take_best(
    found: Sequence[tuple[Attempt, Plan]], tools: EngineTools, search: SearchRequest
) -> tuple[Attempt, Plan] | None:
    """The plan over the most floors, of these the one that is worth the most; of plans that are worth the same the
    first, or the quickest of at least eight bits where that is clearly quicker."""
    if not found:
        return None
    rules, targets = tools.session.rules, find_targets(search.workload, search.machine, tools.session.rules)
    sure = [x for x in found if _is_sure(x[1])] or found[:1]
    sure = [x for x in sure if has_download(tools.entry, search, x[0].chosen.quantization)] or sure
    if search.traffic.full_length:
        sure = [x for x in sure if x[1].holds_all] or sure
    spare = load_plan_rules(rules).spare
    sure = [x for x in sure if answers_rate(x[1], search, spare) is not False] or sure
    on_time = [x for x in sure if x[1].on_time is not False]
    if not on_time:
        distances = [measure_distance(p.speed, targets) or 0.0 for _, p in sure]
        least = load_plan_rules(rules).behind * min(distances)
        return next(x for x, distance in zip(sure, distances, strict=True) if distance <= least)
    worth = [add_up(value_plan(p, search, rules)) for _, p in on_time]
    enough = max(worth) - load_utility(rules).same
    equal = [x for x, value in zip(on_time, worth, strict=True) if value >= enough]
    wide = [x for x in equal if x[1].quantization.bits_nominal >= EIGHT_BITS]
    return max(wide, key=lambda x: _prefer(x[1], search, rules)) if wide and wide[0] is equal[0] else equal[0]


def _prefer(plan: Plan, search: SearchRequest, rules: Catalog) -> tuple[int, bool]:
    """Of plans of eight bits and more that are worth the same: the quicker one, then a checkpoint that is published
    over one that is made at the start."""
    makers = {d.vendor for d in search.machine.usable_devices}
    published = plan.quantization.family != "hf" or find_repository(search.model, plan.quantization, makers) is not None
    return _round_rate(plan, search, rules), published


def _round_rate(plan: Plan, search: SearchRequest, rules: Catalog) -> int:
    """Tokens a second of one request, on a scale on which rates that are hardly apart are the same."""
    rate = objective.rate_speed(plan.speed, search.traffic, "latency")
    return round(math.log(rate, load_plan_rules(rules).named)) if rate else 0


def _run_from_disk(
    tools: EngineTools, search: SearchRequest, attempts: list[Attempt], tried: list[TriedFormat]
) -> tuple[Attempt, Plan] | None:
    """The smallest format with a part of its file on disk, where no memory holds it whole but half of it. Of a model
    with routed experts: each token reads all of any other."""
    mine = sorted(attempts, key=lambda x: (x.chosen.quantization.bits_nominal, x.cache != "auto"))
    if (
        not search.from_disk
        or not search.model.is_moe
        or not mine
        or not any(x.part == "file" for x in tools.named.tiers)
    ):
        return None
    trial = Trial(tools, search, mine[0], Bounds(), tried)
    base = make_base(tools, search, mine[0], search.machine)
    memory = ask(trial, base)
    if memory is None or memory.disk is None or run_from_disk(memory) is None:
        return None
    speed = estimate_rate(trial, base, memory, search.traffic.users)
    plan = make_plan(trial, PlannedCopy(base, memory, CardLayout(), speed, None))
    if plan.starts is False:
        return None
    amount = format_gib(memory.disk.weights_bytes)
    note = f"{amount} of the file stay on disk and are read from there all the time, which is slow"
    return mine[0], replace(plan, offload=True, notes=(*plan.notes, note))


def _probe(trial: Trial) -> None:
    """Ask the smallest format on all cards: what it is short of, no wider one has."""
    base = make_base(trial.tools, trial.search, trial.attempt, trial.search.machine)
    if trial.attempt.offload:
        return
    units = [u.deployment for u in list_units(base, trial.tools.entry) if not u.last_resort]
    last = on_all_layers(units[-1], trial.tools.named)
    memory = ask(replace(trial, tried=[]), last)
    if memory is not None and memory.fits is False and memory.short:
        note_failure(trial, last, memory)
