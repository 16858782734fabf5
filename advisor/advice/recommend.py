"""`recommend`: machine, model and workload in, ranked deployments with reasons out."""

from __future__ import annotations

import shlex

import msgspec

from advisor.advice.candidates import Found, Refused, best
from advisor.advice.growth import growth, told
from advisor.advice.picks import pick
from advisor.advice.question import Judged, Question, contexts, judge_all, main_guide, wanted
from advisor.advice.ranking import ranking, score
from advisor.advice.resident import beside, resident_bytes
from advisor.advice.types import Advice, Ranked, Rejected
from advisor.advice.wanted import Wanted
from advisor.advice.workload import unknown_fields
from advisor.catalog import Catalog
from advisor.catalog.resolve import Resolved, resolve_model
from advisor.catalog.types import Engine
from advisor.decision.evaluate import for_engine
from advisor.decision.facts import Fact
from advisor.decision.filters import hardware_support, judge, wanted_features
from advisor.decision.types import Guide, Reason
from advisor.deployment import Setting, SpeedEstimate
from advisor.engines.flags import own_flag
from advisor.errors import BadInput
from advisor.models.types import Model
from advisor.speed.roofline import decode


def recommend(q: Question, rules: Catalog) -> Advice:
    """Advice for a question. Raises UnknownName and BadInput for names and values that cannot be."""
    entry = rules.engine(q.engine) if q.engine else None
    guide = main_guide(rules)
    for name in q.others:
        resolve_model(name, rules)  # a misspelt one is an error, not a model less
    beside_note: tuple[str, ...] = ()
    if q.others and q.workload.extra.get("swap") == "resident":
        machine, share, said = beside(q.machine, resident_bytes(q.others, q.machine, rules))
        q, beside_note = q._replace(machine=machine, memory_share=share), (said,)
    if q.model is not None:
        found = resolve_model(q.model, rules)
        if found.path and q.workload.checkpoint_format is None:
            kind = "gguf" if found.quantization is not None else "hf_safetensors"
            q = q._replace(workload=msgspec.structs.replace(q.workload, checkpoint_format=kind))
        return _advice(q, found, entry, guide, rules, beside_note)
    j = judge_all(q, None, guide, rules)
    remote = _clients(q, j, entry, rules, None)
    if remote:
        return _elsewhere(q, j, remote)
    picked, notes = pick(q, entry, guide, rules)
    if picked is None:
        return _nothing(q, j, entry, rules, notes)
    return _advice(q, Resolved(picked), entry, guide, rules, (*beside_note, *notes))


def _advice(
    q: Question, found: Resolved, asked: Engine | None, guide: Guide, rules: Catalog, notes: tuple[str, ...]
) -> Advice:
    if found.model.layout is None:
        raise BadInput(
            f"{found.model.id}: its layers are not in the catalogue, so nothing can be sized; "
            "give a directory with config.json"
        )
    j = judge_all(q, found.model, guide, rules)
    w = wanted(q, found, j, guide, rules, asked)
    order = ranking(rules)
    hits: list[tuple[dict[str, float], Engine, Found]] = []
    rejected: dict[str, tuple[Reason, ...]] = {}
    listed = list(j.decision.engines)
    for entry in _in_order(listed, asked, rules):
        if entry.kind != "engine" and entry.id not in listed and (asked is None or entry.id != asked.id):
            # wrappers, proxies and clients are offered when they are asked for, or by the guide
            reasons = judge(entry, j.facts, None, found.model, q.workload).reasons
            rejected[entry.id] = reasons or (_not_asked(entry),)
            continue
        limited = _limited(entry, j, listed, asked)
        if limited is not None:
            reasons = judge(entry, j.facts, None, found.model, q.workload).reasons
            rejected[entry.id] = reasons or (limited,)
            continue
        if hits and len(w.contexts) > 1:  # all engines are compared at one length
            w = w._replace(contexts=(hits[0][2].deployment.context_length or w.contexts[0],))
        result = best(entry, w, rules)
        if isinstance(result, Refused):
            if result.reasons:
                rejected[entry.id] = result.reasons
            continue
        usual = contexts(q, found.model, rules)[0]
        if (result.deployment.context_length or usual) < usual:
            shorter = (
                f"context {result.deployment.context_length} instead of the usual {usual}: the asked requests then fit"
            )
            result = result._replace(notes=(*result.notes, f"{shorter}; --context decides"))
        held = j.decision.held_back.get(entry.id, ())
        if held:
            result = result._replace(notes=(*result.notes, *(r.text for r in held)))
        liked = w.policy.preferred(entry.id, w.facts)
        if liked is not None:
            result = result._replace(notes=(*result.notes, f"preferred by policy: {liked.text}"))
        pinned = w.policy.version(entry.id, w.facts)
        if pinned is not None:
            result = result._replace(notes=(*result.notes, f"pinned to {pinned[0]} by policy: {pinned[1]}"))
        points = score(
            entry, result.memory, listed, j.facts, wanted_features(q.workload), order,
            asked=asked is not None and entry.id == asked.id, liked=liked is not None, held=bool(held),
            offload=result.offload,
        )  # fmt: skip
        hits.append((points, entry, result))
    hits.sort(key=lambda h: sum(h[0].values()))
    offered = [
        _ranked(e, f, j, w, rules, i, points, q.every_command or i == 0) for i, (points, e, f) in enumerate(hits)
    ]
    clients = _clients(q, j, asked, rules, found.model)
    rejected = {e: r for e, r in rejected.items() if e not in {c.engine for c in clients}}
    offered = [*clients, *offered]
    warnings = [*notes, *q.machine.notes, *unknown_fields(q.workload), *j.decision.notes]
    if found.note:
        warnings.append(found.note)
    chosen = offered[0] if offered and not (asked and offered[0].engine != asked.id) else None
    if chosen is not None:
        warnings += [t.text for t in chosen.tried if t.fits is False]
        warnings += chosen.notes if chosen.memory is None else chosen.memory.warnings
        warnings += chosen.notes if chosen.memory is not None else ()
    warnings += _not_done(q, chosen)
    if chosen is not None and asked is None:
        warnings += _ties(offered, order.tie)
    if asked is not None and asked.health.status == "archived":
        warnings.append(f"{asked.name} is archived: {asked.health.note or 'no further releases'}")
    return Advice(
        machine=q.machine,
        workload=q.workload,
        chosen=chosen,
        alternatives=tuple(offered[1:] if chosen else offered),
        rejected=tuple(Rejected(engine=e, reasons=r) for e, r in rejected.items()),
        trace=j.decision.trace,
        because=tuple(t.because for t in j.decision.trace if t.held and t.because),
        overlay=j.decision.overlay,
        warnings=tuple(dict.fromkeys(warnings)),
        remedies=() if chosen else _remedies(q, found.model, rejected),
        growth=()
        if chosen is None or chosen.deployment is None
        else told(growth(chosen.deployment, j.facts, guide, j.decision, rules), chosen.deployment),
    )


def _ties(offered: list[Ranked], within: float) -> list[str]:
    """Engines whose points are the chosen one's: the order between them says nothing."""
    first = offered[0]
    total = sum(first.points.values())
    equal = [x.engine_name for x in offered[1:] if x.points and abs(sum(x.points.values()) - total) < within]
    return [f"a tie: {first.engine_name} and {', '.join(equal)} have equal points"] if equal else []


def _not_done(q: Question, chosen: Ranked | None) -> list[str]:
    """What was asked and is not in the command yet."""
    out = []
    if q.machine.nodes > 1 and chosen is not None and chosen.memory is not None:
        out.append(
            f"{q.machine.nodes} nodes: the command shows one of them; node addresses and ranks have to be added on each"
        )
    return out


def _clients(q: Question, j: Judged, asked: Engine | None, rules: Catalog, model: Model | None) -> list[Ranked]:
    """Answers that run elsewhere: an endpoint that is there already, a hosted API."""
    out = []
    for name in (asked.id,) if asked else j.decision.engines:
        entry = rules.engine(name)
        if (
            entry.kind != "client"
            or judge(entry, j.facts, None, model, q.workload, asked=[name] if asked else ()).reasons
        ):
            continue
        endpoint = q.workload.endpoint
        settings: dict[str, Setting] = {"base-url": endpoint} if endpoint else {}
        out.append(
            Ranked(
                engine=entry.id,
                engine_name=entry.name,
                engine_version=None,
                model=q.model,
                quantization=None,
                settings=settings,
                because={"base-url": "as given"} if endpoint else {},
                command=f"curl -fsS {shlex.quote(endpoint.rstrip('/') + '/models')}" if endpoint else None,
                memory=None,
                speed=None,
                reasons=_leaf(j),
                notes=("runs elsewhere: nothing on this machine is sized for it, and prompts leave the machine",),
                deployment=None,
            )
        )
    return out


def _leaf(j: Judged) -> tuple[str, ...]:
    """Why the guide's leaf was taken."""
    said = next(
        (t.because for t in reversed(j.decision.trace) if t.held and t.because and t.rule in j.decision.rules), None
    )
    return (said,) if said else ()


def _in_order(listed: list[str], asked: Engine | None, rules: Catalog) -> list[Engine]:
    """The engine asked for, the guide's in its order, then all others."""
    names = [*([asked.id] if asked else []), *listed, *rules.engines()]
    return [rules.engines()[n] for n in dict.fromkeys(names)]


def _limited(entry: Engine, j: Judged, listed: list[str], asked: Engine | None) -> Reason | None:
    """Why an engine that the guide does not name is left out: its support for this hardware is partial or unknown."""
    if entry.id in listed or (asked is not None and entry.id == asked.id):
        return None
    support = hardware_support(entry, str(j.facts.get("gpu.vendor")))
    if support is None or support.support in ("yes", "no"):
        return None
    note = f" ({support.note})" if support.note else ""
    text = f"{entry.name}: support for this hardware is {support.support}{note}; named with --engine it is looked at"
    return Reason(code="not_asked_for", rule=f"{entry.id}/hardware", text=text, source=", ".join(support.src) or None)


def _not_asked(entry: Engine) -> Reason:
    runs = f"it runs {' or '.join(entry.runs)} underneath" if entry.runs else f"it is a {entry.kind}"
    return Reason(
        code="not_asked_for", rule=f"{entry.id}/kind", text=f"{entry.name}: {runs}; named with --engine it is looked at"
    )


def _worth_knowing(entry: Engine, f: Found, w: Wanted) -> tuple[str, ...]:
    """Notes of the guide for this engine, now that the launch is decided."""
    flag = own_flag(entry, "tensor_parallel")
    tp = int(f.deployment.settings.get(flag, 1)) if flag else 1
    kv = w.facts.get("model.kv_heads")
    known: dict[str, Fact] = {**w.facts, "deployment.tensor_parallel": tp if flag else None}
    if flag and isinstance(kv, int) and kv:
        known["deployment.kv_copies"] = max(1, tp // kv)
    return tuple(dict.fromkeys((*for_engine(w.guide, known, entry.id).notes, *f.added)))


def _ranked(
    entry: Engine, f: Found, j: Judged, w: Wanted, rules: Catalog, position: int, points: dict[str, float], shown: bool
) -> Ranked:
    from advisor import engines
    from advisor.render import command, targets

    decided = engines.decided(f.deployment, rules.engines(), f.quantization)
    speed: SpeedEstimate | None = decode(f.deployment, f.memory, rules, f.deployment.sequences)
    if entry.id in j.decision.engines:
        reasons = _leaf(j)
    else:
        reasons = ("runs here too, though the guide does not put it forward for this workload",)
    has_command = shown and "command" in targets(entry.id, rules)
    return Ranked(
        engine=entry.id,
        engine_name=entry.name,
        engine_version=f.deployment.engine_version or entry.version,
        model=f.deployment.model.id,
        quantization=f.quantization.id,
        settings={d.name: d.value for d in decided},
        because={d.name: d.because for d in decided},
        command=command(f.deployment, rules)
        if has_command and (position < 4 or entry.id in j.decision.engines)
        else None,
        memory=f.memory,
        speed=speed,
        reasons=reasons,
        notes=(*f.notes, *(_worth_knowing(entry, f, w) if position < 4 or entry.id in j.decision.engines else ())),
        tried=f.tried,
        points=points,
        deployment=f.deployment,
    )


def _remedies(q: Question, model: Model, rejected: dict[str, tuple[Reason, ...]]) -> tuple[str, ...]:
    """What would make it fit."""
    out = []
    tight = any(r.code == "does_not_fit" for rs in rejected.values() for r in rs)
    if tight:
        if q.quantization:
            out.append("a smaller weight format (leave --quant out to let the smallest that fits be taken)")
        if q.workload.concurrency > 1:
            out.append(f"fewer requests at once than {q.workload.concurrency}")
        out.append("a shorter --context")
        out.append("more or larger cards (`advise explain` lists which)")
        out.append(f"a smaller model than {model.id}")
    elif q.engine:
        out.append("another engine (leave --engine out)")
    return tuple(out)


def _elsewhere(q: Question, j: Judged, remote: list[Ranked]) -> Advice:
    return Advice(
        machine=q.machine,
        workload=q.workload,
        chosen=remote[0],
        alternatives=tuple(remote[1:]),
        rejected=(),
        trace=j.decision.trace,
        because=tuple(t.because for t in j.decision.trace if t.held and t.because),
        warnings=(*q.machine.notes, *remote[0].notes),
    )


def _nothing(q: Question, j: Judged, asked: Engine | None, rules: Catalog, notes: tuple[str, ...]) -> Advice:
    """No model of the list fits, or the engine asked for cannot run here at all."""
    rejected = []
    for entry in _in_order(list(j.decision.engines), asked, rules):
        reasons = judge(entry, j.facts, None, None, q.workload, asked=[asked.id] if asked else ()).reasons
        if reasons:
            rejected.append(Rejected(engine=entry.id, reasons=reasons))
    refused = asked is not None and any(r.engine == asked.id for r in rejected)
    why = f"{asked.name} cannot run here" if asked and refused else "no model of rules/picks.yaml fits this machine"
    remedies = ("another engine (leave --engine out)",) if refused else (
        "more memory", "a shorter --context", "name a small model with --model",
    )  # fmt: skip
    return Advice(
        machine=q.machine,
        workload=q.workload,
        chosen=None,
        alternatives=(),
        rejected=tuple(rejected),
        trace=j.decision.trace,
        warnings=(*notes, *q.machine.notes, why),
        remedies=remedies,
    )


__all__ = ["Question", "recommend"]
