"""`recommend`: machine, model and workload in, ranked deployments with reasons out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from advisor.advice.effects import name_unused
from advisor.advice.models.choice import SizedModel, choose_model, describe_copy, find_stored_models
from advisor.advice.models.facts import describe_licences, describe_quality
from advisor.advice.recommend.alternatives import add_named_plans, choose_models, describe_growth
from advisor.advice.recommend.engines import Worth, list_in_order, search_engines
from advisor.advice.recommend_request import (
    GuideResult,
    RecommendRequest,
    ask_guide,
    build_search_request,
    load_main_guide,
    resolve_question,
    settle_model,
)
from advisor.advice.types import Advice, OfferedLaunch, RankedDeployment, RejectedEngine
from advisor.advice.workload import fetch_model, find_unknown_fields
from advisor.catalog import Catalog
from advisor.catalog.resolve import AmbiguousModel, ResolvedModel, resolve_model, resolve_or_size
from advisor.catalog.types import Engine
from advisor.decision.evaluate import find_engine_hints
from advisor.decision.filters import judge_engine
from advisor.decision.types import FactValue, Guide, Reason
from advisor.deployment import Deployment
from advisor.engines.flags import find_own_flag
from advisor.errors import BadInput
from advisor.estimation import find_machine, find_stated_machine
from advisor.freshness import find_stale_note
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.planning.disaggregation import list_plan_servers
from advisor.planning.holding import with_machine_notes
from advisor.planning.targets import answer_targets
from advisor.planning.traffic import describe_cut_lengths
from advisor.planning.types import Plan, SearchRequest
from advisor.planning.utility import load_utility
from advisor.questions import Asking
from advisor.questions.recommend import RecommendQuestion
from advisor.session import Session

FEWER_LIMITS = "fewer conditions on the model (--licence, --no-thinking, --min-ability)"
SHOWN_IN_TEXT = 3  # alternatives, and other models where these are fewer, in a text of one screen


def answer_question(
    question: RecommendQuestion, session: Session, asking: Asking, every_command: bool = True, every_model: bool = True
) -> Advice:
    """What is recommended to a question, with the answer of its guide where it names one.

    `every_command`, `every_model`: as in RecommendRequest. Raises UnknownName, BadFile, BadInput.
    """
    names = asking.names
    if (question.answers or question.tree) and not question.guide:
        raise BadInput(f"{names['answers']} and {names['tree']} belong to {names['guide']} NAME (`advise list guides`)")
    machine = find_stated_machine(question, session.rules, asking) or find_machine("this", session.rules)
    asking = replace(asking, machine=machine)
    question = fetch_model(question, asking)

    def answer(asked: RecommendQuestion, on: Machine | None) -> Advice:
        known = replace(asking, machine=on)
        advice = recommend(resolve_question(asked, session.rules, known, every_command, every_model), session)
        if asked.guide is None:
            return advice
        from advisor.advice.guides import add_guide_answer

        return add_guide_answer(advice, asked.guide, asked.tree, asked.answers, session.rules)

    return name_unused(question, answer(question, machine), asking, session.rules, answer)


def recommend(request: RecommendRequest, session: Session) -> Advice:
    """Advice for a question on a day. Raises UnknownName and BadInput for names and values that cannot be."""
    said = None
    if request.engine:
        entry, said = session.rules.find_served_engine(request.engine)
        release, unused = _judge_release(request.engine, entry, said is not None)
        said = "; ".join(x for x in (said, unused) if x) or None
        request = replace(request, engine=entry.id, engine_version=release)
    advice, old = _recommend(request, session), find_stale_note("recommend", session.rules, session.today)
    notes = dict.fromkeys(n for n in (said, *advice.warnings, old) if n is not None)
    return replace(advice, warnings=tuple(notes))


def _judge_release(name: str, entry: Engine, wrapped: bool) -> tuple[str | None, str | None]:
    """(the release to answer for, a note) where one was named with an engine; `wrapped`: it is that of what runs it."""
    from advisor.engines.versions import find_release, is_before, version_key

    release = find_release(name)
    if release is None or (not wrapped and entry.version and version_key(release) == version_key(entry.version)):
        return None, None
    if not wrapped and entry.version and is_before(release, entry.version):
        return release, None
    newest = f": the newest known here is {entry.version}" if entry.version and not wrapped else ""
    return None, f"release {release} has no effect{newest}"


def _recommend(request: RecommendRequest, session: Session) -> Advice:
    """The advice, whatever the day."""
    rules = session.rules
    entry = rules.engine(request.engine) if request.engine else None
    guide = load_main_guide(rules)
    others = [resolve_model(name, rules) for name in request.others]  # a misspelt one is an error, not a model less
    if request.model is not None:
        found, choices = request.found, tuple[str, ...]()
        try:
            found = found or resolve_or_size(request.model, rules)
        except AmbiguousModel as several:
            choices = several.choices
        if others and request.workload.extra.get("swap") == "resident":
            from advisor.advice.recommend.side_by_side import recommend_side_by_side

            return recommend_side_by_side(request, [found, *others], session, recommend)
        if found is None:
            return _choose(request, entry, guide, session, choices)
        return _advice(request, found, entry, guide, session)
    guide_result = ask_guide(request, None, guide, rules)
    remote = list_clients(request, guide_result, entry, rules, None)
    if remote:
        return advise_elsewhere(request, guide_result, remote)
    return _choose(request, entry, guide, session)


def _choose(
    request: RecommendRequest,
    asked: Engine | None,
    guide: Guide,
    session: Session,
    among: tuple[str, ...] | None = None,
) -> Advice:
    """Advice for the model that is chosen: of the catalogue, or of a family that was named."""
    rules = session.rules
    chosen = choose_model(request, asked, guide, session, among, None if request.every_model else 2)
    if chosen.model is None:
        return _nothing(request, ask_guide(request, None, guide, rules), asked, rules)
    named = f"{request.model} is a family: " if request.model else ""
    notes = tuple(named + note.removeprefix("no model given: ") if named else note for note in chosen.notes)
    advice = _advice(request, ResolvedModel(chosen.model), asked, guide, session, notes)
    others, shown = chosen.others, load_utility(rules).shown
    if chosen.look_for_others and not request.every_model:
        others = chosen.look_for_others(SHOWN_IN_TEXT) if len(advice.alternatives) < SHOWN_IN_TEXT else ()
    choices = advice.choices
    if (
        not request.brief
        and chosen.chosen is not None
        and advice.chosen is not None
        and advice.chosen.memory is not None
    ):
        sized, rank = (chosen.chosen, *(others or chosen.others)), partial(_rank_sized, request, guide, session)
        choices = choose_models(advice.chosen, sized, load_utility(rules), rank)
    return replace(advice, models=tuple(x.option for x in others[:shown]), choices=choices)


def _rank_sized(request: RecommendRequest, guide: Guide, session: Session, sized: SizedModel) -> RankedDeployment:
    """A model that was looked at, as it would be offered."""
    found, rules = ResolvedModel(sized.model), session.rules
    settled = settle_model(request, found)
    guide_result = ask_guide(settled, sized.model, guide, rules)
    search = build_search_request(settled, found, guide_result, guide, rules, None)
    entry = rules.engines()[sized.plan.deployment.engine]
    return _ranked(entry, sized.plan, guide_result, search, session, 0, {}, request.every_command)


def _advice(
    request: RecommendRequest,
    found: ResolvedModel,
    asked: Engine | None,
    guide: Guide,
    session: Session,
    notes: tuple[str, ...] = (),
) -> Advice:
    rules = session.rules
    if found.model.layout is None:
        raise BadInput(
            f"{found.model.id}: its layers are not in the catalogue, so nothing can be sized; "
            "give a directory with config.json"
        )
    request = settle_model(request, found)
    guide_result = ask_guide(request, found.model, guide, rules)
    search = build_search_request(request, found, guide_result, guide, rules, asked)
    search = replace(search, from_disk=request.from_disk and request.model is not None)  # a model that is chosen fits
    answers = search_engines(request, guide_result, search, asked, session)
    offers, rejected, needs = answers.offers[: 1 if request.brief else None], answers.rejected, answers.needs
    offered = [
        _ranked(e, f, guide_result, search, session, i, worth.terms, request.every_command or i == 0, request.brief)
        for i, (worth, e, f) in enumerate(offers)
    ]
    clients = list_clients(request, guide_result, asked, rules, found.model)
    if not offered and asked is None:
        clients = clients or list_hosted(request, guide_result, rules, found.model)
    rejected = {e: r for e, r in rejected.items() if e not in {c.engine for c in clients}}
    offered = [*clients, *offered]
    cut = describe_cut_lengths(search.workload, search.traffic)
    warnings = [
        *([cut] if cut else ()),
        *notes,
        *request.machine.notes,
        *find_unknown_fields(request.workload),
        *guide_result.decision.notes,
    ]
    if found.note:
        warnings.append(found.note)
    warnings += name_stored_copy(offered, found.model, request.machine, rules)
    chosen = offered[0] if offered and not (asked and offered[0].engine != asked.id) else None
    if chosen is not None:
        warnings += [t.text for t in chosen.tried if t.fits is False]
        warnings += (*(chosen.memory.warnings if chosen.memory is not None else ()), *chosen.notes)
    warnings += list_undone(request, chosen, asked)
    if chosen is not None and asked is None and offers and not clients:
        warnings += find_ties(offers, load_utility(rules).same)
    growth: tuple[str, ...] = ()
    if chosen is not None and chosen.deployment is not None and not request.brief:
        cards = len(chosen.layout.devices) or None if chosen.layout is not None else None  # of all copies on one node
        growth = describe_growth(chosen.deployment, guide_result.facts, guide, guide_result.decision, session, cards)
    advice = Advice(
        machine=request.machine,
        workload=request.workload,
        chosen=chosen,
        alternatives=tuple(offered[1:] if chosen else offered),
        rejected=tuple(RejectedEngine(engine=e, reasons=r) for e, r in rejected.items()),
        trace=guide_result.decision.trace,
        because=tuple(t.because for t in guide_result.decision.trace if t.held and t.because),
        overlay=guide_result.decision.overlay,
        warnings=tuple(dict.fromkeys(warnings)),
        remedies=() if chosen else _remedies(request, found.model, rejected),
        growth=growth,
    )
    if request.brief:
        return advice
    best = (offers[0][1], offers[0][2]) if offers and not clients and chosen is not None else None

    def rank(entry: Engine, plan: Plan) -> RankedDeployment:
        return _ranked(entry, plan, guide_result, search, session, 0, {}, request.every_command)

    return add_named_plans(advice, best, search, session, rank, needs)


def _worth_knowing(entry: Engine, plan: Plan, search: SearchRequest) -> tuple[str, ...]:
    """Notes of the guide for this engine, now that the launch is decided."""
    flag = find_own_flag(entry, "tensor_parallel")
    tp = int(plan.deployment.settings.get(flag, 1)) if flag else 1
    kv = search.facts.get("model.kv_heads")
    known: dict[str, FactValue] = {**search.facts, "deployment.tensor_parallel": tp if flag else None}
    if flag and isinstance(kv, int) and kv:
        known["deployment.kv_copies"] = max(1, tp // kv)
    return tuple(dict.fromkeys((*find_engine_hints(search.guide, known, entry.id).notes, *plan.added)))


def _ranked(
    entry: Engine,
    plan: Plan,
    guide_result: GuideResult,
    search: SearchRequest,
    session: Session,
    position: int,
    utility: dict[str, float],
    shown: bool,
    brief: bool = False,
) -> RankedDeployment:
    rules = session.rules
    from advisor import engines
    from advisor.render.files import list_targets, make_quick_start

    decided = engines.decide_settings(plan.deployment, rules.engines(), plan.quantization)
    if entry.id in guide_result.decision.engines:
        reasons = describe_leaf(guide_result)
    else:
        reasons = ("runs here too, though the guide does not recommend it for this workload",)
    use = str(guide_result.facts.get("workload.use_case") or "chat")
    prominent = position < 4 or entry.id in guide_result.decision.engines
    has_command = shown and prominent and not brief and "command" in list_targets(entry.id, rules)
    servers = list_plan_servers(plan, entry)
    first = replace(servers[0], port=plan.deployment.port) if plan.layout.prefill else servers[0]
    quick = make_quick_start(first, session) if has_command else None
    targets, arrivals = answer_targets(search.workload, (), plan.on_time), None
    if position == 0 and (targets is not None or search.traffic.rate is not None):
        from advisor.planning.verdicts import judge_plan

        judged = judge_plan(plan, search.traffic, search.workload, session, remedies=not brief)
        targets, arrivals = judged.targets, judged.arrivals
    ranked = RankedDeployment(
        engine=entry.id,
        engine_version=plan.deployment.engine_version or entry.version,
        model=plan.deployment.model.id,
        quantization=plan.quantization.id,
        settings={d.name: d.value for d in decided},
        command=_render_commands(servers, plan, entry, session, quick.install) if quick is not None else None,
        install=quick.install if quick else None,
        test=quick.test if quick else None,
        memory=with_machine_notes(plan.memory, plan.deployment),
        reasons=reasons,
        notes=(*plan.notes, *(_worth_knowing(entry, plan, search) if prominent else ())),
        quality=describe_quality(plan.deployment.model, plan.quantization.id, use, plan.speed, rules),
        licence=describe_licences(plan.deployment.model, entry, rules),
        utility=utility,
        speed=plan.speed,
        tried=plan.tried,
        copies=plan.copies,
        layout=plan.layout,
        starts=plan.starts,
        why_not=plan.why_not,
        conditions=plan.conditions,
        holds=plan.holds,
        targets=targets,
        arrivals=arrivals,
    )
    return ranked.keep(OfferedLaunch(entry.name, plan, {d.name: d.because for d in decided}))


def _render_commands(
    servers: list[Deployment], plan: Plan, entry: Engine, session: Session, install: str | None
) -> str:
    """The lines that start the plan: in a container where that is how the engine is installed."""
    from advisor.render.files import PULL, list_targets, render_container_command

    machine = plan.deployment.machine
    there = machine is not None and (machine.docker is False or any(e.engine == entry.id for e in machine.engines))
    pulled = (install or "").startswith(PULL) and "docker" in list_targets(entry.id, session.rules)
    if pulled and not there and len(servers) == 1 and plan.layout.nodes == 1:
        return render_container_command(servers[0], session)
    if plan.layout.prefill:
        from advisor.render.copies import render_role_commands

        return render_role_commands(servers, plan.layout.prefill, plan.deployment.port or entry.port or 8000, session)
    from advisor.render.copies import render_commands

    return render_commands(servers, session, plan.layout.nodes, alike=plan.servers > 1)


def _remedies(request: RecommendRequest, model: Model, rejected: dict[str, tuple[Reason, ...]]) -> tuple[str, ...]:
    """What would make it fit."""
    out = []
    tight = any(r.code == "does_not_fit" for rs in rejected.values() for r in rs)
    if tight:
        if request.quantization:
            out.append("a smaller weight format (leave --quant out to let the smallest that fits be taken)")
        if request.workload.concurrency > 1:
            out.append(f"fewer requests at once than {request.workload.concurrency}")
        out.append("a shorter --context")
        out.append("more or larger cards (`advise explain` lists which)")
        out.append(f"a smaller model than {model.id}")
    elif request.engine:
        out.append("another engine (leave --engine out)")
    return tuple(out)


def _nothing(request: RecommendRequest, guide_result: GuideResult, asked: Engine | None, rules: Catalog) -> Advice:
    """No model of the list fits, or the engine asked for cannot run here at all."""
    rejected, named = [], [asked.id] if asked else []
    for entry in list_in_order(list(guide_result.decision.engines), asked, rules):
        reasons = judge_engine(entry, guide_result.facts, None, None, request.workload, asked=named).reasons
        if reasons:
            rejected.append(RejectedEngine(engine=entry.id, reasons=reasons))
    refused = asked is not None and any(r.engine == asked.id for r in rejected)
    why = f"{asked.name} cannot run here" if asked and refused else "no model that may be chosen fits this machine"
    remedies = ("another engine (leave --engine out)",) if refused else (
        *((FEWER_LIMITS,) if request.choice.limited else ()),
        "more memory", "a shorter --context", "name a small model with --model",
    )  # fmt: skip
    return Advice(
        machine=request.machine,
        workload=request.workload,
        chosen=None,
        alternatives=(),
        rejected=tuple(rejected),
        trace=guide_result.decision.trace,
        warnings=(*request.machine.notes, why),
        remedies=remedies,
    )


def list_clients(
    request: RecommendRequest, guide_result: GuideResult, asked: Engine | None, rules: Catalog, model: Model | None
) -> list[RankedDeployment]:
    """Answers that run elsewhere: an endpoint that is there already, a hosted API."""
    out, facts, named = [], guide_result.facts, [asked.id] if asked else []
    for name in named or guide_result.decision.engines:
        entry = rules.engine(name)
        if entry.kind != "client" or judge_engine(entry, facts, None, model, request.workload, asked=named).reasons:
            continue
        endpoint = request.workload.endpoint
        note = "runs elsewhere: nothing on this machine is sized for it, and prompts leave the machine"
        made = _describe_client(entry, request.model, describe_leaf(guide_result), note)
        if endpoint:
            made = made.with_fields(
                settings={"base-url": endpoint},
                command=f"curl -fsS {shlex.quote(endpoint.rstrip('/') + '/models')}",
            ).keep(OfferedLaunch(entry.name, because={"base-url": "as given"}))
        out.append(made)
    return out


def _describe_client(entry: Engine, model: str | None, reasons: tuple[str, ...], note: str) -> RankedDeployment:
    """An answer that runs elsewhere: nothing of it is sized or started here."""
    ranked = RankedDeployment(engine=entry.id, model=model, reasons=reasons, notes=(note,))
    return ranked.keep(OfferedLaunch(entry.name))


def list_hosted(
    request: RecommendRequest, guide_result: GuideResult, rules: Catalog, model: Model
) -> list[RankedDeployment]:
    """Hosted APIs, where they are allowed and nothing runs here."""
    if request.workload.cloud not in ("allowed", "preferred"):
        return []
    reasons = (f"{model.id} does not fit on this machine, and a hosted API is allowed",)
    note = "runs elsewhere: prompts leave the machine, and every token is paid for"
    return [
        _describe_client(entry, model.id, reasons, note)
        for entry in rules.engines().values()
        if entry.kind == "client"
        and entry.remote == "hosted"
        and not judge_engine(entry, guide_result.facts, None, model, request.workload).reasons
    ]


def describe_leaf(guide_result: GuideResult) -> tuple[str, ...]:
    """Why the guide's leaf was taken."""
    decision = guide_result.decision
    return tuple(t.because for t in decision.trace if t.held and t.because and t.rule in decision.rules)[-1:]


def advise_elsewhere(request: RecommendRequest, guide_result: GuideResult, remote: list[RankedDeployment]) -> Advice:
    """Advice whose first answer runs elsewhere."""
    return Advice(
        machine=request.machine,
        workload=request.workload,
        chosen=remote[0],
        alternatives=tuple(remote[1:]),
        rejected=(),
        trace=guide_result.decision.trace,
        because=tuple(t.because for t in guide_result.decision.trace if t.held and t.because),
        warnings=(*request.machine.notes, *remote[0].notes),
    )


def find_ties(offers: Sequence[tuple[Worth, Engine, Plan]], within: float) -> list[str]:
    """Engines whose plans are worth what the chosen one is: the order between them says nothing."""
    first, name, _ = offers[0]
    near = [e.name for x, e, _ in offers[1:] if x.floors == first.floors and first.order[1] - x.order[1] < within]
    return [f"a tie: {name.name} and {', '.join(near)} are worth the same"] if near else []


def list_undone(request: RecommendRequest, chosen: RankedDeployment | None, asked: Engine | None) -> list[str]:
    """What was asked and is not in the command yet, or should not be asked any more."""
    out = []
    if asked is not None and asked.health.status == "archived":
        out.append(f"{asked.name} is archived: {asked.health.note or 'no further releases'}")
    nodes = chosen.layout.nodes if chosen is not None and chosen.layout is not None else 1
    if request.machine.nodes > 1 and chosen is not None and chosen.memory is not None:
        if nodes > 1 and chosen.command is not None and "node-rank" not in chosen.command:
            out.append(f"{nodes} nodes: the command is that of one; addresses and ranks have to be added on each")
        elif nodes < request.machine.nodes:
            out.append(f"one of the {request.machine.nodes} nodes is used: the others can run copies behind a router")
    return out


def name_stored_copy(offered: list[RankedDeployment], model: Model, machine: Machine, rules: Catalog) -> list[str]:
    """Name the copy of the first offer that lies on this machine, in the offer and as a note; [] where none does."""
    if not offered or not offered[0].quantization:
        return []
    copy = find_stored_models(machine, rules).find(model.id, offered[0].quantization)
    if copy is None:
        return []
    offered[0] = offered[0].with_fields(stored=copy)
    return [describe_copy(copy)]
