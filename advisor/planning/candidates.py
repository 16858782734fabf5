"""What is tried on one engine: weight formats x cache types x cards x host memory, the best first, pruned by bounds."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from advisor import formats
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.decision.evaluate import Additions, find_additions
from advisor.decision.starts import needs_remote_code
from advisor.decision.types import Scalar
from advisor.deployment import Deployment, KvType, MemoryEstimate, SpeedEstimate
from advisor.engines import capacity, fitting
from advisor.engines.additions import find_longer_settings, find_npu_build, with_longest_prompt
from advisor.engines.base import EngineModule
from advisor.engines.flag_tables import list_accepted_values
from advisor.engines.flags import find_own_flag, takes_share_of_device
from advisor.engines.llama_cpp.plan import count_file_bytes
from advisor.errors import BadInput
from advisor.estimation import estimate_memory, with_draft
from advisor.machines.types import Machine
from advisor.memory.draft_bound import load_draft_rules
from advisor.memory.hf_weights import FP4_EXPERTS
from advisor.models.types import Model, native_format
from advisor.planning import objective
from advisor.planning.format_candidates import FOUR_BIT_QUALITY, list_cache_types, order_formats
from advisor.planning.holding import find_holding, list_why_not
from advisor.planning.layouts import left_to_engine, with_settings, with_visible_devices
from advisor.planning.recipes import find_draft_recipe, find_tool_parser, with_recipe
from advisor.planning.rules import load_workload_defaults
from advisor.planning.traffic import estimate_wait
from advisor.planning.types import CardLayout, Plan, SearchRequest, TriedFormat
from advisor.record import Value
from advisor.render.words import make_model_reference
from advisor.session import Session
from advisor.units import format_gib

INTERFACES = (
    "NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME and NCCL_IB_HCA on each node, where it has more interfaces than that of "
    "the link"
)
SPECULATIVE = "workload.speculative"  # the fact that speculative decoding is asked for
LEAST_SHARE = 0.8  # of parameters x bits: no format of the catalogue stores less
FREE_SHARE = 0.97  # of what is free on a busy card: what a server may ask for without failing at start


class EngineTools(Value, frozen=True):
    """What estimates and settings of one engine need."""

    entry: Engine
    module: EngineModule
    inner: Engine  # the entry whose memory constants it reads
    named: Engine  # the entry whose names its settings have
    added: Additions
    session: Session
    warnings: tuple[str, ...] = ()  # of the hard filters


class Attempt(Value, frozen=True):
    """A format with a cache type, on the cards alone or with host memory next to them."""

    chosen: formats.FormatChoice
    cache: str
    offload: bool
    narrow: bool  # below four bits


def list_attempts(tools: EngineTools, search: SearchRequest, usable: list[formats.FormatChoice]) -> list[Attempt]:
    """What is tried, the best first: cards alone before host memory, four bits and more before less."""
    gguf = formats.format_family(tools.entry, tools.session.rules) == "gguf"
    both = (False, True) if gguf and search.machine.usable_devices else (False,)
    order = list(order_formats(usable, list_cache_types(tools.inner, search)))
    attempts = (
        Attempt(chosen, kv, offload, chosen.quantization.quality < FOUR_BIT_QUALITY)
        for offload in both
        for kv, chosen in order
        if search.cache in (None, kv)
    )
    return [a for a in attempts if search.narrow or not a.narrow]


def make_base(tools: EngineTools, search: SearchRequest, attempt: Attempt, machine: Machine) -> Deployment:
    """The deployment of an attempt for one request on a machine, before it is laid out over cards."""
    entry, added, context = tools.entry, tools.added, search.traffic.context_length
    base = Deployment(
        model=search.model,
        engine=entry.id,
        engine_version=(search.policy.version(entry.id, search.facts) or (None,))[0]
        or machine.installed_version(entry.id),
        quantization=attempt.chosen.quantization.id,
        machine=machine,
        backend=_faster_backend(entry, search.model, machine) if search.backend is None else search.backend.lower(),
        context_length=context,
        kv_cache_type=KvType(k=attempt.cache, v=attempt.cache),
        model_path=search.path,
        settings=dict(added.settings),
        because=dict(added.because),
        port=(entry.port or 8000) + search.port_offset if search.port_offset else None,
    )
    settings = with_longest_prompt(base.settings, entry, context)
    if settings != base.settings:
        new = dict.fromkeys(settings.keys() - base.settings.keys(), "the longest prompt is fixed at start")
        base = replace(base, settings=settings, because={**base.because, **new})
    base = with_draft(base, entry, tools.session.rules)[0] if added.settings else base
    base = with_recipe(base, tools.session.rules, search.workload.calls_tools)
    batch, step = find_own_flag(tools.named, "logical_batch"), find_own_flag(tools.named, "batched_tokens")
    if batch and step and search.model.kind != "chat":  # an input has to fit into one batch
        base = with_settings(base, {batch: context, step: context})
    share = _memory_share(entry, machine, tools.session.rules)
    flag = find_own_flag(entry, "memory_share")
    if share is None or flag is None:
        return base
    why = {**base.because, flag: "a part of what is free: the system, or others, use the same memory"}
    return with_settings(replace(base, because=why), {flag: share})


def _faster_backend(entry: Engine, model: Model, machine: Machine) -> str | None:
    """The backend that is faster on all cards of a Linux machine than their vendor's own; None for that."""
    cards = machine.usable_devices if machine.os == "linux" else ()
    listed = (x for x in entry.faster_backends if cards and all(d.gfx in x.devices for d in cards))
    return next((x.backend for x in listed if model.is_moe or not x.sparse), None)


def _memory_share(entry: Engine, machine: Machine, rules: Catalog) -> float | None:
    """The share of each device to ask for: less than the engine's own where the system or others live there, too."""
    devices = machine.usable_devices
    if not takes_share_of_device(entry) or not devices:
        return None
    shares = [load_workload_defaults(rules).unified_memory_share] if any(d.unified for d in devices) else []
    for device in devices:
        if device.free_bytes is not None and device.total_bytes and device.free_bytes < 0.9 * device.total_bytes:
            shares.append(math.floor(100 * FREE_SHARE * device.free_bytes / device.total_bytes) / 100)
    return max(0.05, min(shares)) if shares else None


def find_too_large(
    tools: EngineTools, search: SearchRequest, quantization: Quantization, host: bool
) -> TriedFormat | None:
    """Formats whose weights alone, at the least, exceed all memory there is: no estimate is needed to refuse them."""
    sizes = [x.free_bytes if x.free_bytes is not None else x.total_bytes for x in search.machine.usable_devices]
    ram = search.machine.memory.usable_bytes
    if any(s is None for s in sizes) or search.path is not None or ((host or not sizes) and ram is None):
        return None
    available = sum(s for s in sizes if s is not None) * search.machine.nodes + ((ram or 0) if host or not sizes else 0)
    mixed = search.model.has_fp4_experts and native_format(search.model) == quantization.id
    bits = FP4_EXPERTS if mixed else quantization.bits_nominal
    least = int(LEAST_SHARE * search.model.params_total * bits / 8)
    if formats.format_family(tools.entry, tools.session.rules) == "gguf" and least > LEAST_SHARE**2 * available:
        with suppress(BadInput):
            least = count_file_bytes(search.model, quantization.id, host or not sizes)
    if least <= available:
        return None
    text = f"{quantization.id} does not fit: {format_gib(least)} of weights at the least, {format_gib(available)} there"
    alone = least if not (host and sizes) else None  # what lies where is not known yet
    return TriedFormat(quantization=quantization.id, fits=False, text=text, needs_bytes=alone)


WIDER = 1.2  # bits over another format's: what is this much wider is larger, whatever each leaves at 16 bit
FAR = 1.15  # formats of one width differ by less, so where one is short by this much all of its width are


class Bounds:
    """What is known not to start: with host memory or without, formats of so many bits and more."""

    def __init__(self) -> None:
        self.floor = {False: math.inf, True: math.inf}

    def refuses(self, attempt: Attempt) -> bool:
        """Whether a narrower format with the smaller cache did not start."""
        return attempt.chosen.quantization.bits_nominal >= self.floor[attempt.offload]

    def learn(self, attempt: Attempt, deployment: Deployment, estimate: MemoryEstimate) -> None:
        """Remember that the format does not start on all cards: clearly wider ones do not either, nor, where it is far
        from it, those of its own width."""
        bits = attempt.chosen.quantization.bits_nominal
        floor = bits if is_far(deployment, estimate) else WIDER * bits
        self.floor[attempt.offload] = min(self.floor[attempt.offload], floor)


def is_far(deployment: Deployment, estimate: MemoryEstimate) -> bool:
    """Whether a place wants far more than it has; memory that devices and host share is one place."""
    together = fitting.merge_rows(deployment, estimate.devices, estimate.host)
    places = [r for r in (*estimate.devices, estimate.host, together) if r is not None and r.budget_bytes is not None]
    return any((r.low_bytes or 0) > FAR * (r.budget_bytes or 0) for r in places)


def find_smallest(attempts: Sequence[Attempt], offload: bool) -> Attempt | None:
    """The attempt that takes the least memory; None where there is little to save by asking it first."""
    here = [a for a in attempts if a.offload is offload]
    if len(here) < 4:
        return None
    return min(here, key=lambda a: (a.chosen.quantization.bits_nominal, a.cache == "auto"))


def describe_failure(deployment: Deployment, estimate: MemoryEstimate, quantization: Quantization) -> str:
    """Why a deployment does not fit, in one line."""
    weights = sum(r.weights_bytes or 0 for r in estimate.devices) or (
        estimate.host.weights_bytes or 0 if estimate.host else 0
    )
    cards = f" on {len(estimate.devices)} cards" if len(estimate.devices) > 1 else ""
    cache = "" if deployment.kv_cache_type.k == "auto" else f" with {deployment.kv_cache_type.k} KV cache"
    what = (
        "; ".join(dict.fromkeys(estimate.short))
        or "; ".join(w for w in estimate.warnings if "divisible" in w or "needs" in w)
        or "not enough memory"
    )
    return (
        f"{quantization.id}{cards}{cache} does not fit: {format_gib(weights)} ({weights / 1e9:.1f} GB) of weights; "
        f"{what}"
    )


class SmallDraft(Value, frozen=True):
    """A draft, and where its GGUF files are, if any are known."""

    model: str
    gguf: str | None


def find_small_draft(model: Model, entry: Engine, rules: Catalog) -> SmallDraft | None:
    """The draft for a model: the smallest of its family, else of its type; None without one, or with an own block.

    What makes a pair is a rule (same maker, the same vocabulary), not a list, so that it holds for models that nobody
    paired: `small_models` of rules/drafts.yaml.
    """
    known = load_draft_rules(rules).small_models
    if model.layout is None or model.mtp is not None or model.kind != "chat":
        return None
    maker, most = model.id.partition("/")[0], known.share * (model.params_active or model.params_total)
    near = known.vocabulary_within.get(entry.id, 0)
    rows = [
        r
        for r in rules.model_index()
        if r.kind == "chat" and not r.stub and r.params_total <= most and r.id.partition("/")[0] == maker
    ]
    for row in sorted(rows, key=lambda r: (r.family != model.family, r.params_total, r.id)):
        small = rules.find_model(row.id)
        alike = row.family == model.family or small.model_type == model.model_type
        if small.layout is None or not alike or small.id.lower().endswith("-base"):
            continue
        if abs(small.layout.vocab_size - model.layout.vocab_size) <= near:
            gguf = next(iter(small.gguf_repos), None)
            return SmallDraft(small.id, f"{gguf}:{known.gguf}" if gguf else None)
    return None


def find_engine_additions(entry: Engine, search: SearchRequest, rules: Catalog) -> Additions:
    """What the guide adds to this engine's launch, with the fields that depend on the engine filled in."""
    known = {**search.facts, "model.tool_parser": find_tool_parser(entry.id, search.model, rules)}
    if search.facts.get("workload.accelerator") == "npu":
        build = find_npu_build(search.model, entry, search.facts.get("npu"))
        known |= {"model.npu_build": build.name, "model.npu_gb": f"{build.gb:g}"} if build is not None else {}
    if entry.draft is not None and entry.draft.own and search.model.model_type not in entry.draft.own:
        known["model.mtp"] = False
    if search.facts.get(SPECULATIVE):
        draft = find_small_draft(search.model, entry, rules)
        known |= {"model.draft": draft.model, "model.draft_gguf": draft.gguf} if draft is not None else {}
    rank = search.facts.get("workload.lora_rank")
    if isinstance(rank, int):
        known["workload.lora_rank_step"] = _rank_step(entry, rank, rules)
    found, more = find_additions(search.guide, known, entry.id), dict[str, Scalar]()
    drafting = find_draft_recipe(entry.id, search.model, search.machine, rules) if search.facts.get(SPECULATIVE) else {}
    if drafting and not search.facts.get("workload.lora_adapters"):
        why = dict.fromkeys(drafting, f"the {entry.name} recipe of {search.model.id.rpartition('/')[2]} drafts so")
        found = replace(found, settings={**found.settings, **drafting}, because={**found.because, **why})
    longer, why = find_longer_settings(search.model, search.traffic.context_length, entry), dict[str, str]()
    if longer and (documented := search.model.longer) is not None:
        more |= longer
        why |= dict.fromkeys(longer, f"{documented.factor:g} times its trained length, as {documented.source} says")
    if needs_remote_code(entry, search.model, rules):
        flag = entry.concepts.remote_code.flags[0]
        more[flag], why[flag] = True, "its configuration is code of its own repository"
    return replace(found, settings={**more, **found.settings}, because={**why, **found.because}) if more else found


def _rank_step(entry: Engine, rank: int, rules: Catalog) -> int | None:
    """The least rank that the engine takes and that holds the adapters; None where they are larger than all of them."""
    sizes = [int(x) for x in list_accepted_values(entry, "lora_rank", rules)]
    return min((x for x in sizes if x >= rank), default=None) if sizes else rank


class Trial(Value, frozen=True):
    """An attempt on an engine for a request; `bounds` and `tried` gather what was refused."""

    tools: EngineTools
    search: SearchRequest
    attempt: Attempt
    bounds: Bounds
    tried: list[TriedFormat]


def ask(trial: Trial, deployment: Deployment) -> MemoryEstimate | None:
    """The memory of a deployment; None, and noted among what was tried, where it allows no answer."""
    quantization, tools, known = trial.attempt.chosen.quantization, trial.tools, trial.search.known
    key = _key(deployment) if known is not None else None
    found: tuple[Deployment, MemoryEstimate | str] | None = known.get(key) if known is not None else None
    if found is None:
        try:
            answer: MemoryEstimate | str = estimate_memory(
                deployment, tools.module, tools.inner, quantization, tools.session
            )
        except BadInput as e:
            answer = e.message
        found = (deployment, answer)  # the key has identities of what the deployment holds
        if known is not None:
            known[key] = found
    if isinstance(found[1], str):
        trial.tried.append(TriedFormat(quantization=quantization.id, fits=None, text=found[1]))
        return None
    return found[1]


def _key(deployment: Deployment) -> Hashable:
    """What of a deployment decides its memory, among those of one model."""
    d, kv = deployment, deployment.kv_cache_type
    parts = (d.engine, d.quantization, kv.k, kv.v, d.context_length, d.sequences, d.device_count, id(d.machine))
    return *parts, tuple(d.settings.items()), id(d.model), d.model_path


def estimate_rate(
    trial: Trial, deployment: Deployment, memory: MemoryEstimate, users: int, long: bool = False
) -> SpeedEstimate | None:
    """The speed of a deployment for so many users; `long`: with a prompt of the 95th percentile."""
    tools, search = trial.tools, trial.search
    shared = capacity.keeps_prefixes(deployment, tools.inner)
    known = search.known
    key = ("speed", _key(deployment), id(memory), users, long) if known is not None else None
    if known is not None and key in known:
        return known[key][-1]  # type: ignore[no-any-return]  # as it was put in below
    speed = objective.estimate_traffic_speed(deployment, memory, search.traffic, users, shared, tools.session, long)
    if known is not None:
        known[key] = (deployment, memory, speed)  # the key has identities of these
    return speed


def note_failure(trial: Trial, deployment: Deployment, memory: MemoryEstimate) -> None:
    """Note that a deployment does not fit, and where it has all cards what of its width and wider does not either."""
    quantization, machine = trial.attempt.chosen.quantization, deployment.machine
    text = describe_failure(deployment, memory, quantization)
    rows = memory.devices or ((memory.host,) if memory.host is not None else ())
    known = [x.high_bytes for x in rows if x.high_bytes is not None]
    needs = sum(known) if known and len(known) == len(rows) and not trial.attempt.offload else None
    trial.tried.append(TriedFormat(quantization=quantization.id, fits=False, text=text, needs_bytes=needs))
    every = machine is None or len(machine.usable_devices) == len(trial.search.machine.usable_devices)
    if memory.short and every:
        trial.bounds.learn(trial.attempt, deployment, memory)


def count_held(trial: Trial, deployment: Deployment, memory: MemoryEstimate) -> int:
    """Requests of the traffic that a copy holds."""
    traffic, inner = trial.search.traffic, trial.tools.inner
    request = capacity.RequestTokens(memory.context_length)
    if not traffic.full_length:
        shared = traffic.shared_tokens if capacity.keeps_prefixes(deployment, inner) else 0
        request = capacity.RequestTokens(traffic.typical_tokens, shared)
    return capacity.count_held(deployment, memory, inner, [request])[0] or 0


class PlannedCopy(Value, frozen=True):
    """A copy as it is launched, with how many there are: `servers` behind a router, of `copies` in all."""

    deployment: Deployment
    memory: MemoryEstimate
    layout: CardLayout
    speed: SpeedEstimate | None  # of one copy
    on_time: bool | None
    servers: int = 1
    copies: int = 1


def make_plan(trial: Trial, copy: PlannedCopy) -> Plan:
    """A plan with what it holds and how fast it is as a whole."""
    traffic, whole = trial.search.traffic, trial.search.whole or trial.search.machine
    deployment = with_visible_devices(copy.deployment, whole)
    holding = find_holding(deployment, copy.memory, traffic, trial.tools.session, copy.servers)
    holds = holding.holds
    if holds is not None:
        served = objective.request_seconds(copy.speed, traffic, holds)
        holds = replace(holds, wait_s=estimate_wait(holds, traffic, served))
    return Plan(
        deployment=deployment,
        memory=copy.memory,
        quantization=trial.attempt.chosen.quantization,
        offload=trial.attempt.offload or left_to_engine(copy.memory, deployment.model),
        notes=(),
        tried=(),
        layout=copy.layout,
        servers=copy.servers,
        # a plan promises the whole length, not that the engine starts with a shorter one
        starts=None if holding.starts and copy.memory.fits is None else holding.starts,
        why_not=list_why_not(holding, copy.memory),
        conditions=(
            *(holding.start.list_conditions() if holding.start is not None else ()),
            *([missing] if (missing := make_model_reference(deployment, trial.tools.session.rules).missing) else []),
            *([INTERFACES] if copy.layout.nodes > 1 and copy.copies == 1 else []),
        ),
        holds=holds,
        speed=objective.scale_speed(copy.speed, copy.copies),
        on_time=copy.on_time,
    )


def make_unsure_plan(trial: Trial, deployment: Deployment, memory: MemoryEstimate, layout: CardLayout) -> Plan | None:
    """A plan that may start; None where it would take what the system needs of a memory that both share."""
    one = fitting.merge_rows(deployment, memory.devices, memory.host)
    if one is not None and one.total_bytes and one.budget_bytes and one.total_bytes > one.budget_bytes:
        short = f"{one.name}: about {format_gib(one.total_bytes)} needed, {format_gib(one.budget_bytes)} there"
        note_failure(trial, deployment, replace(memory, short=(short,)))
        return None
    traffic = trial.search.traffic
    speed = objective.estimate_traffic_speed(deployment, memory, traffic, traffic.users, False, trial.tools.session)
    plan = make_plan(trial, PlannedCopy(deployment, memory, layout, speed, None))
    return plan if plan.starts is False else replace(plan, starts=None)
