"""Speed of a deployment under a load: decode, prefill, time to first token, time between tokens, total output.

The one estimator behind every command. Bytes and products come from `plan_passes`, seconds from `laws`, efficiencies
and the bounds from rules/speed.yaml, which `python -m tools.speed.calibrate` makes from published measurements.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, Interval, MemoryEstimate, SpeedEstimate
from advisor.engines import fitting
from advisor.machines.types import USUAL_BACKENDS, Device
from advisor.models.types import Moe
from advisor.record import Value
from advisor.session import Session
from advisor.speed import evidence, laws
from advisor.speed.efficiencies import (
    READS_ONLY,
    SIXTEEN_BIT,
    EfficiencyKeys,
    ErrorBound,
    SpeedRules,
    engine_generation,
    find_efficiencies,
    find_error_bound,
    format_class,
    hardware_class,
    has_hbm,
    load_engine_rules,
    load_speed_rules,
)
from advisor.speed.parallel_plan import ParallelPlan
from advisor.speed.rates import SlowerCase, halves_sums, load_machine_rules
from advisor.speed.speculation import RoundTimes, draft_seconds, find_speculation, seconds_per_token
from advisor.speed.steps import LoadPasses, Pass, describe_ranks, plan_checks, plan_passes
from advisor.speed.work import RequestLoad


class Drafted(Value, frozen=True):
    """Seconds a token with speculative decoding, and of a step without."""

    least: float
    usual: float
    most: float
    plain: float
    note: str

    @property
    def gain(self) -> Interval:
        """Times the rate without."""
        return Interval(value=self.plain / self.usual, low=self.plain / self.most, high=self.plain / self.least)


def estimate_speed(
    deployment: Deployment, estimate: MemoryEstimate, session: Session, load: RequestLoad
) -> SpeedEstimate | None:
    """Rates and times of the load on the deployment whose memory is `estimate`; `calibrated`: by what was measured
    here, too.

    Models that embed or score read and write nothing: `prefill_tps` and `ttft_s` alone, no row being of such a model.
    `decode_tps` is one request's rate while only decoding goes on; `tpot_s` its mean time between tokens with the other
    requests' prompts in between; `ttft_s` includes the wait of those that the cache or the engine cannot hold yet.
    None for models whose layers are not known, where a bandwidth or compute peak is not known, and for
    sizes of tensor parallelism that the engine refuses. Raises BadInput where a setting allows no answer.
    """
    rules = session.rules
    if estimate.refused:
        return None
    writes = deployment.model.kind == "chat"
    quantization = rules.quantization(deployment.quantization)
    entry = engines.find_running(deployment, rules)[1]
    made = plan_passes(deployment, estimate, entry, quantization, rules, load)
    if made is None:
        return None
    passes, plan = made
    if passes.disk_unknown:
        text = "a part is read from disk for each token, and how fast that is was not stated (say `NVMe 7GB/s`): slow"
        return SpeedEstimate(basis="modelled", notes=(text,))
    keys = make_efficiency_keys(deployment, quantization, plan, passes.link, rules)
    table = load_speed_rules(rules)
    known = load_engine_rules(rules)
    here = evidence.find_evidence(deployment, keys.format, plan.layout, known.evidence, session)
    efficiencies = find_efficiencies(table, keys)
    drafted = find_drafted(deployment, estimate, session, load, passes, keys)
    times = laws.compute_times(
        passes,
        load.output,
        efficiencies.decode,
        efficiencies.prefill,
        efficiencies.waits,
        drafted.usual if drafted else None,
    )
    reach = _reach_of_unknown(deployment, entry, passes, keys, table, load)
    many = load.concurrency > 1
    least_bound = float(getattr(load_machine_rules(rules).host_bound, passes.host))
    unsure = (drafted.usual / drafted.least, drafted.most / drafted.usual) if drafted else (1.0, 1.0)

    def around(kind: str, value: float, bound: ErrorBound, faster: float = 1.0, slower: float = 1.0) -> Interval:
        wide = max(bound.factor, least_bound)
        least, most = reach[kind]
        if here is not None:
            measured = here.adjust(kind, load, wide)
            wide = measured.bound
            value *= 1 / measured.factor if kind in evidence.TIMES else measured.factor
        return Interval(value=value, low=value * least / wide / slower, high=value * most * wide * faster)

    one = find_error_bound(table, keys, "decode", "tpot")
    kinds = ("offline", "closed", "tpot") if passes.limited else ("closed", "offline", "tpot")
    whole = find_error_bound(table, keys, *kinds) if many else one
    between = find_error_bound(table, keys, "tpot", "static", "closed") if many else one
    prefill = find_error_bound(table, keys, "prefill", "ttft")
    first = find_error_bound(table, keys, "ttft") if many else prefill
    if not writes:
        prefill = first = one = whole = ErrorBound(known.reads_only.bound, READS_ONLY)
    prompts = not passes.products_unknown
    reading = writes and (prompts or not many)  # one sequence's step is all reading
    return SpeedEstimate(
        decode_tps=around(
            "decode",
            1 / times.step,
            find_error_bound(table, keys, "static", "tpot", "closed") if many else one,
            *unsure,
        )
        if reading
        else None,
        prefill_tps=around("prefill", load.prompt / times.prompt, prefill) if prompts else None,
        ttft_s=around("ttft", times.first - (0.0 if writes else times.step), first) if prompts else None,
        tpot_s=around("tpot", times.between, between, unsure[1], unsure[0]) if reading else None,
        output_tps=around("closed", times.rate, whole, *unsure) if prompts and writes else None,
        gain=drafted.gain if drafted else None,
        basis="modelled",
        limited=passes.limited,
        prompt_tokens=load.prompt,
        cached_tokens=load.depth,
        calibration=here.note if here else None,
        notes=_notes(estimate, passes, load, tuple(dict.fromkeys((one.text, whole.text))), table.as_of, drafted),
    )


def _reach_of_unknown(
    deployment: Deployment,
    entry: Engine,
    passes: LoadPasses,
    keys: EfficiencyKeys,
    table: SpeedRules,
    load: RequestLoad,
) -> dict[str, tuple[float, float]]:
    """By kind of quantity, the least and most of it over its value where facts that are not stated vary as usual."""
    backends = entry.speed.other_backends.get(keys.vendor, ()) if deployment.backend is None else ()
    cases = [(passes, keys), *((passes, keys._replace(backend=b)) for b in backends)]
    cases += [(_slow_down(passes, case), keys) for case in passes.slower]
    found = []
    for slower, named in cases:
        e = find_efficiencies(table, named)
        found.append(_quantities(laws.compute_times(slower, load.output, e.decode, e.prefill, e.waits)))
    usual = found[0]
    return {k: (min(f[k] for f in found) / usual[k], max(f[k] for f in found) / usual[k]) for k in usual}


def _slow_down(passes: LoadPasses, case: SlowerCase) -> LoadPasses:
    def scaled(one: Pass, factor: float) -> Pass:
        return replace(one, **{part: getattr(one, part) * factor for part in case.parts})

    return replace(
        passes,
        decode=scaled(passes.decode, case.decode),
        few=scaled(passes.few, case.decode),
        prefill=scaled(passes.prefill, case.prompt),
    )


def _quantities(times: laws.LoadTimes) -> dict[str, float]:
    """By kind, up to a constant."""
    return {
        "decode": 1 / times.step,
        "prefill": 1 / times.prompt,
        "ttft": times.first,
        "tpot": times.between,
        "closed": times.rate,
    }


def find_layout(deployment: Deployment, estimate: MemoryEstimate, rules: Catalog) -> str:
    """How ranks split the model, in one word; empty where that is not modelled."""
    entry = engines.find_running(deployment, rules)[1]
    made = plan_passes(deployment, estimate, entry, rules.quantization(deployment.quantization), rules, RequestLoad())
    return made[1].layout if made else ""


def _notes(
    estimate: MemoryEstimate,
    passes: LoadPasses,
    load: RequestLoad,
    rests_on: tuple[str, ...],
    as_of: str,
    drafted: Drafted | None,
) -> tuple[str, ...]:
    out = [f"efficiencies and bounds from published measurements up to {as_of}: {', '.join(rests_on)}"]
    if estimate.fits is False:
        out.append("it does not fit as it is: this is its speed if it did")
    if load.depth:
        out.append(f"of {load.depth + load.prompt:,} tokens of a prompt {load.depth:,} are in the cache already")
    if passes.limited:
        out.append(f"{math.floor(passes.running)} of {load.concurrency} requests run at once, the rest waits")
    if passes.host == "disk":
        out.append("a part is read from disk for each token: slow, and the system may read more than is needed")
    if passes.host == "assumed":
        out.append(
            "the bandwidth of the host's memory is not known: bounds cover what hosts with this much memory have"
        )
    if passes.products_unknown:
        out.append("the processor's cores are not known: neither prompts nor batches are timed")
    if drafted:
        out.append(drafted.note)
    return tuple(out)


def find_drafted(
    deployment: Deployment,
    estimate: MemoryEstimate,
    session: Session,
    load: RequestLoad,
    passes: LoadPasses,
    keys: EfficiencyKeys,
) -> Drafted | None:
    """What the speculative decoding that the settings ask for makes of a step; None without."""
    rules = session.rules
    entry = engines.find_running(deployment, rules)[1]
    named = rules.engines()[deployment.engine]
    known = load_engine_rules(rules).speculation
    asked = find_speculation(deployment, named if named.draft else entry, known)
    if asked is None:
        return None
    rank = describe_ranks(deployment, estimate, entry, rules.quantization(deployment.quantization), rules)
    if rank is None:
        return None
    reached = find_efficiencies(load_speed_rules(rules), keys).decode
    plain = max(laws.pass_seconds(x, reached) for x in (passes.decode, passes.few))
    checks = plan_checks(deployment, rank, load, asked.checked)
    draft, layers, unlike = None, known.methods[asked.method].layers, False
    if deployment.draft is not None and deployment.draft.model.layout is not None and not layers:
        draft, layers = _draft_step(deployment, estimate, session, load), deployment.draft.model.layout.n_layers
        unlike = deployment.draft.model.model_type != deployment.model.model_type
    times = RoundTimes(
        plain=plain,
        check=max(plain, min(laws.pass_seconds(x, reached) for x in checks)),
        mixers=checks[0].other_mixers if checks[0].scan_s else 0,
        draft=draft_seconds(asked, known, passes.decode, rank, reached) if draft is None else draft,
        layers=layers,
        requests=passes.batch,
        vendor=keys.vendor,
        hbm=has_hbm(next(iter(fitting.used_devices(deployment)), None), rules),
        sparse=deployment.model.is_moe,
    )
    text = known.texts.get(load.use_case, "chat")
    least, usual, most = seconds_per_token(asked, known, entry.id, times, text, unlike=unlike)
    seen = asked.method in known.gains.get(entry.id, ())
    if not seen or passes.batch > 1 or times.sparse or known.find_cost(entry.id).mixer * times.mixers:
        most = max(most, plain)  # no published pairs of this kind, or some that lose
    note = f"speculative decoding ({asked.method}): the share of drafted tokens that is accepted depends on the text"
    if asked.method == "unknown":
        note += "; this method is not known, its bounds are those of all"
    elif deployment.draft is None and engines.find_draft_name(deployment.settings, entry):
        note += "; the draft is not in the catalogue and is sized as usual for the method"
    return Drafted(least, usual, max(usual, most), plain, note)


def _draft_step(deployment: Deployment, estimate: MemoryEstimate, session: Session, load: RequestLoad) -> float | None:
    """Seconds of a decode step of the draft model, on the model's devices; None where it is not known."""
    draft, rules = deployment.draft, session.rules
    if draft is None:
        return None
    entry = engines.find_running(deployment, rules)[1]
    alone = replace(
        deployment, model=draft.model, quantization=draft.quantization.id, model_path=draft.path, draft=None
    )
    found = plan_passes(alone, estimate, entry, draft.quantization, rules, load)
    if found is None:
        return None
    keys = make_efficiency_keys(alone, draft.quantization, found[1], found[0].link, rules)
    return float(laws.pass_seconds(found[0].decode, find_efficiencies(load_speed_rules(rules), keys).decode))


def make_efficiency_keys(
    deployment: Deployment, quantization: Quantization, plan: ParallelPlan, link: str, rules: Catalog
) -> EfficiencyKeys:
    """What the factors of the rules are looked up by."""
    device, layout = next(iter(fitting.used_devices(deployment)), None), deployment.model.layout
    usual = USUAL_BACKENDS.get(device.vendor) if device else None
    return EfficiencyKeys(
        family=plan.family,
        engine=engines.find_running(deployment, rules)[1].id,  # a wrapper is what it runs
        generation=engine_generation(rules.engines()[deployment.engine], deployment.engine_version),
        vendor=device.vendor if device else "cpu",
        hardware=hardware_class(device, rules),
        format=format_class(quantization),
        link=link,
        prompt_format=SIXTEEN_BIT if plan.wide_products else "",
        backend="" if deployment.backend == usual else deployment.backend or "",
        unit=_unit(device, plan, rules),
        layers="moe" if layout and any(isinstance(x, Moe) for x in layout.ffn) else "dense",
    )


def _unit(device: Device | None, plan: ParallelPlan, rules: Catalog) -> str:
    if plan.vector_attention:
        return "vector"
    return "half" if device is not None and not plan.integer and halves_sums(device, rules) else ""
